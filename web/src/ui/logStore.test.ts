import { describe, expect, it } from "vitest";
import { fromBase64, type LogBytes, LogStore, maxLineChars } from "./logStore";

/** A generator whose numbers are the same in every test run. */
function randoms(seed: number) {
  let s = seed;
  return (below: number) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return s % below;
  };
}

interface Piece {
  text: Uint8Array;
  stderr: boolean;
}
const encoder = new TextEncoder();
const piece = (text: string, stderr = false): Piece => ({ text: encoder.encode(text), stderr });

/**
 * Cuts pieces at arbitrary bytes into chunks with the offsets and line numbers the server gives.
 */
function cut(pieces: readonly Piece[], below: number, random: (n: number) => number): LogBytes[] {
  const chunks: LogBytes[] = [];
  let offset = 0;
  let line = 1;
  for (const p of pieces) {
    for (let from = 0; from < p.text.length; ) {
      const bytes = p.text.subarray(from, from + 1 + random(below));
      chunks.push({ offset, stderr: p.stderr, firstLine: line, at: 1000, bytes });
      offset += bytes.length;
      line += bytes.filter((b) => b === 10).length;
      from += bytes.length;
    }
  }
  return chunks;
}

const dump = (s: LogStore) =>
  Array.from({ length: s.length }, (_, i) => {
    const { text, stderr } = s.line(i);
    return { n: s.firstLine + i, text, stderr };
  });

const samples = [
  "",
  "a",
  "naïve — ▓▓",
  "🎉 party 🎉",
  "\x1b[1;31mERROR\x1b[0m boom",
  "tab\there",
  "crlf\r",
  "日本語",
];

function randomLog(random: (n: number) => number): Piece[] {
  return Array.from({ length: 60 }, () => {
    const text = samples[random(samples.length)] as string;
    return piece(random(5) === 0 ? text : `${text}\n`, random(3) === 0);
  });
}

