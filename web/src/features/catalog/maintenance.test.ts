import { expect, it } from "vitest";
import { RequestError } from "@/lib/graphql";
import { costText, type Operation, operationText } from "./maintenance";
import {
  fieldNames,
  fieldOf,
  fields,
  levelOf,
  type Maintenance,
  ownFields,
  toPolicy,
  validatePolicy,
  valuesOf,
} from "./policy";

const nothing = {
  enabled: null,
  schedule: null,
  compact: { enabled: null, fileSizeThreshold: null, minFiles: null, deletePercent: null },
  expire: { enabled: null, keepDays: null, maxSnapshots: null, eraseAfterDays: null },
  orphans: { enabled: null, olderThanDays: null },
  warehouseId: null,
  startWarehouse: null,
};
const builtIn: Maintenance = {
  policy: nothing,
  effective: {
    enabled: true,
    schedule: { cron: "0 3 * * *", timeZone: "UTC" },
    compact: { enabled: true, fileSizeThreshold: "134217728", minFiles: 5, deletePercent: 10 },
    expire: { enabled: true, keepDays: 7, maxSnapshots: 1000, eraseAfterDays: 1 },
    orphans: { enabled: true, olderThanDays: 7 },
    warehouseId: null,
    startWarehouse: true,
  },
  origins: fieldNames.map((f) => ({ field: fields[f].name, level: "DEFAULT" })),
  nextAt: null,
};

it("writes only the fields that are set and not inherited", () => {
  expect(ownFields(builtIn).size).toBe(0);
  expect(toPolicy(valuesOf(builtIn), ownFields(builtIn))).toEqual(nothing);
  const own = new Set(["schedule", "threshold", "keepDays", "warehouse"] as const);
  const changed = { ...valuesOf(builtIn), cron: " @daily ", threshold: 64, keepDays: "30", warehouse: "" };
  expect(toPolicy(changed, own)).toEqual({
    ...nothing,
    schedule: { cron: "@daily", timeZone: "UTC" },
    compact: { ...nothing.compact, fileSizeThreshold: "67108864" },
    expire: { ...nothing.expire, keepDays: 30 },
    warehouseId: "",
  });
});

it("keeps a policy that is read and written", () => {
  const policy = { ...nothing, enabled: false, orphans: { enabled: true, olderThanDays: 3 } };
  const said: Maintenance = {
    ...builtIn,
    policy,
    effective: { ...builtIn.effective, enabled: false, orphans: { enabled: true, olderThanDays: 3 } },
  };
  expect(toPolicy(valuesOf(said), ownFields(said))).toEqual(policy);
});

it("reports errors of set fields, and none of inherited ones", () => {
  const v = { ...valuesOf(builtIn), minFiles: 1, keepDays: "", cron: " " };
  expect(validatePolicy(v, new Set())).toEqual({});
  expect(Object.keys(validatePolicy(v, new Set(fieldNames)))).toEqual(["schedule", "minFiles", "keepDays"]);
});

it("knows each field by the names of the API", () => {
  for (const f of fieldNames) expect(levelOf(builtIn, f)).toBe("DEFAULT");
  const refused = (field: string) =>
    fieldOf(new RequestError([{ message: "…", extensions: { code: "INVALID", field } }], 200));
  expect(refused("compact.fileSizeThreshold")).toBe("threshold");
  expect(refused("schedule.cron")).toBe("schedule");
  expect(refused("warehouseId")).toBe("warehouse");
  expect(refused("enabled")).toBe("enabled");
  expect(refused("compact.enabled")).toBe("compact");
  expect(refused("id")).toBeUndefined();
});

const totals = { files: "12", bytes: "3565158", deleteFiles: "0", snapshots: "9" };
const operation = (o: Partial<Operation>): Operation => ({
  kind: "COMPACT",
  statementId: "stm_1",
  state: "SUCCEEDED",
  startedAt: "2026-01-01T00:00:00Z",
  before: totals,
  after: { ...totals, files: "1", bytes: "1153433" },
  snapshotsExpired: null,
  filesRemoved: null,
  seconds: 1,
  cost: null,
  currency: null,
  message: null,
  ...o,
});

it.each([
  [{}, "Compacted 12 → 1 data files, 3.4 MiB → 1.1 MiB"],
  [
    { before: { ...totals, deleteFiles: "2" } },
    "Compacted 12 → 1 data files, 3.4 MiB → 1.1 MiB, 2 → 0 files of deletes",
  ],
  [
    { before: { ...totals, bytes: null }, after: { ...totals, files: "1", bytes: null } },
    "Compacted 12 → 1 data files",
  ],
  [{ kind: "EXPIRE", snapshotsExpired: "4", filesRemoved: "1" }, "Expired 4 snapshots, 1 file to erase"],
  [{ kind: "EXPIRE", snapshotsExpired: "0" }, "Found no snapshot to expire"],
  [{ kind: "ORPHANS", filesRemoved: "3" }, "Removed 3 orphan files"],
  [{ kind: "ORPHANS", filesRemoved: "0" }, "Found no orphan files"],
  [{ kind: "ORPHANS" }, "Removed orphan files"],
  [{ state: "RUNNING" }, "Compacts files …"],
  [{ state: "FAILED" }, "Compaction failed."],
] as [Partial<Operation>, string][])("describes an operation: %j", (o, text) => {
  expect(operationText(operation(o))).toBe(text);
});

it("adds the costs of a run, and does not show tiny amounts", () => {
  expect(costText({ operations: [operation({})] })).toBeNull();
  const usd = (cost: string) => operation({ cost, currency: "USD" });
  expect(costText({ operations: [usd("0.0100"), usd("0.0025")] })).toBe("$0.0125");
  expect(costText({ operations: [usd("0.0000011")] })).toBe("under $0.0001");
});
