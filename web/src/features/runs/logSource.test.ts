import { beforeEach, describe, expect, it, vi } from "vitest";
import { LogStore } from "@/ui/logStore";

type Sink = { next: (d: unknown) => void; error: (e: unknown) => void };
const server = vi.hoisted(() => ({
  asked: [] as string[],
  sinks: [] as unknown[],
  stops: 0,
  finished: (): boolean => false,
}));
vi.mock("@/lib/socket", () => ({
  subscribe: (_doc: unknown, vars: () => { offset: string }, sink: unknown, finished: () => boolean) => {
    server.asked.push(vars().offset);
    server.sinks.push(sink);
    server.finished = finished;
    return () => {
      server.stops++;
    };
  },
}));

const { offsetOfLine, readLog, toBytes } = await import("./logSource");

const page = (offset: number, text: string, eof = false) => ({
  runLogs: {
    nextOffset: String(offset + text.length),
    size: String(offset + text.length),
    eof,
    chunks: text
      ? [
          {
            offset: String(offset),
            stream: "STDOUT",
            firstLine: "1",
            emittedAt: "2026-01-01T00:00:00.000Z",
            data: btoa(text),
          },
        ]
      : [],
  },
});
const send = (p: unknown) => (server.sinks.at(-1) as Sink).next(p);
const lines = (s: LogStore) => Array.from({ length: s.length }, (_, i) => s.line(i).text);

beforeEach(() => {
  server.asked = [];
  server.sinks = [];
  server.stops = 0;
});

describe("readLog", () => {
  it("reads to the end and stops", () => {
    const store = new LogStore();
    const states: string[] = [];
    readLog("att_1", store, (s) => states.push(s));
    send(page(0, "one\ntw"));
    send(page(6, "o\n", true));
    expect(lines(store)).toEqual(["one", "two"]);
    expect(states).toEqual(["reading", "ended"]);
    expect(server.finished()).toBe(true);
    expect(server.stops).toBe(1);
  });
  it("asks again from what it has when a chunk is missing", () => {
    const store = new LogStore();
    readLog("att_1", store, () => {});
    send(page(0, "one\n"));
    send(page(8, "three\n"));
    expect(server.asked).toEqual(["0", "4"]);
    send(page(4, "two\n"));
    send(page(8, "three\n"));
    expect(lines(store)).toEqual(["one", "two", "three"]);
  });
  it("says what went wrong", () => {
    const states: unknown[] = [];
    readLog("att_1", new LogStore(), (s, e) => states.push(s, e));
    (server.sinks.at(-1) as Sink).error("no");
    expect(states).toEqual(["reading", undefined, "failed", "no"]);
  });
});

it("offsetOfLine finds an offset a little before a line in a few small requests", async () => {
  const lineLength = 100;
  const size = 200_000_000;
  let asked = 0;
  vi.stubGlobal("fetch", async (_: string, init: { body: string }) => {
    asked++;
    const offset = Number(JSON.parse(init.body).variables.offset);
    const line = Math.floor(offset / lineLength) + 1;
    const { runLogs } = page(offset, "x");
    const chunks = runLogs.chunks.map((c) => ({ ...c, firstLine: String(line) }));
    return new Response(JSON.stringify({ data: { attemptLog: { ...runLogs, chunks } } }), { status: 200 });
  });
  for (const line of [1, 77_777, 1_234_567, 2_000_000]) {
    asked = 0;
    const at = await offsetOfLine("att_1", line, size, new AbortController().signal);
    const exact = (line - 1) * lineLength;
    expect(at).toBeLessThanOrEqual(exact);
    expect(exact - at).toBeLessThan(1_000_000);
    expect(asked).toBeLessThan(15);
  }
  vi.unstubAllGlobals();
});

it("toBytes reads offsets and times as the schema writes them", () => {
  expect(toBytes(page(5, "a").runLogs as never)).toEqual([
    { offset: 5, stderr: false, firstLine: 1, at: Date.UTC(2026, 0, 1), bytes: new Uint8Array([97]) },
  ]);
});
