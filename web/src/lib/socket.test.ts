import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { RunsChangedDocument } from "@/gql/gen";

type Sink = { next: (m: unknown) => void; error: (e: unknown) => void; complete: () => void };
const server = vi.hoisted(() => ({ sinks: [] as unknown[] }));
vi.mock("graphql-ws", () => ({
  createClient: () => ({
    subscribe: (_payload: unknown, sink: unknown) => {
      server.sinks.push(sink);
      return () => {};
    },
  }),
}));

const { onReconnect, subscribe } = await import("./socket");

const failed = (code: string) => [{ message: "It did not work.", extensions: { code } }];
const last = () => server.sinks.at(-1) as Sink;

beforeEach(() => {
  server.sinks = [];
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

it.each(["INTERNAL", "UNAVAILABLE", "RATE_LIMITED"])(
  "begins again after %s, and asks for what was missed",
  (code) => {
    const next = vi.fn();
    const error = vi.fn();
    const missed = vi.fn();
    const off = onReconnect(missed);
    const stop = subscribe(RunsChangedDocument, () => ({ filter: null }), { next, error });
    last().error(failed(code));
    expect(server.sinks).toHaveLength(1);
    vi.advanceTimersByTime(500);
    expect(server.sinks).toHaveLength(2);
    expect(missed).toHaveBeenCalledTimes(1);
    last().error(failed(code));
    vi.advanceTimersByTime(200);
    expect(server.sinks).toHaveLength(2);
    vi.advanceTimersByTime(800);
    expect(server.sinks).toHaveLength(3);
    last().next({ data: { runs: { id: "run_1" } } });
    expect(next).toHaveBeenCalledTimes(1);
    expect(error).not.toHaveBeenCalled();
    stop();
    last().error(failed(code));
    vi.advanceTimersByTime(60_000);
    expect(server.sinks).toHaveLength(3);
    off();
  },
);

it("ends with an answer", () => {
  const error = vi.fn();
  subscribe(RunsChangedDocument, () => ({ filter: null }), { next: () => {}, error });
  last().error(failed("NOT_FOUND"));
  vi.advanceTimersByTime(60_000);
  expect(error).toHaveBeenCalledTimes(1);
  expect(server.sinks).toHaveLength(1);
});
