/** JSON with a line for each value. Numbers keep the digits they have in the text. */
export function prettyJson(json: string): string {
  const parts = json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return parts
    .map((p, i) => {
      const before = parts[i - 1];
      if (p === "{" || p === "[") {
        depth++;
        const empty = parts[i + 1] === "}" || parts[i + 1] === "]";
        return empty ? p : p + line();
      }
      if (p === "}" || p === "]") {
        depth--;
        return before === "{" || before === "[" ? p : line() + p;
      }
      if (p === ",") return p + line();
      return p === ":" ? ": " : p;
    })
    .join("");
}
