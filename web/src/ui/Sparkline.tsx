import { useMemo } from "react";
import { type Point, sparkPaths } from "./sparkline";

const width = 600;
/** That of .sparkline, so that a unit is a pixel. */
const height = 56;
const least = 1.5;
const gap = 20_000;

/**
 * A small chart of values over time, from 0 to the top. It is a picture: the label says what it
 * shows, in words.
 */
export function Sparkline({
  points,
  from,
  to,
  top,
  label,
}: {
  points: readonly Point[];
  from: number;
  to: number;
  top: number;
  label: string;
}) {
  const paths = useMemo(
    () => sparkPaths(points, { from, to, top, width, height, least, gap }),
    [points, from, to, top],
  );
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <path className="sparkline-area" d={paths.area} />
      <path className="sparkline-line" d={paths.line} vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
