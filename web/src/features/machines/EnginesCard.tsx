import { Alert } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { WarehouseFullFragment } from "@/gql/gen";
import { type Engine, engineName, nodesText } from "@/lib/engine";
import { MachineBadge } from "@/ui/Machine";

/** The engines of a warehouse: the role of each, and Trino's state. */
export function EnginesCard({ warehouse: w }: { warehouse: WarehouseFullFragment }) {
  return (
    <section className="card" aria-label="Engines">
      <div className="section-title">
        <h2>Engines</h2>
        <span>
          <Link to="/sql/history" search={{ warehouse: w.id }}>
            What it has run
          </Link>
          {" · "}
          <Link to="/sql" search={{ warehouse: w.id }}>
            write SQL
          </Link>
        </span>
      </div>
      <div className="engines">
        <ul>
          {w.engines.map((e) => (
            <EngineItem key={e.name} engine={e} warehouse={w} />
          ))}
          {w.engines.length === 0 && (
            <li className="dim">
              {w.state === "RUNNING"
                ? "Its agent has reported no engine."
                : "Its agent reports them at its first start."}
            </li>
          )}
        </ul>
        <dl className="facts">
          <dt>Writes with</dt>
          <dd>{engineName(w.writeEngine)}</dd>
          {w.writeEngine === "trino" && (
            <>
              <dt>Nodes</dt>
              <dd>{w.nodes}</dd>
              <dt>Trino starts</dt>
              <dd>{w.trinoStart === "with_warehouse" ? "with the warehouse" : "at the first write"}</dd>
            </>
          )}
        </dl>
      </div>
    </section>
  );
}

function EngineItem({ engine: e, warehouse: w }: { engine: Engine; warehouse: WarehouseFullFragment }) {
  const nodes = nodesText(e, w.nodes);
  return (
    <li aria-label={engineName(e.name)}>
      <div className="engine-line">
        <b>{engineName(e.name)}</b>
        <span className="dim">{e.version}</span>
        {e.state && <MachineBadge state={e.state} />}
        {nodes && <span className="dim engine-nodes">{nodes}</span>}
      </div>
      {e.message && e.state === "FAILED" && (
        <Alert
          mt={6}
          p="xs"
          color="red"
          variant="light"
          icon={<IconAlertTriangle size={18} aria-hidden />}
          title="Why it failed"
        >
          {e.message}
        </Alert>
      )}
      {e.message && e.state !== "FAILED" && <div className="engine-message">{e.message}</div>}
      {!e.message && <div className="dim engine-message">{doing(e, w)}</div>}
    </li>
  );
}

/** The role of an engine. */
function doing(e: Engine, w: WarehouseFullFragment): string {
  if (e.name === w.writeEngine) return e.name === "duckdb" ? "Serves reads and writes." : "Serves writes.";
  return e.name === "duckdb" ? "Serves reads." : "Serves statements that name it.";
}
