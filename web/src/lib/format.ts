const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hour12: false,
});
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "long" });
const whole = new Intl.NumberFormat();

/** An instant in the reader's time zone. */
export const formatTime = (t: string) => dateTime.format(new Date(t));

/** An instant in UTC, to the second. */
export const formatUtc = (t: string) => `${new Date(t).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Time of day to the millisecond. */
export const formatClock = (ms: number) => clock.format(ms);

export const formatCount = (n: number) => whole.format(n);

const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** "3 minutes ago", "in 2 hours"; "just now" within 10 seconds. */
export function formatAgo(t: string, now: number): string {
  const s = (Date.parse(t) - now) / 1000;
  if (Math.abs(s) < 10) return s > 1 ? "in a moment" : "just now";
  for (const [unit, size] of steps)
    if (Math.abs(s) >= size) return relative.format(Math.trunc(s / size), unit);
  return relative.format(Math.trunc(s), "second");
}

/** 0.42 s, 8.3 s, 1m 05s, 2h 03m, 3d 04h. */
export function formatDuration(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${s.toFixed(2)} s`;
  if (s < 60) return `${s.toFixed(1)} s`;
  const two = (n: number) => String(Math.floor(n)).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${two((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86_400)}d ${two((s % 86_400) / 3600)}h`;
}

/** 512 B, 1.5 KiB, 20 MiB. */
export function formatBytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  let v = n;
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return `${i && v < 10 ? v.toFixed(1) : Math.round(v)} ${units[i]}`;
}

/** "1 run", "3 runs". */
export const plural = (n: number, one: string, many = `${one}s`) =>
  `${formatCount(n)} ${n === 1 ? one : many}`;

/** Time that is left, as a clock counts it down: 23:10, 1:02:10. */
export function formatCountdown(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n: number) => String(n).padStart(2, "0");
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes}:${two(s % 60)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(s % 60)}`;
}

/**
 * A price with all the digits it has, two at least: $0.04, $0.0125. A currency that is not known is
 * written after it.
 */
export function formatPrice(amount: string, currency: string | null): string {
  const digits = Math.min(20, Math.max(2, amount.split(".")[1]?.replace(/0+$/, "").length ?? 0));
  const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  try {
    return new Intl.NumberFormat(undefined, {
      ...fraction,
      ...(currency ? { style: "currency", currency, currencyDisplay: "narrowSymbol" } : {}),
    }).format(Number(amount));
  } catch {
    return `${new Intl.NumberFormat(undefined, fraction).format(Number(amount))} ${currency}`;
  }
}
