import { Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { formatCount } from "@/lib/format";
import { TableHead } from "@/ui/Table";
import type { TrackingRun } from "./queries";
import { formatMetric } from "./value";

/** A card with a list that scrolls. */
export function ValuesCard({
  title,
  count,
  none,
  tools,
  children,
}: {
  title: string;
  count: number;
  none: string;
  tools?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className="card" aria-label={title}>
      <div className="section-title">
        <h2>{title}</h2>
        {tools ?? (count > 0 && <span className="dim">{formatCount(count)}</span>)}
      </div>
      {count === 0 && (
        <Text size="sm" c="dimmed" px="md" pb="md">
          {none}
        </Text>
      )}
      {count > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so that keys must reach it
        <section className="values-scroll" aria-label={`All ${title.toLowerCase()}`} tabIndex={0}>
          {children}
        </section>
      )}
    </section>
  );
}

export function Parameters({ run }: { run: TrackingRun }) {
  return (
    <ValuesCard title="Parameters" count={run.parameters.length} none="The run logged none.">
      <Table aria-label="Parameters" className="rows values">
        <TableHead columns={["Key", "Value"]} />
        <Table.Tbody>
          {run.parameters.map((p) => (
            <Table.Tr key={p.key}>
              <Table.Td>{p.key}</Table.Td>
              <Table.Td className="mono">{p.value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ValuesCard>
  );
}

export function LatestMetrics({ run }: { run: TrackingRun }) {
  return (
    <ValuesCard title="Latest metrics" count={run.metrics.length} none="The run logged none.">
      <Table aria-label="Latest metrics" className="rows values">
        <TableHead columns={["Key", { right: "Value" }, { right: "Step" }, { right: "Points" }]} />
        <Table.Tbody>
          {run.metrics.map((m) => (
            <Table.Tr key={m.key}>
              <Table.Td>{m.key}</Table.Td>
              <Table.Td ta="right" className="values-number" title={String(m.value)}>
                {formatMetric(m.value)}
              </Table.Td>
              <Table.Td ta="right" className="values-number">
                {formatCount(Number(m.step))}
              </Table.Td>
              <Table.Td ta="right" className="values-number">
                {formatCount(Number(m.points))}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ValuesCard>
  );
}

/** Datasets that the run says it used; nothing without any. */
export function Inputs({ run }: { run: TrackingRun }) {
  if (run.inputs.length === 0) return null;
  return (
    <ValuesCard title="Datasets" count={run.inputs.length} none="">
      <Table aria-label="Datasets" className="rows values">
        <TableHead columns={["Name", "Use", "Digest", "Source"]} />
        <Table.Tbody>
          {run.inputs.map((d) => (
            <Table.Tr key={`${d.name} ${d.digest}`}>
              <Table.Td>{d.name}</Table.Td>
              <Table.Td>{d.tags.find((t) => t.key === "mlflow.data.context")?.value ?? "–"}</Table.Td>
              <Table.Td className="mono">{d.digest}</Table.Td>
              <Table.Td>
                {d.sourceType}
                <Text size="xs" c="dimmed" lineClamp={2}>
                  {d.source}
                </Text>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ValuesCard>
  );
}
