/** A metric's value to five digits: 0.12346, 1.2e-7. Whole numbers are complete. */
export function formatMetric(v: number | string): string {
  if (typeof v !== "number") return v;
  if (Number.isInteger(v) && Math.abs(v) < 1e15) return String(v);
  return String(Number(v.toPrecision(5))).replace("e+", "e");
}
