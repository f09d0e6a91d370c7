import "./experiments.css";
import { Button, Group, Select } from "@mantine/core";
import { IconArrowBackUp, IconChartLine, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ExperimentDetailDocument, Role, TrackingRunsChangedDocument } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useTab } from "@/lib/favicon";
import { plural } from "@/lib/format";
import { patchEntity } from "@/lib/patch";
import { useRole } from "@/lib/session";
import { useSubscription } from "@/lib/socket";
import { CopyId, CopyMenu } from "@/ui/Copy";
import { LostPage } from "@/ui/Fallbacks";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, NoMatch, PanelSkeleton, TableSkeleton } from "@/ui/States";
import { ShowMore } from "@/ui/Table";
import { useTrackingRunActions } from "./actions";
import { ColumnPicker } from "./ColumnPicker";
import { columnsIn, type Logged, shownColumns } from "./columns";
import { ExperimentMenu, NoRuns, ViewSwitch } from "./ExperimentsPage";
import {
  compareAtMost,
  type Experiment,
  experimentQuery,
  experimentRunsQuery,
  type RunsFilter,
} from "./queries";
import { RunsTable } from "./RunsTable";
import { filterError, Refused, SearchField } from "./SearchField";
import { columnOf } from "./search";

/** What the page shows, from the address. */
export interface Place extends RunsFilter {
  col?: string[] | undefined;
  group?: string | undefined;
}

const examples = [
  "metrics.loss < 0.1",
  "params.model = 'tree' AND metrics.`val/accuracy` >= 0.9",
  "tags.stage LIKE 'nightly%' AND attributes.status = 'FINISHED'",
];

/** One experiment: its runs with what they logged. */
export function ExperimentPage({ id, place }: { id: string; place: Place }) {
  const q = useQuery(experimentQuery(id));
  const experiment = q.data?.experiment;
  useTab(experiment?.name ?? "Experiment");
  if (experiment === null) return <LostPage what="experiment" />;
  return (
    <div className="page">
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      {!experiment && !q.error && <PanelSkeleton height={60} />}
      {experiment && (
        <>
          <Header experiment={experiment} />
          <Runs experiment={experiment} place={place} />
        </>
      )}
    </div>
  );
}

function Header({ experiment: x }: { experiment: Experiment }) {
  const editor = includes(useRole(), Role.Editor);
  return (
    <PageHeader
      trail={[
        <Link key="experiments" to="/experiments">
          Experiments
        </Link>,
      ]}
      title={x.name}
      meta={
        <>
          {x.deletedAt && <span className="dim">deleted</span>}
          <span className="dim">
            Number <CopyId id={x.id} />
          </span>
        </>
      }
      description={x.tags.find((t) => t.key === "mlflow.note.content")?.value}
      actions={
        <>
          <CopyMenu
            doc={ExperimentDetailDocument}
            variables={{ id: x.id }}
            rest={`/api/v1/experiments/${x.id}`}
          />
          {editor && <ExperimentMenu experiment={x} />}
        </>
      }
    />
  );
}

/**
 * Runs that began after those of the list are counted, and shown on request so that rows do not
 * jump.
 */
function useLiveRuns(id: string, rows: readonly Logged[], waits: boolean) {
  const qc = useQueryClient();
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const newest = Math.max(0, ...rows.map((r) => Date.parse(r.startedAt)));
  useSubscription(TrackingRunsChangedDocument, { experiment: id }, ({ trackingRunChanges: r }) => {
    patchEntity(qc, r);
    if (waits || r.deletedAt || Date.parse(r.startedAt) < newest || rows.some((x) => x.id === r.id)) return;
    setSeen((old) => new Set([...old, r.id]));
  });
  const count = [...seen].filter((x) => !rows.some((r) => r.id === x)).length;
  const show = () => {
    setSeen(new Set());
    void qc.invalidateQueries({ queryKey: ["ExperimentRuns", id] });
  };
  return { count, show };
}

