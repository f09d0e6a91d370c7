import { stripAnsi } from "./ansi";

/** Bytes of one stream at an offset of an attempt's log. */
export interface LogBytes {
  offset: number;
  stderr: boolean;
  /** Number of the line the bytes begin in, from 1. */
  firstLine: number;
  /** When they were emitted, in milliseconds since 1970. */
  at: number;
  bytes: Uint8Array;
}
export interface LogLine {
  text: string;
  stderr: boolean;
  at: number;
}

interface Block {
  text: string;
  starts: Uint32Array;
  at: Float64Array;
  stderr: Uint8Array;
}

const blockLines = 4096;
const newline = 10;

/**
 * Characters kept of one line. A line may be as long as the log; a page cannot show it, and the
 * download has it whole.
 */
export const maxLineChars = 64 * 1024;

/**
 * An attempt's log as lines. Bytes come in chunks cut anywhere, in the middle of a character too;
 * the lines are the same however they were cut. Text lies in blocks of 4,096 lines with line starts
 * in typed arrays, so that a million lines stay small. The last line may be unfinished and grow.
 */
export class LogStore {
  private blocks: Block[] = [];
  private texts: string[] = [];
  private times: number[] = [];
  private errs: number[] = [];
  private decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  private open: { text: string; stderr: boolean; at: number; over: number } | null = null;
  private listeners = new Set<() => void>();
  private frame: number | undefined;
  private counter = 0;
  /** Offset of the first byte here; earlier bytes were not requested or were dropped. */
  start: number;
  /** Number of the first line here. */
  firstLine = 1;
  /** The next offset to read. */
  next: number;
  /** Width of the widest line, in characters. */
  widest = 0;
  /** Indexes of lines that speak of an error. */
  readonly problems: number[] = [];
  private static readonly problem =
    /(?:\x1b\[[\d;]*m|\b)(?:ERROR|FATAL|CRITICAL|PANIC|Traceback|panic:|error:)/;

  constructor(start = 0) {
    this.start = start;
    this.next = start;
  }

  /** Number of lines, the unfinished one included. */
  get length(): number {
    return this.finished + (this.open ? 1 : 0);
  }
  private get finished(): number {
    return this.blocks.length * blockLines + this.texts.length;
  }

  /** Adds chunks and skips known bytes. Returns false if earlier bytes are missing. */
  push(chunks: readonly LogBytes[]): boolean {
    for (const c of chunks) {
      const end = c.offset + c.bytes.length;
      if (end <= this.next) continue;
      if (c.offset > this.next) return false;
      if (this.next === this.start && this.length === 0) this.firstLine = c.firstLine;
      this.take(c, c.bytes.subarray(this.next - c.offset));
      this.next = end;
    }
    this.changed();
    return true;
  }

  /** Marks the end: the rest of a broken character is shown as such. */
  finish() {
    const rest = this.decoder.decode();
    if (rest && this.open) this.grow(rest, false, this.open.at);
    this.changed();
  }

  private take(c: LogBytes, bytes: Uint8Array) {
    let from = 0;
    while (from < bytes.length) {
      const nl = bytes.indexOf(newline, from);
      const to = nl < 0 ? bytes.length : nl;
      if (to > from || nl >= 0)
        this.grow(this.decoder.decode(bytes.subarray(from, to), { stream: true }), c.stderr, c.at);
      if (nl < 0) return;
      this.close();
      from = nl + 1;
    }
  }

  private grow(text: string, stderr: boolean, at: number) {
    this.open ??= { text: "", stderr: false, at, over: 0 };
    const room = maxLineChars - this.open.text.length;
    this.open.text += text.slice(0, Math.max(0, room));
    this.open.over += Math.max(0, text.length - room);
    this.open.stderr ||= stderr;
  }

  private close() {
    const line = this.open;
    if (!line) return;
    line.text += this.decoder.decode();
    const text = ended(line);
    if (LogStore.problem.test(text)) this.problems.push(this.finished);
    this.widest = Math.max(this.widest, text.length);
    this.texts.push(text);
    this.times.push(line.at);
    this.errs.push(line.stderr ? 1 : 0);
    this.open = null;
    if (this.texts.length === blockLines) this.seal();
  }

  private seal() {
    const starts = new Uint32Array(blockLines + 1);
    this.texts.forEach((t, i) => {
      starts[i + 1] = (starts[i] as number) + t.length + 1;
    });
    this.blocks.push({
      text: this.texts.join("\n"),
      starts,
      at: Float64Array.from(this.times),
      stderr: Uint8Array.from(this.errs),
    });
    this.texts = [];
    this.times = [];
    this.errs = [];
  }

  /** Line by its index from 0. */
  line(i: number): LogLine {
    const b = this.blocks[Math.floor(i / blockLines)];
    const k = i % blockLines;
    if (b)
      return {
        text: b.text.slice(b.starts[k] as number, (b.starts[k + 1] as number) - 1),
        stderr: b.stderr[k] === 1,
        at: b.at[k] as number,
      };
    if (k < this.texts.length)
      return { text: this.texts[k] as string, stderr: this.errs[k] === 1, at: this.times[k] as number };
    const o = this.open;
    return o ? { text: ended(o), stderr: o.stderr, at: o.at } : { text: "", stderr: false, at: 0 };
  }

  /**
   * Indexes of lines that show the needle, ignoring case, at most `limit`. Colours are not text.
   */
  search(needle: string, limit = 100_000): number[] {
    const n = needle.toLowerCase();
    const out: number[] = [];
    if (!n) return out;
    this.blocks.forEach((b, j) => {
      findLines(b.text, n, j * blockLines, limit, out);
    });
    findLines(this.texts.join("\n"), n, this.blocks.length * blockLines, limit, out);
    if (this.open) findLines(ended(this.open), n, this.finished, limit, out);
    return out;
  }

  /** Calls f at most once a frame after something changed. */
  subscribe = (f: () => void) => {
    this.listeners.add(f);
    return () => {
      this.listeners.delete(f);
    };
  };
  version = () => this.counter;

  private changed() {
    this.counter++;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      for (const f of this.listeners) f();
    });
  }
}

/** Adds the indexes, counted from first, of the lines of text that contain the needle. */
function findLines(text: string, needle: string, first: number, limit: number, out: number[]) {
  const plain = stripAnsi(text).toLowerCase();
  let line = first;
  let start = 0;
  for (let at = plain.indexOf(needle); at >= 0 && out.length < limit; at = plain.indexOf(needle, start)) {
    for (let nl = plain.indexOf("\n", start); nl >= 0 && nl < at; nl = plain.indexOf("\n", start)) {
      line++;
      start = nl + 1;
    }
    out.push(line);
    const end = plain.indexOf("\n", at);
    if (end < 0) return;
    line++;
    start = end + 1;
  }
}

function ended(line: { text: string; over: number }): string {
  const text = line.text.endsWith("\r") ? line.text.slice(0, -1) : line.text;
  return line.over
    ? `${text} … ${line.over.toLocaleString()} more characters: download the log to read them`
    : text;
}

/** Bytes of standard base64. */
export function fromBase64(s: string): Uint8Array {
  const bin = atob(s);
  const out = new Uint8Array(bin.length);
  for (let i = 0; i < bin.length; i++) out[i] = bin.charCodeAt(i);
  return out;
}
