import { Checkbox, Table, UnstyledButton } from "@mantine/core";
import { IconSortAscending, IconSortDescending } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import { StatusBadge } from "@/ui/Status";
import { Ago, Duration } from "@/ui/Time";
import { groupRuns, type Logged, meanIn, nextSort, textIn, valueIn } from "./columns";
import type { Column } from "./search";
import { formatMetric } from "./value";

const fixed = [
  { id: "run_name", label: "Run" },
  { id: "status", label: "State" },
  { id: "start_time", label: "Started" },
  { id: null, label: "Duration" },
  { id: "user_id", label: "User" },
] as const;

/** Runs of an experiment, one per line, in columns of what they logged. */
export function RunsTable({
  runs,
  columns,
  group,
  sort,
  onSort,
  selected,
  onSelect,
}: {
  runs: readonly Logged[];
  columns: readonly Column[];
  group: Column | null;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  selected: ReadonlySet<string>;
  onSelect: (ids: readonly string[], on: boolean) => void;
}) {
  const groups = group ? groupRuns(runs, group) : [{ value: null, runs: [...runs] }];
  const ids = runs.map((r) => r.id);
  const chosen = ids.filter((id) => selected.has(id)).length;
  const head = { sort, onSort };
  return (
    <Table.ScrollContainer minWidth={760}>
      <Table aria-label="Runs of the experiment" className="rows tracking-runs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={44}>
              <Checkbox
                size="xs"
                aria-label="Select every run"
                checked={chosen === ids.length}
                indeterminate={chosen > 0 && chosen < ids.length}
                onChange={(e) => onSelect(ids, e.currentTarget.checked)}
              />
            </Table.Th>
            {fixed.map((f) =>
              f.id ? (
                <SortHead key={f.id} {...head} id={f.id} label={f.label} />
              ) : (
                <Table.Th key={f.label}>{f.label}</Table.Th>
              ),
            )}
            {columns.map((c) => (
              <SortHead
                key={c.id}
                {...head}
                id={c.id}
                label={c.key}
                title={c.id}
                right={c.kind === "metrics"}
              />
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {groups.map((g) => (
            <Fragment key={g.value ?? ""}>
              {group && <GroupRow by={group} value={g.value} runs={g.runs} columns={columns} />}
              {g.runs.map((r) => (
                <RunRow
                  key={r.id}
                  run={r}
                  columns={columns}
                  selected={selected.has(r.id)}
                  onSelect={(on) => onSelect([r.id], on)}
                />
              ))}
            </Fragment>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function SortHead({
  id,
  label,
  title,
  right = false,
  sort,
  onSort,
}: {
  id: string;
  label: string;
  title?: string;
  right?: boolean;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
}) {
  const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : "none";
  const Icon = direction === "ascending" ? IconSortAscending : IconSortDescending;
  return (
    <Table.Th
      aria-sort={direction}
      ta={right ? "right" : undefined}
      data-right={right || undefined}
      title={title}
    >
      <UnstyledButton className="sort-head" onClick={() => onSort(nextSort(sort, id))}>
        <span className="column-name">{label}</span>
        <Icon size={13} aria-hidden style={{ visibility: direction === "none" ? "hidden" : "visible" }} />
      </UnstyledButton>
    </Table.Th>
  );
}

function GroupRow({
  by,
  value,
  runs,
  columns,
}: {
  by: Column;
  value: string | null;
  runs: readonly Logged[];
  columns: readonly Column[];
}) {
  return (
    <Table.Tr className="group-row">
      <Table.Th colSpan={1 + fixed.length} scope="rowgroup">
        <span className="mono">{by.key}</span> {value === null ? "is not set" : `= ${value}`}{" "}
        <span className="dim">({runs.length})</span>
      </Table.Th>
      {columns.map((c) => {
        const mean = c.kind === "metrics" ? meanIn(runs, c) : null;
        return (
          <Table.Td key={c.id} ta="right" className="dim">
            {mean !== null && `mean ${formatMetric(mean)}`}
          </Table.Td>
        );
      })}
    </Table.Tr>
  );
}

function RunRow({
  run: r,
  columns,
  selected,
  onSelect,
}: {
  run: Logged;
  columns: readonly Column[];
  selected: boolean;
  onSelect: (on: boolean) => void;
}) {
  return (
    <Table.Tr className="row-link" bg={selected ? "var(--mantine-color-pond-light)" : undefined}>
      <Table.Td>
        <Checkbox
          size="xs"
          aria-label={`Select ${r.name}`}
          checked={selected}
          onChange={(e) => onSelect(e.currentTarget.checked)}
        />
      </Table.Td>
      <Table.Td>
        <Link
          to="/experiments/$experimentId/runs/$runId"
          params={{ experimentId: r.experimentId, runId: r.id }}
          className="row-main"
        >
          {r.name}
        </Link>
      </Table.Td>
      <Table.Td>
        <StatusBadge status={r.state} />
      </Table.Td>
      <Table.Td>
        <Ago at={r.startedAt} />
      </Table.Td>
      <Table.Td>
        <Duration from={r.startedAt} to={r.finishedAt} />
      </Table.Td>
      <Table.Td className="cell-text">{r.user ?? <span className="dim">–</span>}</Table.Td>
      {columns.map((c) => {
        const text = textIn(r, c);
        return (
          <Table.Td
            key={c.id}
            ta={c.kind === "metrics" ? "right" : undefined}
            className="cell-text"
            title={text === undefined ? undefined : String(valueIn(r, c))}
          >
            {text ?? <span className="dim">–</span>}
          </Table.Td>
        );
      })}
    </Table.Tr>
  );
}
