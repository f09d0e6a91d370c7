import { Group, MultiSelect, SegmentedControl, Select, Switch, Table, Text } from "@mantine/core";
import { IconChartLine } from "@tabler/icons-react";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { formatCount } from "@/lib/format";
import { isNumeric, type ResultSource } from "@/lib/result";
import Chart from "@/ui/Chart";
import { EmptyState, ErrorPanel, PanelSkeleton } from "@/ui/States";
import { type ChartChoice, type ChartKind, chartAtMost, chartOption, points, proposal } from "./chart";

const kinds: { value: ChartKind; label: string }[] = [
  { value: "line", label: "Line" },
  { value: "bar", label: "Bar" },
  { value: "area", label: "Area" },
  { value: "scatter", label: "Scatter" },
];
const tableAtMost = 200;

/** A chart of a result, which can be read as a table as well. */
export default function ResultChart({ source }: { source: ResultSource }) {
  const version = useSyncExternalStore(source.subscribe, source.version);
  const rows = Math.min(source.rowCount, chartAtMost);
  const [failure, setFailure] = useState<unknown>(null);
  const [choice, setChoice] = useState<ChartChoice | null>(() => proposal(source.columns, source.rowCount));
  const [asTable, setAsTable] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    setFailure(null);
    source.need(0, rows, stop.signal).catch((e) => !stop.signal.aborted && setFailure(e));
    return () => stop.abort();
  }, [source, rows]);
  const here = rows > 0 && source.cell(rows - 1, 0) !== undefined && source.cell(0, 0) !== undefined;
  const y = choice?.y.map((c) => source.columns[c]?.name).join(", ");
  const label = choice
    ? `${y} by ${choice.x < 0 ? "row" : source.columns[choice.x]?.name}, ${choice.kind} chart`
    : "";
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows are read again when they have changed
  const data = useMemo(
    () => (choice && here ? points(source, choice, rows) : null),
    [source, choice, here, rows, version],
  );
  const option = useMemo(
    () => (choice && data ? chartOption(source.columns, choice, data, label) : null),
    [source, choice, data, label],
  );
  if (!choice)
    return (
      <EmptyState icon={IconChartLine} title="There are no numbers to draw">
        A chart needs a column of numbers. Count or sum something, and group it.
      </EmptyState>
    );
  const columns = source.columns.map((c, i) => ({ value: String(i), label: c.name }));
  const numbers = columns.filter((_, i) => isNumeric(source.columns[i]?.type ?? ""));
  return (
    <div className="sql-chart">
      <Group gap="xs" className="sql-chart-tools">
        <SegmentedControl
          size="xs"
          aria-label="Kind of chart"
          data={kinds}
          value={choice.kind}
          onChange={(kind) => setChoice({ ...choice, kind: kind as ChartKind })}
        />
        <Select
          size="xs"
          w={160}
          aria-label="Across"
          allowDeselect={false}
          data={[{ value: "-1", label: "row number" }, ...columns]}
          value={String(choice.x)}
          onChange={(x) => x !== null && setChoice({ ...choice, x: Number(x) })}
        />
        <MultiSelect
          size="xs"
          miw={180}
          aria-label="Upwards"
          data={numbers}
          value={choice.y.map(String)}
          maxValues={8}
          onChange={(v) => v.length > 0 && setChoice({ ...choice, y: v.map(Number) })}
        />
        <Switch
          size="xs"
          label="Show as table"
          checked={asTable}
          onChange={(e) => setAsTable(e.currentTarget.checked)}
        />
        {source.rowCount > rows && (
          <Text size="xs" c="dimmed">
            the first {formatCount(rows)} rows
          </Text>
        )}
      </Group>
      {failure !== null && <ErrorPanel error={failure} />}
      {!option && failure === null && <PanelSkeleton height={260} />}
      {option && !asTable && (
        <div className="sql-chart-room">
          <Chart option={option} label={label} />
        </div>
      )}
      {data && asTable && <ChartTable source={source} choice={choice} data={data} label={label} />}
    </div>
  );
}

function ChartTable({
  source,
  choice,
  data,
  label,
}: {
  source: ResultSource;
  choice: ChartChoice;
  data: ReturnType<typeof points>;
  label: string;
}) {
  return (
    <div className="sql-chart-table">
      <Table aria-label={label} className="rows" stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{choice.x < 0 ? "row" : source.columns[choice.x]?.name}</Table.Th>
            {choice.y.map((c) => (
              <Table.Th key={c} ta="right">
                {source.columns[c]?.name}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {data.slice(0, tableAtMost).map((p, r) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a point is its row
            <Table.Tr key={r}>
              <Table.Td>{p.x}</Table.Td>
              {choice.y.map((c) => (
                <Table.Td key={c} ta="right">
                  {source.cell(r, c) ?? <i className="dim">NULL</i>}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {data.length > tableAtMost && (
        <Text size="xs" c="dimmed" p="xs">
          The first {tableAtMost} of {formatCount(data.length)} points. All are in the result.
        </Text>
      )}
    </div>
  );
}
