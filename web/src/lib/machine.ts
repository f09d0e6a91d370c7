import type { ComputeRowFragment, FlavorsQuery, WarehouseRowFragment } from "@/gql/gen";
import { formatBytes, formatCountdown, formatPrice, plural } from "./format";

/** A machine of either kind in lists. */
export type MachineRow = ComputeRowFragment | WarehouseRowFragment;
export type Flavor = FlavorsQuery["flavors"][number];

/** The flavor of a machine; for a warehouse, its size. */
export const flavorOf = (m: MachineRow) => (m.__typename === "Compute" ? m.flavor : m.size);

/** Address of a machine's page. */
export const machinePath = (m: { __typename: "Compute" | "Warehouse" }) =>
  m.__typename === "Compute" ? ("/compute/$machineId" as const) : ("/warehouses/$machineId" as const);

/** Choices of the idle time before a machine is stopped. */
export const autoStops = [
  { value: "30m", label: "30 minutes" },
  { value: "1h", label: "1 hour" },
  { value: "2h", label: "2 hours" },
  { value: "never", label: "Never" },
] as const;

const idleWords: Readonly<Record<string, string>> = { "30m": "30 minutes", "1h": "1 hour", "2h": "2 hours" };

/** "stops after 1 hour idle", "never stops by itself". */
export const autoStopRule = (autoStop: string) =>
  autoStop === "never" ? "never stops by itself" : `stops after ${idleWords[autoStop] ?? autoStop} idle`;

/** The auto-stop in words: a countdown while the machine is idle, else the rule. */
export function autoStopText(
  m: Pick<MachineRow, "state" | "autoStop" | "autoStopAt">,
  now: number,
): { text: string; counting: boolean } {
  if (m.state !== "RUNNING" || m.autoStop === "never")
    return { text: autoStopRule(m.autoStop), counting: false };
  if (!m.autoStopAt)
    return { text: `in use; stops ${idleWords[m.autoStop] ?? m.autoStop} after`, counting: false };
  const left = Date.parse(m.autoStopAt) - now;
  return { text: left > 0 ? `stops in ${formatCountdown(left)}` : "stops now", counting: true };
}

/** "$0.04 per hour", or that no price is known. */
export const perHour = (p: { pricePerHour: string | null; currency: string | null }) =>
  p.pricePerHour === null ? "no price known" : `${formatPrice(p.pricePerHour, p.currency)} per hour`;

/** "2 cores, 8.0 GiB, 1 GPU (A10)". */
export function flavorSize(f: Flavor): string {
  const gpus = f.gpus ? `${plural(f.gpus, "GPU")}${f.gpu ? ` (${f.gpu})` : ""}` : null;
  return [plural(f.cores, "core"), formatBytes(Number(f.memory)), gpus].filter(Boolean).join(", ");
}

/**
 * The hourly cost of all machines together, one figure per currency. Machines without a price do
 * not count.
 */
export function hourlySum(
  machines: readonly { pricePerHour: string | null; currency: string | null }[],
): string {
  const sums = new Map<string | null, { sum: number; digits: number }>();
  for (const { pricePerHour, currency } of machines) {
    if (pricePerHour === null) continue;
    const s = sums.get(currency) ?? { sum: 0, digits: 0 };
    const digits = pricePerHour.split(".")[1]?.length ?? 0;
    sums.set(currency, { sum: s.sum + Number(pricePerHour), digits: Math.max(s.digits, digits) });
  }
  const each = [...sums].map(([currency, s]) => formatPrice(s.sum.toFixed(s.digits), currency));
  return each.length ? `${each.join(" and ")} per hour` : "no price known";
}
