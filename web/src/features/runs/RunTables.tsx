import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type RunDetailQuery, RunTablesDocument } from "@/gql/gen";
import { plural } from "@/lib/format";
import { gql } from "@/lib/graphql";
import { LineageList } from "@/ui/LineageList";
import { isActive } from "@/ui/Status";

type Run = Pick<NonNullable<RunDetailQuery["run"]>, "id" | "status">;

/** The tables that a run has read and written; nothing without any. */
export function RunTables({ run }: { run: Run }) {
  const active = isActive(run.status);
  // The key has the state, so it is refetched at the end.
  const q = useQuery({
    ...gql(RunTablesDocument, { id: run.id }),
    queryKey: ["RunTables", run.id, active],
    refetchInterval: active ? 5_000 : false,
  });
  const lineage = q.data?.run?.lineage;
  if (!lineage || lineage.read.length + lineage.written.length + lineage.unresolved.length === 0) return null;
  return (
    <section className="card" aria-label="Tables of the run">
      <div className="section-title">
        <h2>Tables</h2>
        <Link to="/sql/history" search={{ run: run.id }}>
          Its statements
        </Link>
      </div>
      <div className="card-pad" style={{ paddingTop: 0 }}>
        <LineageList lineage={lineage} />
        {lineage.unresolved.length > 0 && (
          <Text size="sm" c="dimmed" mt="sm">
            The lineage of {plural(lineage.unresolved.length, "statement")} is incomplete.
          </Text>
        )}
        {lineage.truncated && (
          <Text size="sm" c="dimmed" mt="sm">
            There are more: these are the oldest 10,000.
          </Text>
        )}
      </div>
    </section>
  );
}
