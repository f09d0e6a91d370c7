// Fails when the console has become too large to load: the first page on the wire, or one lazy part.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const firstLoadLimit = 330_000; // bytes, brotli where the file has it
const lazyLimit = 260_000; // bytes, gzip
const dist = new URL("../dist/", import.meta.url).pathname;
const assets = join(dist, "assets");

let index;
try {
  index = readFileSync(join(dist, "index.html"), "utf8");
} catch {
  console.error("There is no build to measure: run `npm run build` first.");
  process.exit(1);
}
const files = readdirSync(assets).filter((f) => !/\.(br|gz)$/.test(f));
const wire = (f) => {
  try {
    return statSync(join(assets, `${f}.br`)).size;
  } catch {
    return statSync(join(assets, f)).size;
  }
};

// Scripts, their preloads and styles of index.html; the sign-in page, which is the first one; and the one
// font file that its text needs.
const named = [...index.matchAll(/\/assets\/([^"']+)/g)].map((m) => m[1]);
const first = new Set(named);
const imports = (f) => [
  ...readFileSync(join(assets, f), "utf8").matchAll(/(?:from|import)\s*["']\.\/([^"']+\.js)["']/g),
];
const addWithImports = (f) => {
  first.add(f);
  for (const [, dep] of imports(f)) if (!first.has(dep)) addWithImports(dep);
};
for (const f of named.filter((n) => n.endsWith(".js"))) addWithImports(f);
for (const f of files.filter((n) => /^login-.*\.js$/.test(n))) addWithImports(f);
for (const f of files.filter((n) => /^inter-latin-wght-normal-.*\.woff2$/.test(n))) first.add(f);

const total = [...first].reduce((n, f) => n + wire(f), 0) + index.length;
const kb = (n) => `${(n / 1000).toFixed(1)} kB`;
console.log(`first load: ${kb(total)} of ${kb(firstLoadLimit)} in ${first.size + 1} files`);

const lazy = files
  .filter((f) => /\.(js|css)$/.test(f) && !first.has(f))
  .map((f) => ({ f, size: gzipSync(readFileSync(join(assets, f)), { level: 9 }).length }))
  .sort((a, b) => b.size - a.size);
for (const { f, size } of lazy.slice(0, 3)) console.log(`lazy: ${kb(size)} of ${kb(lazyLimit)} in ${f}`);

const tooLarge = lazy.filter(({ size }) => size > lazyLimit);
if (total > firstLoadLimit) console.error(`The first load is ${kb(total - firstLoadLimit)} too large.`);
for (const { f, size } of tooLarge) console.error(`${f} is ${kb(size - lazyLimit)} too large.`);
if (total > firstLoadLimit || tooLarge.length) process.exit(1);
