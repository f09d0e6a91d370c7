import { QueryClient } from "@tanstack/react-query";
import { afterEach, expect, it, vi } from "vitest";
import type { RunStateFragment } from "@/gql/gen";
import { liveKey, runQuery } from "./queries";

afterEach(() => vi.unstubAllGlobals());

const state = (status: string) =>
  ({ id: "run_1", status, tasks: [{ key: "a", status }], attempts: [] }) as unknown as RunStateFragment;

it("a state that was pushed while an answer was on its way holds over the answer", async () => {
  const qc = new QueryClient();
  let answer: (r: Response) => void = () => {};
  vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => (answer = resolve)));
  const got = qc.fetchQuery(runQuery("run_1"));
  qc.setQueryData(liveKey("run_1"), { state: state("SUCCESS"), at: performance.now() });
  const run = { ...state("RUNNING"), tasks: [{ key: "a", status: "RUNNING", command: "x" }] };
  answer(new Response(JSON.stringify({ data: { run } })));
  expect((await got).run).toMatchObject({ status: "SUCCESS", tasks: [{ status: "SUCCESS", command: "x" }] });
});

it("an answer that was asked for later holds over what was pushed before", async () => {
  const qc = new QueryClient();
  qc.setQueryData(liveKey("run_1"), { state: state("RUNNING"), at: performance.now() - 1000 });
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ data: { run: state("FAILED") } })));
  expect((await qc.fetchQuery(runQuery("run_1"))).run).toMatchObject({ status: "FAILED" });
});
