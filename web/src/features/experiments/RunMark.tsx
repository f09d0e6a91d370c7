import { styleOf } from "./chart";

/** The line of the n-th run as on the charts. */
export function RunMark({ n }: { n: number }) {
  const { color, type } = styleOf(n);
  return <i className="run-mark" aria-hidden style={{ borderTop: `3px ${type} ${color}` }} />;
}
