import { expect, it } from "vitest";
import { engineName, hasTrino, nodesText, writesWith } from "./engine";

it("writes engines as they are called", () => {
  expect(["duckdb", "trino", "other"].map(engineName)).toEqual(["DuckDB", "Trino", "other"]);
  expect(writesWith({ writeEngine: "duckdb", nodes: 1 })).toBe("Writes with DuckDB");
  expect(writesWith({ writeEngine: "trino", nodes: 3 })).toBe("Writes with Trino, 3 nodes");
});

it("knows where statements can name Trino, also before the first start", () => {
  const duckdb = { name: "duckdb", version: "1", state: null, message: null, nodes: null };
  expect(hasTrino({ writeEngine: "duckdb", engines: [duckdb] })).toBe(false);
  expect(hasTrino({ writeEngine: "trino", engines: [] })).toBe(true);
});

it.each([
  [null, null, 3, null],
  ["STOPPED", null, 3, "3 nodes when it runs"],
  ["STOPPED", null, 1, "1 node when it runs"],
  ["FAILED", null, 2, "2 nodes when it runs"],
  ["STARTING", null, 1, "1 node when it runs"],
  ["STARTING", null, 3, "0 of 3 nodes"],
  ["RUNNING", 1, 3, "1 of 3 nodes"],
  ["RUNNING", 3, 3, "3 nodes"],
  ["RUNNING", 1, 1, "1 node"],
  ["RUNNING", 3, 1, "3 nodes; 1 wanted"],
] as const)("tells the nodes of an engine that is %s with %s of %s", (state, nodes, wanted, text) => {
  expect(nodesText({ state, nodes }, wanted)).toBe(text);
});
