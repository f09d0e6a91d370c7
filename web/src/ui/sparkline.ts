/** One measured value. */
export interface Point {
  /** Milliseconds since 1970. */
  at: number;
  value: number;
}

/** The frame of a drawing: from one instant to another, from 0 to the top. */
export interface Frame {
  from: number;
  to: number;
  top: number;
  width: number;
  height: number;
  /** Distance of the line from the bottom, so that a line at 0 is visible. */
  least: number;
  /** Milliseconds without a point that are drawn as a gap. */
  gap: number;
}

const short = (n: number) => String(Math.round(n * 10) / 10);

/**
 * Path of the line through the points that lie in the frame, and of the area under it. Where
 * nothing was measured for longer than the gap, both are interrupted. Points are oldest first.
 */
export function sparkPaths(points: readonly Point[], f: Frame): { line: string; area: string } {
  let line = "";
  let area = "";
  let last: number | undefined;
  let lastX = "";
  const close = () => {
    if (last !== undefined) area += `L${lastX} ${short(f.height)}Z`;
  };
  for (const p of points) {
    if (p.at < f.from || p.at > f.to) continue;
    const x = short(((p.at - f.from) / (f.to - f.from)) * f.width);
    const share = Math.min(1, Math.max(0, f.top > 0 ? p.value / f.top : 0));
    const y = short(Math.min(f.height * (1 - share), f.height - f.least));
    if (last === undefined || p.at - last > f.gap) {
      close();
      line += `M${x} ${y}`;
      area += `M${x} ${short(f.height)}L${x} ${y}`;
    } else {
      line += `L${x} ${y}`;
      area += `L${x} ${y}`;
    }
    last = p.at;
    lastX = x;
  }
  close();
  return { line, area };
}
