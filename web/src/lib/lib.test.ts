import { QueryClient } from "@tanstack/react-query";
import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { RunStatus, SessionDocument } from "@/gql/gen";
import { returnPath } from "./auth";
import { describeCron } from "./cron";
import { formatAgo, formatBytes, formatDuration } from "./format";
import { request } from "./graphql";
import { isTyping } from "./hotkeys";
import { patchEntity, patchValue } from "./patch";
import { choices, count, parseSearch, split, stringifySearch, text } from "./search";

describe("addresses", () => {
  it("write lists as repeated parameters and read them back", () => {
    const search = { status: ["FAILED", "RUNNING"], q: "a b&c=d", line: 7 };
    expect(stringifySearch(search)).toBe("?status=FAILED&status=RUNNING&q=a+b%26c%3Dd&line=7");
    expect(parseSearch(stringifySearch(search))).toEqual({ ...search, line: "7" });
    expect(stringifySearch({ a: undefined, b: null, c: "" })).toBe("");
  });
  it("never break a page: invalid values count as absent", () => {
    const schema = z.object({ status: choices, line: count, q: text });
    expect(schema.parse({ status: "FAILED", line: "12", q: "x" })).toEqual({
      status: ["FAILED"],
      line: 12,
      q: "x",
    });
    expect(schema.parse({ status: "", line: "-1", q: "" })).toEqual({});
    expect(schema.parse({ status: [{}], line: "1e999", q: ["a", "b"] })).toMatchObject({ q: "a" });
  });
  it("ignore case, and keep unknown choices apart", () => {
    const chosen = choices.parse(["failed", "FAILED", "Running", "nope"]);
    expect(chosen).toEqual(["FAILED", "RUNNING", "NOPE"]);
    expect(split(chosen, Object.values(RunStatus))).toEqual({
      known: ["FAILED", "RUNNING"],
      unknown: ["NOPE"],
    });
    expect(split(["NOPE"], Object.values(RunStatus))).toEqual({ known: undefined, unknown: ["NOPE"] });
    expect(split(undefined, Object.values(RunStatus))).toEqual({ known: undefined, unknown: [] });
  });
});

describe("returnPath", () => {
  const origin = "https://pond.example";
  it("keeps paths of this origin", () => {
    expect(returnPath("/runs/run_1?task=a&line=3#x", origin)).toBe("/runs/run_1?task=a&line=3#x");
  });
  it.each([
    undefined,
    "",
    "https://evil.example/",
    "//evil.example/runs",
    "/\\evil.example",
    "/\t/evil.example",
    "javascript:alert(1)",
    "/login",
    "/login?to=/runs",
    "/setup?token=x",
  ])("refuses %s", (to) => {
    expect(returnPath(to, origin)).toBe("/");
  });
});

