import Anser from "anser";
import type { CSSProperties } from "react";

/** Every terminal sequence. */
const sequences = /\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-B]|[=>78cDEHMN])/g;
/** Every one but colours, which end in m. */
const movements =
  /\x1b(?:\[[0-9;:?]*[ -/]*[@-ln-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-B]|[=>78cDEHMN])/g;
/** The remaining control characters: all but tab, newline and escape. */
const controls = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;

/** Text without terminal sequences. */
export const stripAnsi = (s: string) => (s.includes("\x1b") ? s.replace(sequences, "") : s);

/** The line as a terminal shows it: only the text after the last carriage return is visible. */
export function visible(s: string): string {
  const cr = s.lastIndexOf("\r");
  const t = cr < 0 ? s : s.slice(cr + 1);
  return t
    .replace(movements, "")
    .replace(controls, (c) => (c === "\x7f" ? "␡" : String.fromCodePoint(0x2400 + c.charCodeAt(0))));
}

export interface Span {
  text: string;
  className: string;
  style: CSSProperties | undefined;
}

const cube = [0, 95, 135, 175, 215, 255];

/** Colour n of the 256 of xterm, from 16 on. */
function palette(n: number): string {
  if (n >= 232)
    return `rgb(${Array(3)
      .fill(8 + (n - 232) * 10)
      .join(",")})`;
  const c = n - 16;
  return `rgb(${cube[Math.floor(c / 36)]},${cube[Math.floor(c / 6) % 6]},${cube[c % 6]})`;
}

function colour(name: string, rgb: string): { className?: string; value?: string } {
  if (!name) return {};
  if (name === "ansi-truecolor") return { value: `rgb(${rgb})` };
  const p = /^ansi-palette-(\d+)$/.exec(name);
  return p ? { value: palette(Number(p[1])) } : { className: name };
}

/** A line with ANSI colours as spans of text. */
export function ansiSpans(line: string): Span[] {
  const text = visible(line);
  if (!text.includes("\x1b")) return [{ text, className: "", style: undefined }];
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true }).map((p) => {
    const fg = colour(p.fg, p.fg_truecolor);
    const bg = colour(p.bg, p.bg_truecolor);
    const classes = [
      fg.className,
      bg.className && `${bg.className}-bg`,
      ...p.decorations.map((d) => `ansi-${d}`),
    ];
    const style = {
      ...(fg.value ? { color: fg.value } : {}),
      ...(bg.value ? { backgroundColor: bg.value } : {}),
    };
    return {
      text: p.content,
      className: classes.filter(Boolean).join(" "),
      style: fg.value || bg.value ? style : undefined,
    };
  });
}
