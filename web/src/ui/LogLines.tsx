import { memo } from "react";
import { formatClock } from "@/lib/format";
import { ansiSpans } from "./ansi";

/** Characters of one line that are drawn. */
const drawn = 5_000;

/** Parts of a text, those that match the needle marked. */
function Marked({ text, needle }: { text: string; needle: string }) {
  if (!needle) return text;
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return text;
  const out = [];
  let from = 0;
  for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, from)) {
    out.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + needle.length)}</mark>);
    from = at + needle.length;
  }
  out.push(text.slice(from));
  return out;
}

function Ansi({ text, needle }: { text: string; needle: string }) {
  const cut = text.length > drawn ? `${text.slice(0, drawn)}\x1b[0m …` : text;
  return ansiSpans(cut).map((s, i) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: parts never reorder
    <span key={i} className={s.className || undefined} style={s.style}>
      <Marked text={s.text} needle={needle} />
    </span>
  ));
}

/**
 * One line of a log: its number, when it was written, whether on stderr, and its text with colours.
 */
export const LogRow = memo(function LogRow({
  number,
  text,
  stderr,
  at,
  times,
  needle,
  state,
}: {
  number: number;
  text: string;
  stderr: boolean;
  at: number;
  times: boolean;
  /** In lower case. */
  needle: string;
  state: "hit" | "target" | undefined;
}) {
  return (
    <div className="log-row" data-state={state} data-stderr={stderr || undefined}>
      <span className="log-gutter">
        <span className="log-n" data-line={number}>
          {number}
        </span>
        {times && <span className="log-at">{formatClock(at)}</span>}
        <span className="log-err" title={stderr ? "Written to stderr" : undefined}>
          {stderr ? "err" : ""}
        </span>
      </span>
      <span className="log-text">
        <Ansi text={text} needle={needle} />
      </span>
    </div>
  );
});
