import { expect, it } from "vitest";
import { TabStore } from "./sqlTabs";

function memory() {
  const held = new Map<string, string>();
  return {
    getItem: (k: string) => held.get(k) ?? null,
    setItem: (k: string, v: string) => void held.set(k, v),
    removeItem: (k: string) => void held.delete(k),
    held,
  };
}
const names = (s: TabStore) => s.get().list.map((t) => t.name);

it("keeps texts over a reload", () => {
  const m = memory();
  const s = new TabStore("k", m);
  s.change(s.get().active, { text: "select 1" });
  const two = s.open({ name: "two", text: "select 2" });
  const again = new TabStore("k", m);
  expect(again.get().list.map((t) => t.text)).toEqual(["select 1", "select 2"]);
  expect(again.get().active).toBe(two.id);
});

it("lets an empty tab give way to one with a text, and has always one", () => {
  const s = new TabStore("k", memory());
  s.open({ text: "select 1" });
  expect(names(s)).toEqual(["Query 2"]);
  s.close(s.get().active);
  expect(s.get().list).toHaveLength(1);
  expect(s.get().list[0]?.text).toBe("");
});

it("shows the neighbour of a tab that is closed", () => {
  const s = new TabStore("k", memory());
  const [a, b, c] = ["a", "b", "c"].map((name) => s.open({ name, text: name }));
  s.show(b?.id ?? "");
  s.close(b?.id ?? "");
  expect(s.get().active).toBe(c?.id);
  s.close(c?.id ?? "");
  expect(s.get().active).toBe(a?.id);
});

it("leaves the tabs of another window alone", () => {
  const m = memory();
  const one = new TabStore("k", m);
  one.change(one.get().active, { text: "one" });
  const two = new TabStore("k", m);
  two.open({ name: "of two", text: "two" });
  one.change(one.get().active, { text: "one, changed" });
  const later = new TabStore("k", m);
  expect(
    later
      .get()
      .list.map((t) => t.text)
      .sort(),
  ).toEqual(["one, changed", "two"]);
  one.close(one.get().active);
  expect(new TabStore("k", m).get().list.map((t) => t.text)).toContain("two");
});

it("starts empty if the stored tabs are unreadable, and works without storage", () => {
  const m = memory();
  m.setItem("k", "{");
  expect(new TabStore("k", m).get().list).toHaveLength(1);
  const s = new TabStore("k", {
    ...m,
    setItem: () => {
      throw new Error("quota");
    },
  });
  s.change(s.get().active, { text: "select 1" });
  expect(s.get().list[0]?.text).toBe("select 1");
  expect(s.full).toBe(true);
});
