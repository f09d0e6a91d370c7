import { expect, it } from "vitest";
import { engineChoices, engineOn, namedEngine } from "./engine";

const duckdb = { writeEngine: "duckdb", engines: [] };
const trino = { writeEngine: "trino", engines: [] };

it("offers Trino where the warehouse has it, and says what automatic means", () => {
  expect(engineChoices(duckdb).map((c) => c.value)).toEqual(["auto", "duckdb"]);
  expect(engineChoices(trino).map((c) => c.value)).toEqual(["auto", "duckdb", "trino"]);
  expect(engineChoices(trino)[0]?.about).toBe("reads DuckDB, writes Trino");
});

it("asks for no engine that the warehouse does not have", () => {
  expect(engineOn(trino, "trino")).toBe("trino");
  expect(engineOn(duckdb, "trino")).toBeUndefined();
  expect(engineOn(undefined, undefined)).toBeUndefined();
});

it.each([
  ["a read by DuckDB", "duckdb", false, "SELECT", "trino", undefined],
  ["a read by Trino", "trino", false, "SELECT", "trino", "trino"],
  ["a write by the write engine", "trino", true, "INSERT", "trino", undefined],
  ["a write by DuckDB beside Trino", "duckdb", true, "INSERT", "trino", "duckdb"],
  ["a view", "duckdb", true, "CREATE VIEW", "trino", undefined],
  ["what no engine has read", null, false, null, "trino", undefined],
] as const)("knows whether %s named its engine", (_, engine, write, kind, writeEngine, named) => {
  const warehouse = { __typename: "Warehouse", id: "w", name: "w", state: "RUNNING", writeEngine } as const;
  expect(namedEngine({ engine, write, kind, warehouse })).toBe(named);
});
