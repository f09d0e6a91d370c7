import { describe, expect, it } from "vitest";
import { ansiSpans, stripAnsi, visible } from "./ansi";

describe("ansiSpans", () => {
  it("turns colours into classes", () => {
    expect(ansiSpans("a \x1b[1;31mred\x1b[0m b").map((s) => [s.text, s.className])).toEqual([
      ["a ", ""],
      ["red", "ansi-red ansi-bold"],
      [" b", ""],
    ]);
  });
  it("turns 256 colours and true colours into styles", () => {
    const [a, b] = ansiSpans("\x1b[38;5;208morange\x1b[48;2;1;2;3mtrue");
    expect(a?.style).toEqual({ color: "rgb(255,135,0)" });
    expect(b?.style).toEqual({ color: "rgb(255,135,0)", backgroundColor: "rgb(1, 2, 3)" });
  });
  it("never makes markup", () => {
    expect(ansiSpans("<img src=x onerror=alert(1)>")[0]?.text).toBe("<img src=x onerror=alert(1)>");
  });
});

describe("visible", () => {
  it("shows what a terminal leaves after carriage returns", () => {
    expect(visible("10%\r50%\r100%")).toBe("100%");
  });
  it("drops movements and titles, and shows other control characters", () => {
    expect(visible("\x1b[2K\x1b]0;title\x07a\x00b\x1b[3A")).toBe("a␀b");
  });
});

it("stripAnsi leaves text", () => {
  expect(stripAnsi("\x1b[1;31mERROR\x1b[0m x")).toBe("ERROR x");
});
