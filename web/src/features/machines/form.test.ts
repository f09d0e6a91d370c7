import { expect, it } from "vitest";
import { RequestError } from "@/lib/graphql";
import { emptyMachine, fieldOf, lacksRoom, toCreate, toUpdate, validateMachine } from "./form";
import { compute, warehouse } from "./kinds";
import { logText } from "./log";
import { stopText } from "./stop";

const model = { ...emptyMachine, name: " etl ", flavor: "cpu.1" };

it("makes the input of each kind, without what is left out", () => {
  expect(toCreate(compute, model)).toEqual({ name: "etl", autoStop: "1h", flavor: "cpu.1" });
  expect(toCreate(warehouse, { ...model, image: "dev", slots: 3 })).toEqual({
    name: "etl",
    autoStop: "1h",
    size: "cpu.1",
    image: "dev",
    slots: 3,
  });
});

it("changes only what differs: an omitted image is not pinned again", () => {
  expect(toUpdate(compute, "cmp_1", model, { ...model, autoStop: "never" })).toEqual({
    id: "cmp_1",
    autoStop: "never",
  });
  const was = { ...model, image: "dev", slots: 3 };
  expect(toUpdate(warehouse, "wh_1", was, { ...was, flavor: "cpu.2", image: "", slots: "" })).toEqual({
    id: "wh_1",
    size: "cpu.2",
    image: "",
    slots: 0,
  });
});

it("has Trino's fields only if Trino is chosen", () => {
  const trino = { ...model, writeEngine: "trino", nodes: 3, trinoStart: "with_warehouse" };
  expect(toCreate(warehouse, trino)).toMatchObject({
    writeEngine: "trino",
    nodes: 3,
    trinoStart: "with_warehouse",
  });
  expect(toCreate(warehouse, { ...trino, writeEngine: "duckdb" })).toEqual({
    name: "etl",
    autoStop: "1h",
    size: "cpu.1",
    writeEngine: "duckdb",
  });
  expect(toCreate(warehouse, { ...trino, writeEngine: "auto" })).not.toHaveProperty("nodes");
  expect(toUpdate(warehouse, "wh_1", trino, { ...trino, nodes: 5 })).toEqual({ id: "wh_1", nodes: 5 });
  expect(toUpdate(warehouse, "wh_1", trino, { ...trino, writeEngine: "duckdb" })).toEqual({
    id: "wh_1",
    writeEngine: "duckdb",
    nodes: 1,
    trinoStart: "first_write",
  });
  expect(validateMachine({ ...trino, nodes: 17 })).toHaveProperty("nodes");
  expect(validateMachine({ ...trino, nodes: "" })).toHaveProperty("nodes");
  expect(validateMachine({ ...trino, writeEngine: "duckdb", nodes: 17 })).toEqual({});
});

it("warns that there is no room, but not of what a running machine has already", () => {
  const full = { name: "cpu.1", available: false };
  expect(lacksRoom(full, undefined)).toBe(true);
  expect(lacksRoom(full, "cpu.1")).toBe(false);
  expect(lacksRoom(full, "cpu.2")).toBe(true);
  expect(lacksRoom({ ...full, available: true }, undefined)).toBe(false);
});

it("says how much a stop cancels", () => {
  expect(stopText(compute, 2)).toMatch(/^2 tasks run on it and will be cancelled first\. Tasks with retries/);
  expect(stopText(compute, 1)).toMatch(/^1 task runs on it/);
  expect(stopText(compute, 0)).toMatch(/^Tasks that run on it are cancelled first\. Tasks with retries/);
  expect(stopText(warehouse, 3)).toBe("3 statements run on it and will be cancelled first.");
});

it("says what is missing", () => {
  expect(Object.keys(validateMachine(emptyMachine))).toEqual(["name", "flavor"]);
  expect(validateMachine({ ...model, slots: 1.5 })).toHaveProperty("slots");
  expect(validateMachine({ ...model, slots: 8 })).toEqual({});
});

it("places a refusal at its field", () => {
  const refused = (code: string, message: string, field?: string) =>
    new RequestError([{ message, extensions: { code, ...(field ? { field } : {}) } }], 200);
  expect(fieldOf(refused("INVALID", "…", "auto_stop"))).toBe("autoStop");
  expect(fieldOf(refused("INVALID", "…", "size"))).toBe("flavor");
  expect(fieldOf(refused("INVALID", "…", "writeEngine"))).toBe("writeEngine");
  expect(fieldOf(refused("CONFLICT", 'There is a warehouse named "a" already; choose another name.'))).toBe(
    "name",
  );
  expect(fieldOf(refused("CONFLICT", "There is no room."))).toBeUndefined();
});

it("reads the end of a log from a whole line on, without colours", () => {
  const log = "cut\n\x1b[32mone\x1b[0m\r\ntwo";
  expect(logText(btoa(log), 1000)).toBe("cut\none\ntwo");
  expect(logText(btoa(log), log.length)).toBe("one\ntwo");
  expect(logText("", 10)).toBe("");
});
