import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CancelStatementDocument, ExecuteStatementDocument, type ExecuteStatementInput } from "@/gql/gen";
import { request } from "@/lib/graphql";
import { failed } from "@/lib/notify";
import type { Parameter } from "@/lib/sqlTabs";
import { tokens } from "@/lib/sqlText";
import { takeStatement } from "./live";
import type { Statement } from "./queries";

const exact = (s: string) => String(Number(s)) === s;
const rawJson = (JSON as { rawJSON?: (s: string) => unknown }).rawJSON;
const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/**
 * A parameter's value for the server: a number with all its digits. Throws an Error with the
 * reason.
 */
export function parameterValue(p: Parameter, n: number): unknown {
  if (p.kind === "null") return null;
  if (p.kind === "text") return p.value;
  if (p.kind === "boolean") return p.value === "true";
  const v = p.value.trim();
  if (!number.test(v))
    throw new Error(`Parameter ${n} is ${JSON.stringify(p.value)}, which is not a number.`);
  return exact(v) || !rawJson ? Number(v) : rawJson(v);
}

/** A warning about a statement's destructive effect; null without one. */
export function danger(sql: string): string | null {
  const words = tokens(sql)
    .filter((t) => t.kind === "name")
    .map((t) => sql.slice(t.from, t.to).toLowerCase());
  const [first, second] = words;
  if (first === "drop" && second === "table")
    return "This drops a table. It can be restored under Catalog for seven days.";
  if (first === "drop") return `This drops a ${second ?? "thing"}.`;
  if ((first === "delete" || first === "update") && !words.includes("where"))
    return `This ${first === "delete" ? "deletes" : "changes"} every row of the table: it has no WHERE.`;
  if (first === "alter" && words.includes("execute")) {
    if (words.includes("expire_snapshots"))
      return "This removes old snapshots: the table can no longer be queried as of then.";
    if (words.includes("remove_orphan_files"))
      return "This deletes the files in the table's folder that no snapshot names.";
  }
  return first === "truncate" ? "This deletes every row of the table." : null;
}

/** Sends a statement. The answer arrives at once; the statement goes on. */
export function useExecute() {
  const qc = useQueryClient();
  return async (input: ExecuteStatementInput): Promise<Statement> => {
    const { statement } = (await request(ExecuteStatementDocument, { input: { ...input, waitMs: 0 } }))
      .executeStatement;
    takeStatement(qc, statement);
    void qc.invalidateQueries({ queryKey: ["StatementsList"] });
    return statement;
  };
}

/** Cancels a statement. */
export function useCancel() {
  const qc = useQueryClient();
  return useMutation({
    mutationFn: async (id: string) =>
      (await request(CancelStatementDocument, { id })).cancelStatement.statement,
    onSuccess: (s) => takeStatement(qc, s),
    onError: (e) => failed("The statement was not cancelled", e),
  });
}
