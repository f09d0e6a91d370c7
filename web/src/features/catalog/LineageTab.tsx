import { Button, Group, SegmentedControl, Text, TextInput } from "@mantine/core";
import { IconMinus, IconPlus, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { LineageWay } from "@/gql/gen";
import { plural } from "@/lib/format";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { Ago } from "@/ui/Time";
import { asTasks, edgesOf, isTable, times } from "./graph";
import { type Graph, type GraphEdge, type GraphNode, lineageQuery, type TableFull } from "./queries";

const Dag = lazy(async () => ({ default: (await import("@/ui/Dag")).Dag }));

const ways = [
  { value: LineageWay.Upstream, label: "Made from" },
  { value: LineageWay.Both, label: "Both" },
  { value: LineageWay.Downstream, label: "Used for" },
];
const farthest = 10;

/** The lineage of a table in both directions, hop by hop, now or as of a time. */
export function LineageTab({ table }: { table: TableFull }) {
  const [way, setWay] = useState<LineageWay>(LineageWay.Both);
  const [depth, setDepth] = useState(1);
  const [moment, setMoment] = useState("");
  const [selected, setSelected] = useState<string | null>(null);
  const at = moment && !Number.isNaN(Date.parse(moment)) ? new Date(moment).toISOString() : null;
  const q = useQuery(lineageQuery(table.id, way, depth, at));
  const graph = q.data;
  const tasks = useMemo(() => (graph ? asTasks(graph, Date.now()) : []), [graph]);
  const index = graph?.nodes.findIndex((n) => n.id === selected) ?? -1;
  const node = graph?.nodes[index];
  return (
    <>
      <Group className="lineage-tools" gap="md">
        <SegmentedControl
          size="xs"
          aria-label="Which way"
          data={ways}
          value={way}
          onChange={(v) => setWay(v as LineageWay)}
        />
        <Group gap={6}>
          <Button
            size="compact-sm"
            variant="default"
            px={6}
            aria-label="One hop less"
            disabled={depth === 1}
            onClick={() => setDepth(depth - 1)}
          >
            <IconMinus size={14} />
          </Button>
          <span role="status" aria-label="Distance">
            {plural(depth, "hop")}
          </span>
          <Button
            size="compact-sm"
            variant="default"
            px={6}
            aria-label="One hop more"
            disabled={depth === farthest}
            onClick={() => setDepth(depth + 1)}
          >
            <IconPlus size={14} />
          </Button>
        </Group>
        <TextInput
          type="datetime-local"
          size="xs"
          label="As it was at"
          value={moment}
          onChange={(e) => setMoment(e.currentTarget.value)}
          className="lineage-at"
        />
        {moment && (
          <Button size="xs" variant="default" leftSection={<IconX size={14} />} onClick={() => setMoment("")}>
            Now
          </Button>
        )}
      </Group>
      {q.error && (
        <div className="card-pad">
          <ErrorPanel error={q.error} retry={() => q.refetch()} />
        </div>
      )}
      {q.isPending && !q.error && <PanelSkeleton height={320} />}
      {graph && graph.nodes.length <= 1 && (
        <Text size="sm" c="dimmed" className="card-pad">
          {at ? "It had no lineage at that time." : "It has no lineage yet: nobody has read or written it."}
        </Text>
      )}
      {graph && graph.nodes.length > 1 && (
        <div className="lineage-room">
          <div className="lineage-graph">
            <Suspense fallback={<PanelSkeleton height={360} />}>
              <Dag
                label={`Lineage of ${table.fullName}`}
                tasks={tasks}
                selected={index < 0 ? undefined : index}
                onSelect={(i) => setSelected(graph.nodes[i]?.id ?? null)}
              />
            </Suspense>
          </div>
          <aside className="lineage-side" aria-label="Selected in the lineage">
            {graph.truncated && <Text size="sm">There is more than this: these are the nearest 1,000.</Text>}
            {node ? (
              <Selected node={node} graph={graph} />
            ) : (
              <Text size="sm" c="dimmed">
                Choose a table to go to it, or a statement or task to see what it did.
              </Text>
            )}
          </aside>
        </div>
      )}
    </>
  );
}

function Selected({ node: n, graph }: { node: GraphNode; graph: Graph }) {
  const { before, after } = edgesOf(graph, n);
  const nameOf = (id: string) => graph.nodes.find((x) => x.id === id)?.name ?? "";
  const last = [...before, ...after].sort((a, b) => (a.at < b.at ? 1 : -1))[0];
  const statementId = last?.statementId;
  const runId = n.runId ?? (isTable(n) ? null : last?.runId);
  return (
    <>
      <h2 className={isTable(n) ? "mono" : undefined}>
        {n.name}
        {n.taskKey && ` / ${n.taskKey}`}
      </h2>
      {n.namespace && <Text size="sm">Outside: {n.namespace}</Text>}
      {n.dropped && <Text size="sm">It was dropped.</Text>}
      {n.by && <Text size="sm">by {n.by}</Text>}
      {n.text && <pre className="code-block lineage-text">{n.text}</pre>}
      <Edges title={isTable(n) ? "Written by" : "Read"} edges={before} name={(e) => nameOf(e.from)} />
      <Edges title={isTable(n) ? "Read by" : "Wrote"} edges={after} name={(e) => nameOf(e.to)} />
      <Group gap="xs" mt="sm">
        {n.kind === "TABLE" && n.id !== graph.root && (
          <Button
            size="xs"
            variant="default"
            renderRoot={(p) => (
              <Link
                to="/catalog/table/$tableId"
                params={{ tableId: n.id }}
                search={{ tab: "lineage" }}
                {...p}
              />
            )}
          >
            Open the table
          </Button>
        )}
        {!isTable(n) && statementId && (
          <Button
            size="xs"
            variant="default"
            renderRoot={(p) => <Link to="/sql" search={{ statement: statementId }} {...p} />}
          >
            Open the statement
          </Button>
        )}
        {runId && (
          <Button
            size="xs"
            variant="default"
            renderRoot={(p) => <Link to="/runs/$runId" params={{ runId }} {...p} />}
          >
            Open the run
          </Button>
        )}
        {n.jobId && (
          <Button
            size="xs"
            variant="default"
            renderRoot={(p) => <Link to="/jobs/$jobId" params={{ jobId: n.jobId ?? "" }} {...p} />}
          >
            Open the job
          </Button>
        )}
      </Group>
    </>
  );
}

function Edges({
  title,
  edges,
  name,
}: {
  title: string;
  edges: readonly GraphEdge[];
  name: (e: GraphEdge) => string;
}) {
  if (edges.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul>
        {edges.slice(0, 20).map((e) => (
          <li key={`${e.from} ${e.to}`}>
            {name(e)}
            <small className="dim">
              {times(e.count)}, last <Ago at={e.at} />
              {e.columns && e.columns.length > 0 && `: ${e.columns.join(", ")}`}
            </small>
          </li>
        ))}
        {edges.length > 20 && <li className="dim">and {edges.length - 20} more</li>}
      </ul>
    </section>
  );
}
