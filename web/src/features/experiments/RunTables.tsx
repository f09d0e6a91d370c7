import { useQuery } from "@tanstack/react-query";
import { TrackingRunTablesDocument } from "@/gql/gen";
import { gql } from "@/lib/graphql";
import { LineageList } from "@/ui/LineageList";
import { logs, type TrackingRun } from "./queries";

/** The tables that the run's task read and wrote while the run went on; nothing without any. */
export function RunTables({ run }: { run: TrackingRun }) {
  const active = logs(run.state);
  // The key has the state, so it is refetched at the end.
  const q = useQuery({
    ...gql(TrackingRunTablesDocument, { id: run.id }),
    queryKey: ["TrackingRunTables", run.id, active],
    enabled: run.jobRunId !== null,
    refetchInterval: active ? 5_000 : false,
  });
  const lineage = q.data?.trackingRun?.lineage;
  if (!lineage || lineage.read.length + lineage.written.length === 0) return null;
  return (
    <section className="card" aria-label="Tables of the run">
      <div className="section-title">
        <h2>Tables</h2>
      </div>
      <div className="card-pad" style={{ paddingTop: 0 }}>
        <LineageList lineage={lineage} />
      </div>
    </section>
  );
}
