import { CompletionContext } from "@codemirror/autocomplete";
import { EditorState } from "@codemirror/state";
import { expect, it, vi } from "vitest";
import { type CatalogNames, complete } from "./complete";
import { namedTables } from "./names";

const catalog: CatalogNames = {
  databases: async () => ["lake", "Archive"],
  schemas: async (d) => (d.toLowerCase() === "lake" ? ["public", "samples"] : ["old"]),
  tables: async (d, s) =>
    s === "samples" && d === "lake"
      ? [
          { name: "penguins", view: false },
          { name: "Order", view: true },
        ]
      : [{ name: `t_${d}_${s}`, view: false }],
  columns: vi.fn(async (d, s, t) => [{ name: `c_${d}_${s}_${t}`, type: "long" }]),
};
const home = { database: "lake", schema: "public" };

/** Labels offered where | stands. */
async function at(text: string, explicit = false) {
  const pos = text.indexOf("|");
  const state = EditorState.create({ doc: text.replace("|", "") });
  const r = await complete(new CompletionContext(state, pos, explicit), catalog, home);
  return r && { from: r.from, labels: r.options.map((o) => o.label), apply: r.options.map((o) => o.apply) };
}

it("offers databases, schemas and tables level by level", async () => {
  expect((await at("select * from l|"))?.labels).toEqual([
    "t_lake_public",
    "public",
    "samples",
    "lake",
    "Archive",
  ]);
  expect((await at("select * from lake.|"))?.labels).toEqual(["public", "samples"]);
  expect((await at("select * from lake.samples.pe|"))?.labels).toContain("penguins");
  expect((await at("select * from samples.|"))?.labels).toEqual(["penguins", "Order"]);
});

it("writes names that need it in quotes", async () => {
  expect((await at("from lake.samples.|"))?.apply).toContain('"Order"');
  expect((await at('from "Archive".|'))?.labels).toEqual(["old"]);
});

it("knows the columns of the tables of the statement, by alias and by name", async () => {
  expect((await at("select p.| from lake.samples.penguins p"))?.labels).toEqual(["c_lake_samples_penguins"]);
  expect((await at("select penguins.| from samples.penguins"))?.labels).toEqual(["c_lake_samples_penguins"]);
  const some = await at("select c| from a join b x on true; select 1 from other");
  expect(some?.labels.slice(0, 3)).toEqual(["c_lake_public_a", "c_lake_public_b", "x"]);
});

it("offers nothing in texts and comments, nor before anything is typed", async () => {
  expect(await at("select 'fro|m'")).toBeNull();
  expect(await at("select 1 -- lake.|\n from t")).toBeNull();
  expect(await at("select |")).toBeNull();
  expect((await at("select |", true))?.labels).toContain("lake");
});

it("begins at the last part of the name", async () => {
  expect((await at("select * from lake.samples.pe|"))?.from).toBe("select * from lake.samples.".length);
});

it("goes on where the catalog does not answer", async () => {
  vi.mocked(catalog.columns).mockRejectedValueOnce(new Error("away"));
  expect((await at("select x| from a"))?.labels).toContain("lake");
});

it("finds the tables of a statement", () => {
  expect(
    namedTables(
      'select * from lake."A b".t as x, u, (select 1 from v) join w y on x.i = y.i where from_ = 1',
    ),
  ).toEqual([
    { path: ["lake", "A b", "t"], alias: "x" },
    { path: ["u"], alias: null },
    { path: ["v"], alias: null },
    { path: ["w"], alias: "y" },
  ]);
});
