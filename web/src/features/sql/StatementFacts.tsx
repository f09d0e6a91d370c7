import { Link } from "@tanstack/react-router";
import { StatementDetailDocument } from "@/gql/gen";
import { engineName } from "@/lib/engine";
import { formatBytes, formatCount } from "@/lib/format";
import { CopyButton, CopyId, CopyMenu } from "@/ui/Copy";
import { Ago, When } from "@/ui/Time";
import { isOver, type Statement } from "./queries";
import { took } from "./took";

/** All details of a statement. */
export function StatementFacts({ statement: s }: { statement: Statement }) {
  return (
    <div className="card-pad">
      <div className="sql-facts-tools">
        <CopyButton value={`${location.origin}/sql?statement=${s.id}`} label="Copy link" />
        <CopyButton value={s.query} label="Copy text" />
        <CopyMenu
          doc={StatementDetailDocument}
          variables={{ id: s.id }}
          rest={`/api/v1/sql/statements/${s.id}`}
        />
      </div>
      <dl className="facts">
        <dt>Statement</dt>
        <dd>
          <CopyId id={s.id} />
        </dd>
        <dt>Kind</dt>
        <dd>{s.kind ?? <span className="dim">not read yet</span>}</dd>
        <dt>Warehouse</dt>
        <dd>
          {s.warehouse ? (
            <Link to="/warehouses/$machineId" params={{ machineId: s.warehouse.id }}>
              {s.warehouse.name}
            </Link>
          ) : (
            <span className="dim">{s.warehouseId ? "deleted" : "not chosen yet"}</span>
          )}
        </dd>
        <dt>Engine</dt>
        <dd>
          {s.engine ? engineName(s.engine) : <span className="dim">{isOver(s) ? "none" : "none yet"}</span>}
          {s.routingReason && <div className="dim">{s.routingReason}</div>}
        </dd>
        <dt>Short names</dt>
        <dd>
          in {s.database}.{s.schema}
        </dd>
        {s.parameters.length > 0 && (
          <>
            <dt>Parameters</dt>
            <dd className="mono">{s.parameters.map((p) => JSON.stringify(p)).join(", ")}</dd>
          </>
        )}
        <dt>Sent by</dt>
        <dd>
          {s.createdBy}
          {s.run && (
            <>
              {" in the run "}
              <Link to="/runs/$runId" params={{ runId: s.run.id }}>
                {s.run.jobName}
              </Link>
              {s.taskKey && `, task ${s.taskKey}`}
            </>
          )}
        </dd>
        {s.tableId && (
          <>
            <dt>Maintains</dt>
            <dd>
              {s.table ? (
                <Link
                  to="/catalog/table/$tableId"
                  params={{ tableId: s.table.id }}
                  search={{ tab: "maintenance" }}
                >
                  {s.table.fullName}
                </Link>
              ) : (
                <span className="dim">a table that was removed</span>
              )}
            </dd>
          </>
        )}
        <dt>Sent</dt>
        <dd>
          <When at={s.createdAt} />
        </dd>
        <dt>Waited</dt>
        <dd>{took(Number(s.queuedMs))}</dd>
        <dt>Ran</dt>
        <dd>{s.runMs === null ? <span className="dim">it did not start</span> : took(Number(s.runMs))}</dd>
        <dt>Rows</dt>
        <dd>
          {s.rowCount === null ? <span className="dim">not known</span> : formatCount(Number(s.rowCount))}
        </dd>
        <dt>Result</dt>
        <dd>
          {formatBytes(Number(s.resultBytes))}
          {s.resultUntil && (
            <span className="dim">
              , thrown away <Ago at={s.resultUntil} />
            </span>
          )}
        </dd>
        <dt>Read from storage</dt>
        <dd>{formatBytes(Number(s.bytesScanned))}</dd>
      </dl>
    </div>
  );
}
