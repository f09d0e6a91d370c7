import { ParallelChart as Parallel } from "echarts/charts";
import { ParallelComponent } from "echarts/components";
import { use } from "echarts/core";
import Chart from "@/ui/Chart";

use([Parallel, ParallelComponent]);

export default Chart;
