import type { MaintenanceRunRowFragment } from "@/gql/gen";
import { formatBytes, formatPrice, plural } from "@/lib/format";

export type MaintenanceRun = MaintenanceRunRowFragment;
export type Operation = MaintenanceRun["operations"][number];

/** The subject of a policy: the workspace, a database or a table. */
export interface Subject {
  level: "workspace" | "database" | "table";
  /** Empty for the workspace. */
  id: string;
  name: string;
}

/** Whether the run has not ended. */
export const isOpen = (r: Pick<MaintenanceRun, "state">) => r.state === "QUEUED" || r.state === "RUNNING";

const words: Record<Operation["kind"], { name: string; doing: string }> = {
  COMPACT: { name: "Compaction", doing: "Compacts files" },
  EXPIRE: { name: "Expiry of snapshots", doing: "Expires snapshots" },
  ORPHANS: { name: "Removal of orphan files", doing: "Removes orphan files" },
};

const step = (before: string | null | undefined, after: string | null | undefined) =>
  `${before ?? "?"} → ${after ?? "?"}`;

const size = (n: string | null | undefined) =>
  n === null || n === undefined ? null : formatBytes(Number(n));

/** The effect of an operation in words: "Compacted 12 → 1 data files, 3.4 MiB → 1.1 MiB". */
export function operationText(o: Operation): string {
  const { name, doing } = words[o.kind];
  if (o.state === "FAILED") return `${name} failed.`;
  if (o.state === "CANCELLED") return `${name} was cancelled.`;
  if (o.state !== "SUCCEEDED") return `${doing} …`;
  const { before: b, after: a } = o;
  if (o.kind === "COMPACT") {
    const deletes = Number(b?.deleteFiles ?? 0) + Number(a?.deleteFiles ?? 0) > 0;
    return [
      `Compacted ${step(b?.files, a?.files)} data files`,
      ...(b?.bytes && a?.bytes ? [step(size(b.bytes), size(a.bytes))] : []),
      ...(deletes ? [`${step(b?.deleteFiles, a?.deleteFiles)} files of deletes`] : []),
    ].join(", ");
  }
  const removed = o.filesRemoved === null ? null : Number(o.filesRemoved);
  if (o.kind === "ORPHANS")
    return removed === null
      ? "Removed orphan files"
      : removed
        ? `Removed ${plural(removed, "orphan file")}`
        : "Found no orphan files";
  const expired = o.snapshotsExpired === null ? null : Number(o.snapshotsExpired);
  return [
    expired === null
      ? `Expired snapshots, ${step(b?.snapshots, a?.snapshots)}`
      : expired
        ? `Expired ${plural(expired, "snapshot")}`
        : "Found no snapshot to expire",
    ...(removed ? [`${plural(removed, "file")} to erase`] : []),
  ].join(", ");
}

const smallest = 0.0001;

/** The cost of a run so far; null without a known price. */
export function costText(r: Pick<MaintenanceRun, "operations">): string | null {
  const sums = new Map<string | null, number>();
  for (const { cost, currency } of r.operations)
    if (cost !== null) sums.set(currency, (sums.get(currency) ?? 0) + Number(cost));
  const each = [...sums].map(([currency, sum]) =>
    sum > 0 && sum < smallest
      ? `under ${formatPrice(String(smallest), currency)}`
      : formatPrice(sum.toFixed(4), currency),
  );
  return each.length ? each.join(" and ") : null;
}

/** How long the statements of a run have taken, in milliseconds. */
export const tookMs = (r: Pick<MaintenanceRun, "operations">) =>
  r.operations.reduce((sum, o) => sum + o.seconds * 1000, 0);