describe("request", () => {
  afterEach(() => vi.unstubAllGlobals());
  const answer = (body: unknown, init: ResponseInit = {}) =>
    vi.stubGlobal(
      "fetch",
      vi.fn(async () => new Response(JSON.stringify(body), init)),
    );

  it("sends the header that the server asks of browsers", async () => {
    answer({ data: { viewer: null } });
    await request(SessionDocument, {});
    const [url, init] = vi.mocked(fetch).mock.calls[0] ?? [];
    expect(url).toBe("/graphql");
    expect(init?.headers).toMatchObject({ "x-requested-with": "console" });
    expect(JSON.parse(String(init?.body))).toMatchObject({ operationName: "Session" });
  });
  it("gives the error's sentence, code, field and request id", async () => {
    answer({
      errors: [{ message: "No.", extensions: { code: "INVALID", field: "name", requestId: "req_1" } }],
    });
    await expect(request(SessionDocument, {})).rejects.toMatchObject({
      message: "No.",
      code: "INVALID",
      field: "name",
      requestId: "req_1",
    });
  });
  it("understands a refusal without a GraphQL answer", async () => {
    answer(
      { error: "Slow down." },
      { status: 429, headers: { "retry-after": "30", "x-request-id": "req_2" } },
    );
    await expect(request(SessionDocument, {})).rejects.toMatchObject({
      message: "Slow down.",
      code: "RATE_LIMITED",
      retryAfter: 30,
      requestId: "req_2",
    });
  });
  it("says when the server cannot be reached", async () => {
    vi.stubGlobal("fetch", async () => Promise.reject(new TypeError("failed")));
    await expect(request(SessionDocument, {})).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});

describe("patchEntity", () => {
  const run = (id: string, status: string) => ({
    __typename: "Run",
    id,
    status,
    job: { __typename: "Job", id: "j" },
  });
  it("changes the entity everywhere and keeps the identity of all else", () => {
    const data = { a: [run("1", "RUNNING"), run("2", "RUNNING")], b: { c: run("1", "RUNNING") } };
    const next = patchValue(data, { __typename: "Run", id: "1", status: "SUCCESS", extra: 1 } as never);
    expect(next.a[0]).toEqual(run("1", "SUCCESS"));
    expect(next.b.c.status).toBe("SUCCESS");
    expect(next.a[1]).toBe(data.a[1]);
    expect(patchValue(next, { __typename: "Run", id: "9" })).toBe(next);
  });
  it("changes lists where every document asks for them alike, and only when they differ", () => {
    const w = { __typename: "Warehouse", id: "1", engines: [{ name: "trino", state: "STARTING" }] };
    const running = { ...w, engines: [{ name: "trino", state: "RUNNING" }] };
    expect(patchValue({ w }, running).w).toBe(w);
    expect(patchValue({ w }, running, ["engines"]).w.engines).toEqual(running.engines);
    expect(patchValue({ w }, structuredClone(w), ["engines"]).w).toBe(w);
  });
  it("reaches every cached answer", () => {
    const qc = new QueryClient();
    qc.setQueryData(["x"], { run: run("1", "RUNNING") });
    qc.setQueryData(["y"], { pages: [{ edges: [{ node: run("1", "RUNNING") }] }] });
    patchEntity(qc, { __typename: "Run", id: "1", status: "FAILED" } as never);
    expect(JSON.stringify(qc.getQueryData(["x"]))).toContain("FAILED");
    expect(JSON.stringify(qc.getQueryData(["y"]))).toContain("FAILED");
  });
});

describe("format", () => {
  it("durations", () => {
    expect([420, 8_300, 65_000, 7_380_000, 273_600_000].map(formatDuration)).toEqual([
      "0.42 s",
      "8.3 s",
      "1m 05s",
      "2h 03m",
      "3d 04h",
    ]);
  });
  it("bytes", () => {
    expect([0, 512, 1536, 20 * 1024 ** 2].map(formatBytes)).toEqual(["0 B", "512 B", "1.5 KiB", "20 MiB"]);
  });
  it("how long ago", () => {
    const now = Date.UTC(2026, 0, 2);
    expect(formatAgo("2026-01-01T23:57:00Z", now)).toBe("3 minutes ago");
    expect(formatAgo("2026-01-02T02:00:00Z", now)).toBe("in 2 hours");
    expect(formatAgo("2026-01-01T23:59:58Z", now)).toBe("just now");
  });
});

it("describeCron says a schedule in words, or nothing", async () => {
  expect(await describeCron("*/5 * * * *")).toBe("Every 5 minutes");
  expect(await describeCron("30 2 * * 1-5")).toBe("At 02:30, Monday through Friday");
  expect(await describeCron("0 6 * * *")).toBe("At 06:00, every day");
  expect(await describeCron("not a cron")).toBeNull();
});

it("isTyping keeps shortcuts out of texts", () => {
  const make = (html: string) => {
    const div = document.createElement("div");
    div.innerHTML = html;
    return div.firstElementChild;
  };
  expect(isTyping(make("<input>"))).toBe(true);
  expect(isTyping(make("<textarea></textarea>"))).toBe(true);
  expect(isTyping(make('<input type="checkbox">'))).toBe(false);
  expect(isTyping(make("<button></button>"))).toBe(false);
});