describe("LogStore", () => {
  it("gives the same lines however the chunks are cut, in the middle of characters too", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = randoms(seed);
      const log = randomLog(random);
      const whole = new LogStore();
      whole.push(cut(log, 1_000_000, () => 999_999));
      whole.finish();
      const pieces = new LogStore();
      for (const c of cut(log, 7, random)) expect(pieces.push([c])).toBe(true);
      pieces.finish();
      expect(dump(pieces)).toEqual(dump(whole));
    }
  });

  it("agrees with decoding the whole log at once", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = randoms(seed);
      const log = randomLog(random);
      const bytes = new Uint8Array(log.flatMap((p) => [...p.text]));
      const lines = new TextDecoder().decode(bytes).split("\n");
      if (lines.at(-1) === "") lines.pop();
      const store = new LogStore();
      store.push(cut(log, 9, random));
      store.finish();
      expect(dump(store).map((l) => l.text)).toEqual(lines.map((l) => l.replace(/\r$/, "")));
    }
  });

  it("takes chunks again after a reconnect without doubling them", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = randoms(seed);
      const log = randomLog(random);
      const chunks = cut(log, 12, random);
      const once = new LogStore();
      once.push(chunks);
      const again = new LogStore();
      for (let i = 0; i < chunks.length; ) {
        const n = 1 + random(6);
        expect(again.push(chunks.slice(i, i + n))).toBe(true);
        i = Math.max(0, i + n - random(Math.min(n, 4)));
      }
      again.push(chunks.slice(0, 5));
      expect(dump(again)).toEqual(dump(once));
      expect(again.next).toBe(once.next);
    }
  });

  it("takes the part of a chunk that is new", () => {
    const s = new LogStore();
    const bytes = encoder.encode("one\ntwo\nthree\n");
    s.push([{ offset: 0, stderr: false, firstLine: 1, at: 1, bytes: bytes.subarray(0, 6) }]);
    s.push([{ offset: 0, stderr: false, firstLine: 1, at: 1, bytes }]);
    expect(dump(s).map((l) => l.text)).toEqual(["one", "two", "three"]);
  });

  it("reports a gap, and adds nothing after it", () => {
    const s = new LogStore();
    const chunk = (offset: number, text: string) => ({
      offset,
      stderr: false,
      firstLine: 1,
      at: 1,
      bytes: encoder.encode(text),
    });
    expect(s.push([chunk(0, "one\n")])).toBe(true);
    expect(s.push([chunk(8, "three\n")])).toBe(false);
    expect(s.next).toBe(4);
    expect(s.push([chunk(4, "two\n"), chunk(8, "three\n")])).toBe(true);
    expect(dump(s).map((l) => l.text)).toEqual(["one", "two", "three"]);
  });

  it("keeps the unfinished last line, which grows", () => {
    const s = new LogStore();
    const chunk = (offset: number, text: string) => ({
      offset,
      stderr: false,
      firstLine: 1,
      at: 1,
      bytes: encoder.encode(text),
    });
    s.push([chunk(0, "working")]);
    expect(dump(s)).toEqual([{ n: 1, text: "working", stderr: false }]);
    s.push([chunk(7, " hard\nd")]);
    expect(dump(s).map((l) => l.text)).toEqual(["working hard", "d"]);
  });

  it("numbers lines from where it begins to read", () => {
    const s = new LogStore(5_000);
    s.push([
      { offset: 5_000, stderr: true, firstLine: 120, at: 1, bytes: encoder.encode("tail of 120\n121\n") },
    ]);
    expect(dump(s)).toEqual([
      { n: 120, text: "tail of 120", stderr: true },
      { n: 121, text: "121", stderr: true },
    ]);
  });

  it("shows bytes that are no text as such, and finishes a broken character at the end", () => {
    const s = new LogStore();
    const bytes = new Uint8Array([0xff, 0x41, 10, 0xe2, 0x96]);
    s.push([{ offset: 0, stderr: false, firstLine: 1, at: 1, bytes }]);
    s.finish();
    expect(dump(s).map((l) => l.text)).toEqual(["\ufffdA", "\ufffd"]);
  });

  it("keeps the beginning of a line that is as long as a log, and says how much more there is", () => {
    const s = new LogStore();
    const bytes = encoder.encode("x".repeat(1_000_000));
    for (let i = 0; i < 5; i++)
      s.push([{ offset: i * bytes.length, stderr: false, firstLine: 1, at: 1, bytes }]);
    expect(s.length).toBe(1);
    expect(s.line(0).text.length).toBeLessThan(maxLineChars + 100);
    expect(s.line(0).text).toContain((5_000_000 - maxLineChars).toLocaleString());
  });

  it("finds lines over block borders, in either case, and not inside colours", () => {
    const s = new LogStore();
    const text = Array.from({ length: 10_000 }, (_, i) =>
      i === 9_001 ? "\x1b[31mERR\x1b[0mOR boom" : `\x1b[32mline\x1b[0m ${i}`,
    ).join("\n");
    s.push([{ offset: 0, stderr: false, firstLine: 1, at: 1, bytes: encoder.encode(text) }]);
    expect(s.length).toBe(10_000);
    expect(s.line(4095).text).toContain(" 4095");
    expect(s.line(4096).text).toContain(" 4096");
    expect(s.search("LINE 4096")).toEqual([4096]);
    expect(s.search("error boom")).toEqual([9_001]);
    expect(s.search("[32m")).toEqual([]);
    expect(s.search("line 999")).toEqual([999, ...Array.from({ length: 10 }, (_, i) => 9_990 + i)]);
    expect(s.search("")).toEqual([]);
  });

  it("knows which lines speak of errors, after a colour too", () => {
    const s = new LogStore();
    const text =
      "fine\n\x1b[1;31mERROR\x1b[0m x\nno terrors\nTraceback (most recent call last)\nmake: error: y\n";
    s.push([{ offset: 0, stderr: false, firstLine: 1, at: 1, bytes: encoder.encode(text) }]);
    expect(s.problems).toEqual([1, 3, 4]);
  });

  it("decodes base64 to bytes", () => {
    expect([...fromBase64("AP8K4pa6")]).toEqual([0, 255, 10, 0xe2, 0x96, 0xba]);
  });
});
