import { useQuery } from "@tanstack/react-query";
import { flavorOf, flavorSize, perHour } from "@/lib/machine";
import { CopyId } from "@/ui/Copy";
import { AutoStop } from "@/ui/Machine";
import { StatusBadge } from "@/ui/Status";
import { Ago } from "@/ui/Time";
import { kindOf, type MachineFull } from "./kinds";
import { flavorsQuery } from "./queries";

/** The configuration of a machine and its creator. */
export function MachineFacts({ machine: m }: { machine: MachineFull }) {
  const kind = kindOf(m);
  const flavor = useQuery(flavorsQuery).data?.flavors.find((f) => f.name === flavorOf(m));
  return (
    <section className="card" aria-label="Facts">
      <div className="section-title">
        <h2>Facts</h2>
      </div>
      <dl className="facts card-pad" style={{ paddingTop: 0 }}>
        <dt>{kind.flavorWord}</dt>
        <dd>
          {flavorOf(m)}
          {flavor && <div className="dim">{flavorSize(flavor)}</div>}
          {flavor?.limits && <div className="dim">{flavor.limits}</div>}
        </dd>
        <dt>Cost</dt>
        <dd>{perHour(m)}</dd>
        <dt>Auto-stop</dt>
        <dd>
          <AutoStop machine={m} />
        </dd>
        <dt>Last used</dt>
        <dd>{m.lastUsedAt ? <Ago at={m.lastUsedAt} /> : <span className="dim">never</span>}</dd>
        <dt>{kind.slotsLabel}</dt>
        <dd>
          {m.slots || (
            <span>
              {flavor ? flavor.cores * 4 : "four"}{" "}
              <span className="dim">{flavor ? "(four for each core)" : "for each core"}</span>
            </span>
          )}
        </dd>
        <dt>Region</dt>
        <dd>{m.region}</dd>
        <dt>Image</dt>
        <dd>{m.image ?? <span className="dim">the provider's default</span>}</dd>
        <dt>Pinned to</dt>
        <dd>
          {m.imageRef ? (
            <CopyId id={m.imageRef} />
          ) : (
            <span className="dim">nothing before its first start</span>
          )}
        </dd>
        <dt>Agent</dt>
        <dd>
          {m.agent ? (
            <>
              <StatusBadge status={m.agent.status} />
              <div className="dim">
                {[
                  m.agent.version && `Millpond ${m.agent.version}`,
                  m.agent.status === "CONNECTED" && `${m.agent.busy} of ${m.agent.slots} slots in use`,
                ]
                  .filter(Boolean)
                  .join(", ")}
              </div>
            </>
          ) : (
            <span className="dim">none</span>
          )}
        </dd>
        <dt>Created</dt>
        <dd>
          <Ago at={m.createdAt} /> by {m.createdBy}
        </dd>
      </dl>
    </section>
  );
}
