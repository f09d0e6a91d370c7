import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { buildASTSchema, Kind, parse, Source, validate } from "graphql";
import { expect, it } from "vitest";
import operations from "./operations.json";

const dir = "../graph/schema";
const schema = buildASTSchema({
  kind: Kind.DOCUMENT,
  definitions: readdirSync(dir)
    .filter((f) => f.endsWith(".graphqls"))
    .flatMap((f) => parse(new Source(readFileSync(join(dir, f), "utf8"), f)).definitions),
});

it.each(Object.entries(operations))("%s is a valid operation under its hash", (hash, { text }) => {
  expect(validate(schema, parse(text)).map(String)).toEqual([]);
  expect(createHash("sha256").update(text).digest("hex")).toBe(hash);
});