function Runs({ experiment: x, place }: { experiment: Experiment; place: Place }) {
  const navigate = useNavigate();
  const { q: text, deleted, sort, col, group } = place;
  const q = useInfiniteQuery(experimentRunsQuery(x.id, { q: text, deleted, sort }));
  const refused = filterError(q.error);
  const all = q.error ? [] : (q.data?.pages.flatMap((p) => p.trackingRuns.edges.map((e) => e.node)) ?? []);
  // A run that was deleted or restored elsewhere leaves the list at once.
  const rows = all.filter((r) => (r.deletedAt !== null) === (deleted === true));
  const fresh = useLiveRuns(x.id, all, q.isPending || deleted === true || text !== undefined);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const chosen = rows.filter((r) => selected.has(r.id)).map((r) => r.id);
  const select = (ids: readonly string[], on: boolean) =>
    setSelected((old) => new Set([...old].filter((x) => !ids.includes(x)).concat(on ? ids : [])));
  const set = (p: Partial<Place>) =>
    void navigate({
      to: "/experiments/$experimentId",
      params: { experimentId: x.id },
      search: { ...place, ...p },
      replace: true,
      resetScroll: false,
    });
  const there = columnsIn(rows);
  const columns = shownColumns(col, there);
  const by = group ? columnOf(group) : null;
  const groupable = there.filter((c) => c.kind !== "metrics").map((c) => c.id);
  if (by && !groupable.includes(by.id)) groupable.push(by.id);
  return (
    <>
      <div className="experiment-tools">
        <SearchField
          label="Search runs"
          value={text}
          error={refused}
          examples={examples}
          onSearch={(s) => set({ q: s })}
        />
        <ViewSwitch deleted={deleted} onChange={(on) => set({ deleted: on })} />
        <Select
          aria-label="Group by"
          placeholder="Group by"
          data={groupable}
          value={by?.id ?? null}
          onChange={(v) => set({ group: v ?? undefined })}
          searchable
          clearable
          w={190}
        />
        <ColumnPicker there={there} shown={columns} onChange={(ids) => set({ col: ids })} />
      </div>
      {q.error && !refused && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <section className="card" aria-label="Runs">
        {chosen.length > 0 && <Chosen experiment={x.id} ids={chosen} deleted={deleted === true} />}
        {fresh.count > 0 && (
          <div className="table-foot" style={{ borderTop: 0 }}>
            <Button size="compact-sm" radius="xl" onClick={fresh.show}>
              {plural(fresh.count, "new run")}
            </Button>
          </div>
        )}
        {q.isPending && !q.error && <TableSkeleton rows={10} columns={7} />}
        {rows.length > 0 && (
          <RunsTable
            runs={rows}
            columns={columns}
            group={by}
            sort={sort}
            onSort={(s) => set({ sort: s })}
            selected={selected}
            onSelect={select}
          />
        )}
        {refused && <Refused onClear={() => set({ q: undefined })} />}
        {q.isSuccess && rows.length === 0 && text && (
          <NoMatch what="runs" onClear={() => set({ q: undefined })} />
        )}
        {q.isSuccess && rows.length === 0 && !text && deleted && (
          <EmptyState icon={IconTrash} title="No deleted runs">
            A deleted run can be restored for 30 days. Then it is erased.
          </EmptyState>
        )}
        {q.isSuccess && rows.length === 0 && !text && !deleted && x.deletedAt && (
          <EmptyState icon={IconTrash} title="This experiment is deleted">
            Its runs are under Deleted. They come back with it when it is restored.
          </EmptyState>
        )}
        {q.isSuccess && rows.length === 0 && !text && !deleted && !x.deletedAt && (
          <NoRuns experiment={x.name} />
        )}
        <ShowMore of={q}>Show more runs</ShowMore>
      </section>
    </>
  );
}

/** What can be done with the selected runs. */
function Chosen({ experiment, ids, deleted }: { experiment: string; ids: string[]; deleted: boolean }) {
  const editor = includes(useRole(), Role.Editor);
  const { askRemove, restore } = useTrackingRunActions();
  const tooMany = ids.length > compareAtMost;
  const disabled = ids.length < 2 || tooMany;
  return (
    <Group className="chosen-runs" gap="xs">
      <span>{plural(ids.length, "run")} selected</span>
      <Button
        size="xs"
        leftSection={<IconChartLine size={14} />}
        disabled={disabled}
        renderRoot={
          disabled
            ? undefined
            : (p) => (
                <Link
                  to="/experiments/$experimentId/compare"
                  params={{ experimentId: experiment }}
                  search={{ runs: ids.join(",") }}
                  {...p}
                />
              )
        }
      >
        Compare
      </Button>
      {editor && !deleted && (
        <Button
          size="xs"
          variant="default"
          leftSection={<IconTrash size={14} />}
          onClick={() => askRemove(ids)}
        >
          Delete
        </Button>
      )}
      {editor && deleted && (
        <Button
          size="xs"
          variant="default"
          leftSection={<IconArrowBackUp size={14} />}
          loading={restore.isPending}
          onClick={() => restore.mutate(ids)}
        >
          Restore
        </Button>
      )}
      {ids.length < 2 && <span className="dim">Select two or more to compare them.</span>}
      {tooMany && <span className="dim">At most {compareAtMost} runs can be compared.</span>}
    </Group>
  );
}
