import { describe, expect, it } from "vitest";
import { setUpSchema, setUpTexts } from "./setup";

const values = { account: false, email: "ada@example.org", name: "", password: "", again: "" };
const fields = (v: Partial<typeof values>) =>
  setUpSchema.safeParse({ ...values, ...v }).error?.issues.map((i) => i.path.join(".")) ?? [];

describe("setUpSchema", () => {
  it("asks for a first password twice, and long enough", () => {
    expect(fields({ password: "a pond by the mill", again: "a pond by the mill" })).toEqual([]);
    expect(fields({ password: "too short", again: "too short" })).toEqual(["password"]);
    expect(fields({ password: "a pond by the mill", again: "a pond by the hill" })).toEqual(["again"]);
    expect(fields({})).toEqual(["password"]);
  });
  it("takes an account's password once, whatever it is", () => {
    expect(fields({ account: true, password: "x" })).toEqual([]);
    expect(fields({ account: true })).toEqual(["password"]);
    expect(fields({ account: true, password: "x", email: "ada" })).toEqual(["email"]);
  });
});

describe("setUpTexts", () => {
  it("says who is asked for what", () => {
    expect(setUpTexts(true, false).title).toBe("Create the administrator");
    expect(setUpTexts(false, false).title).toBe("Set your password");
    expect(setUpTexts(false, true).lead).toContain("the password that you sign in with");
  });
});
