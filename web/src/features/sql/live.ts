import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { StatementChangedDocument } from "@/gql/gen";
import { refreshCatalog } from "@/lib/catalog";
import { patchEntity } from "@/lib/patch";
import { subscribe } from "@/lib/socket";
import { isOver, type Statement, statementQuery } from "./queries";

/** Writes a statement into every cached view of it. A final state never reverts. */
export function takeStatement(qc: QueryClient, s: Statement) {
  const { queryKey } = statementQuery(s.id);
  const known = qc.getQueryData(queryKey)?.statement;
  if (known && isOver(known) && !isOver(s)) return;
  qc.setQueryData(queryKey, { statement: s });
  patchEntity(qc, s);
}

const watched = new Map<string, Promise<Statement>>();

const messageOf = (e: unknown) => {
  const first = Array.isArray(e) ? (e[0] as { message?: string } | undefined) : undefined;
  return first?.message ?? "The statement can no longer be watched.";
};

/**
 * Keeps a statement live until it is over, and resolves to it. All watchers share one subscription.
 */
export function watchStatement(qc: QueryClient, id: string): Promise<Statement> {
  const under = watched.get(id);
  if (under) return under;
  const end = new Promise<Statement>((resolve, reject) => {
    let last: Statement | undefined;
    const over = () => last !== undefined && isOver(last);
    const sink = {
      next: ({ statementUpdated: s }: { statementUpdated: Statement }) => {
        last = s;
        takeStatement(qc, s);
        if (!isOver(s)) return;
        watched.delete(id);
        if (s.write) void refreshCatalog(qc);
        stop();
        resolve(s);
      },
      error: (e: unknown) => {
        watched.delete(id);
        reject(new Error(messageOf(e)));
      },
    };
    const stop = subscribe(StatementChangedDocument, () => ({ id }), sink, over);
  });
  watched.set(id, end);
  return end;
}

/** A live statement; null if it does not exist. */
export function useStatement(id: string | undefined) {
  const qc = useQueryClient();
  const q = useQuery({ ...statementQuery(id ?? ""), enabled: id !== undefined, staleTime: 60_000 });
  const s = q.data?.statement;
  const running = s && !isOver(s) ? s.id : undefined;
  useEffect(() => {
    // The query reports failures; it is refetched.
    if (running)
      watchStatement(qc, running).catch(() =>
        qc.invalidateQueries({ queryKey: statementQuery(running).queryKey }),
      );
  }, [qc, running]);
  return { ...q, statement: s };
}
