import type { MaintenanceFullFragment, MaintenanceLevel, MaintenancePolicyInput } from "@/gql/gen";
import type { RequestError } from "@/lib/graphql";

export type Maintenance = MaintenanceFullFragment;

/** The values of a policy, field by field. */
export interface Values {
  enabled: boolean;
  cron: string;
  timeZone: string;
  compact: boolean;
  /** In MiB. */
  threshold: number | string;
  minFiles: number | string;
  deletePercent: number | string;
  expire: boolean;
  keepDays: number | string;
  maxSnapshots: number | string;
  eraseAfterDays: number | string;
  orphans: boolean;
  olderThanDays: number | string;
  /** Empty for any. */
  warehouse: string;
  startWarehouse: boolean;
}

interface Field {
  label: string;
  /** The field's name in the API's answers. */
  name: string;
  bounds?: { least: number; most: number; unit: string };
}

const field = (label: string, name: string, bounds?: Field["bounds"]): Field => ({
  label,
  name,
  ...(bounds ? { bounds } : {}),
});

const days = { least: 1, most: 3650, unit: "days" };

/** The fields of a policy in display order. Each is inherited separately. */
export const fields = {
  enabled: field("Maintenance", "enabled"),
  schedule: field("When", "schedule"),
  compact: field("Compact small files", "compact.enabled"),
  threshold: field("A file is small below", "compact.file_size_threshold", {
    least: 1,
    most: 10_240,
    unit: "MiB",
  }),
  minFiles: field("Begin after this many new files", "compact.min_files", {
    least: 2,
    most: 1_000_000,
    unit: "files",
  }),
  deletePercent: field("Or when this share is deleted", "compact.delete_percent", {
    least: 0,
    most: 100,
    unit: "%",
  }),
  expire: field("Expire old snapshots", "expire.enabled"),
  keepDays: field("Keep snapshots for", "expire.keep_days", days),
  maxSnapshots: field("Keep at most", "expire.max_snapshots", {
    least: 10,
    most: 100_000,
    unit: "snapshots",
  }),
  eraseAfterDays: field("Erase their files after", "expire.erase_after_days", {
    least: 1,
    most: 30,
    unit: "days",
  }),
  orphans: field("Remove orphan files", "orphans.enabled"),
  olderThanDays: field("Orphans are older than", "orphans.older_than_days", days),
  warehouse: field("Runs on", "warehouse_id"),
  startWarehouse: field("Start a warehouse for it", "start_warehouse"),
} as const;

export type FieldName = keyof typeof fields;
export const fieldNames = Object.keys(fields) as FieldName[];

/** The bounds of a number; undefined for other fields. */
export const boundsOf = (f: FieldName) => fields[f].bounds;

const mib = 1024 * 1024;

/** The effective values. */
export function valuesOf({ effective: e }: Maintenance): Values {
  return {
    enabled: e.enabled,
    cron: e.schedule.cron,
    timeZone: e.schedule.timeZone,
    compact: e.compact.enabled,
    threshold: Number(e.compact.fileSizeThreshold) / mib,
    minFiles: e.compact.minFiles,
    deletePercent: e.compact.deletePercent,
    expire: e.expire.enabled,
    keepDays: e.expire.keepDays,
    maxSnapshots: e.expire.maxSnapshots,
    eraseAfterDays: e.expire.eraseAfterDays,
    orphans: e.orphans.enabled,
    olderThanDays: e.orphans.olderThanDays,
    warehouse: e.warehouseId ?? "",
    startWarehouse: e.startWarehouse,
  };
}

/** The fields that are set here and not inherited. */
export function ownFields({ policy: p }: Maintenance): ReadonlySet<FieldName> {
  const said: Record<FieldName, unknown> = {
    enabled: p.enabled,
    schedule: p.schedule,
    compact: p.compact.enabled,
    threshold: p.compact.fileSizeThreshold,
    minFiles: p.compact.minFiles,
    deletePercent: p.compact.deletePercent,
    expire: p.expire.enabled,
    keepDays: p.expire.keepDays,
    maxSnapshots: p.expire.maxSnapshots,
    eraseAfterDays: p.expire.eraseAfterDays,
    orphans: p.orphans.enabled,
    olderThanDays: p.orphans.olderThanDays,
    warehouse: p.warehouseId,
    startWarehouse: p.startWarehouse,
  };
  return new Set(fieldNames.filter((f) => said[f] !== null));
}

/** The policy with the values of its own fields only. */
export function toPolicy(v: Values, own: ReadonlySet<FieldName>): MaintenancePolicyInput {
  const said = <T>(f: FieldName, value: T) => (own.has(f) ? value : null);
  return {
    enabled: said("enabled", v.enabled),
    schedule: said("schedule", { cron: v.cron.trim(), timeZone: v.timeZone }),
    compact: {
      enabled: said("compact", v.compact),
      fileSizeThreshold: said("threshold", String(Number(v.threshold) * mib)),
      minFiles: said("minFiles", Number(v.minFiles)),
      deletePercent: said("deletePercent", Number(v.deletePercent)),
    },
    expire: {
      enabled: said("expire", v.expire),
      keepDays: said("keepDays", Number(v.keepDays)),
      maxSnapshots: said("maxSnapshots", Number(v.maxSnapshots)),
      eraseAfterDays: said("eraseAfterDays", Number(v.eraseAfterDays)),
    },
    orphans: {
      enabled: said("orphans", v.orphans),
      olderThanDays: said("olderThanDays", Number(v.olderThanDays)),
    },
    warehouseId: said("warehouse", v.warehouse),
    startWarehouse: said("startWarehouse", v.startWarehouse),
  };
}

/** Errors of a policy by field. The server has the last word. */
export function validatePolicy(v: Values, own: ReadonlySet<FieldName>): Partial<Record<FieldName, string>> {
  const wrong: Partial<Record<FieldName, string>> = {};
  if (own.has("schedule") && !v.cron.trim())
    wrong.schedule = "Give a schedule, such as 0 3 * * *, or inherit it.";
  for (const f of fieldNames) {
    const b = boundsOf(f);
    if (!b || !own.has(f)) continue;
    const n = v[f as keyof Values];
    if (n === "" || !Number.isInteger(Number(n)) || Number(n) < b.least || Number(n) > b.most)
      wrong[f] = `A whole number from ${b.least} to ${b.most}.`;
  }
  return wrong;
}

const camel = (s: string) => s.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase());

/** The field that an error names, such as compact.minFiles or schedule.cron. */
export const fieldOf = (e: RequestError): FieldName | undefined =>
  fieldNames.find((f) => e.field === camel(fields[f].name) || e.field?.startsWith(`${fields[f].name}.`));

/** The level that sets a field's value. */
export const levelOf = (m: Maintenance, f: FieldName): MaintenanceLevel | undefined =>
  m.origins.find((o) => o.field === fields[f].name)?.level;

const levels: Record<MaintenanceLevel, string> = {
  DEFAULT: "built in",
  WORKSPACE: "the workspace",
  DATABASE: "the database",
  TABLE: "the table",
  REGISTERED: "its files came from elsewhere",
};

/** The origin of a value in words. */
export const originText = (level: MaintenanceLevel | undefined) => (level ? levels[level] : "");

/** The text beside an inherited value. */
export const inheritedText = (level: MaintenanceLevel | undefined) =>
  level === "DEFAULT" || !level
    ? "Built in."
    : level === "REGISTERED"
      ? "The table's files came from elsewhere."
      : `From ${levels[level]}.`;
