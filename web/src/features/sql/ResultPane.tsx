import { Alert, Button, Group, Progress, SegmentedControl, Text, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconCut, IconRowInsertBottom, IconTerminal2 } from "@tabler/icons-react";
import { lazy, Suspense, useEffect, useMemo } from "react";
import { useNow } from "@/lib/clock";
import { engineName } from "@/lib/engine";
import { formatBytes, formatCount, plural } from "@/lib/format";
import type { ResultSource } from "@/lib/result";
import type { TabRun } from "@/lib/sqlTabs";
import { LineageList } from "@/ui/LineageList";
import { ResultGrid } from "@/ui/ResultGrid";
import { EmptyState, ErrorPanel, PanelSkeleton } from "@/ui/States";
import { StatusBadge, StatusIcon } from "@/ui/Status";
import { Download } from "./Download";
import { useStatement } from "./live";
import { isOver, type Statement } from "./queries";
import { StatementFacts } from "./StatementFacts";
import { sourceOf } from "./sources";
import { took } from "./took";

const ResultChart = lazy(() => import("./ResultChart"));

export type View = "result" | "chart" | "lineage" | "details";
const views = [
  { value: "result", label: "Result" },
  { value: "chart", label: "Chart" },
  { value: "lineage", label: "Lineage" },
  { value: "details", label: "Details" },
];

/** The results of a tab's statements. */
export function ResultPane({
  runs,
  shown,
  refusal,
  view,
  onView,
  onShow,
  onGoTo,
  place,
}: {
  runs: readonly TabRun[];
  shown: number;
  refusal: unknown;
  view: View;
  onView: (v: View) => void;
  onShow: (n: number) => void;
  /** Moves the cursor to the error. */
  onGoTo: () => void;
  /** The error's position in the current text, such as line 3, column 8. */
  place: string | null;
}) {
  const present = runs[Math.min(shown, runs.length - 1)];
  const q = useStatement(present?.id);
  return (
    <section className="card sql-result" aria-label="Result">
      {runs.length > 1 && (
        <nav className="sql-runs" aria-label="Statements">
          {runs.map((r, i) => (
            <RunButton key={r.id} run={r} n={i + 1} active={r === present} onClick={() => onShow(i)} />
          ))}
        </nav>
      )}
      {refusal !== null && refusal !== undefined && (
        <div className="card-pad">
          <ErrorPanel error={refusal} />
        </div>
      )}
      {!present && !refusal && (
        <EmptyState icon={IconTerminal2} title="Nothing has run here yet">
          Write a statement and press Ctrl+Enter. Its warehouse starts by itself. Names are
          database.schema.table; a click in the catalog writes them.
        </EmptyState>
      )}
      {present && q.error && (
        <div className="card-pad">
          <ErrorPanel error={q.error} retry={() => q.refetch()} />
        </div>
      )}
      {present && q.isPending && !q.error && <PanelSkeleton height={160} />}
      {present && q.statement === null && (
        <EmptyState icon={IconTerminal2} title="This statement is no longer known">
          Run it again to see its result.
        </EmptyState>
      )}
      {q.statement && (
        <Shown
          key={q.statement.id}
          statement={q.statement}
          view={view}
          onView={onView}
          onGoTo={onGoTo}
          place={place}
        />
      )}
    </section>
  );
}

function RunButton({
  run,
  n,
  active,
  onClick,
}: {
  run: TabRun;
  n: number;
  active: boolean;
  onClick: () => void;
}) {
  const { statement } = useStatement(run.id);
  return (
    <button
      type="button"
      aria-pressed={active}
      className="sql-run-button"
      onClick={onClick}
      title={run.text.slice(0, 400)}
    >
      {statement && <StatusIcon status={statement.state} size={13} />}
      {n} <span className="mono">{run.text.trim().split(/\s+/, 2).join(" ")}</span>
    </button>
  );
}

function Shown({
  statement: s,
  view,
  onView,
  onGoTo,
  place,
}: {
  statement: Statement;
  view: View;
  onView: (v: View) => void;
  onGoTo: () => void;
  /** The error's position in the current text, such as line 3, column 8. */
  place: string | null;
}) {
  const source = useMemo(() => sourceOf(s), [s]);
  useEffect(() => source?.grow(s.chunks.map((c) => Number(c.rows))), [source, s.chunks]);
  const rows = source && s.chunks.length > 0 ? source : null;
  return (
    <>
      <div className="sql-outcome">
        <StatusBadge status={s.state} word={s.cancelRequestedAt && !isOver(s) ? "Cancelling" : undefined} />
        <Elapsed statement={s} />
        {isOver(s) && s.state === "SUCCEEDED" && <b>{outcome(s)}</b>}
        {!isOver(s) && s.chunks.length > 0 && <span>{formatCount(total(s))} rows so far</span>}
        {s.engine && <EngineButton engine={s.engine} reason={s.routingReason} onDetails={onView} />}
        {Number(s.bytesScanned) > 0 && (
          <span className="dim">{formatBytes(Number(s.bytesScanned))} read</span>
        )}
        <Group gap={8} ml="auto" wrap="nowrap">
          <SegmentedControl
            size="xs"
            aria-label="What to show"
            data={views}
            value={view}
            onChange={(v) => onView(v as View)}
          />
          {rows && <Download statement={s} source={rows} />}
        </Group>
      </div>
      {!isOver(s) && <Waiting statement={s} />}
      {s.truncated && (
        <div className="sql-notice" role="status">
          <IconCut size={15} aria-hidden /> Cut after {plural(total(s), "row")}: a limit was reached. Choose a
          higher one beside Run, and run it again.
        </div>
      )}
      {s.error && <Failure statement={s} onGoTo={onGoTo} place={place} />}
      <div className="sql-body">
        {view === "result" && <Rows statement={s} source={rows} />}
        {view === "chart" &&
          (rows ? (
            <Suspense fallback={<PanelSkeleton height={280} />}>
              <ResultChart source={rows} />
            </Suspense>
          ) : (
            <NoRows statement={s} />
          ))}
        {view === "lineage" && (
          <div className="card-pad">
            <LineageList lineage={s.lineage} />
          </div>
        )}
        {view === "details" && <StatementFacts statement={s} />}
      </div>
    </>
  );
}

/** The engine of a statement. The reason is shown on hover, on focus and in the details. */
function EngineButton({
  engine,
  reason,
  onDetails,
}: {
  engine: string;
  reason: string | null;
  onDetails: (v: View) => void;
}) {
  const name = engineName(engine);
  return (
    <Tooltip
      label={reason ?? `${name} serves it.`}
      multiline
      maw={360}
      events={{ hover: true, focus: true, touch: true }}
    >
      <button
        type="button"
        className="sql-engine"
        aria-label={`Engine ${name}. ${reason ?? ""}`.trim()}
        onClick={() => onDetails("details")}
      >
        {name}
      </button>
    </Tooltip>
  );
}

const total = (s: Statement) => s.chunks.reduce((n, c) => n + Number(c.rows), 0);

/** Statements that change files and no rows; their result rows report the effect. */
const maintains: ReadonlySet<string> = new Set(["OPTIMIZE", "EXPIRE SNAPSHOTS", "REMOVE ORPHAN FILES"]);

/** The outcome in words. */
function outcome(s: Statement): string {
  if (s.columns.length > 0 && !s.write) return plural(total(s), "row");
  if (s.kind && maintains.has(s.kind)) return "Done";
  if (s.rowCount === null) return "Done; the number of changed rows is unknown";
  const n = Number(s.rowCount);
  return s.write && n > 0 ? `${plural(n, "row")} changed` : "Done";
}

function Elapsed({ statement: s }: { statement: Statement }) {
  const over = isOver(s);
  const now = useNow(!over);
  const run = over && s.runMs !== null ? Number(s.runMs) : s.startedAt ? now - Date.parse(s.startedAt) : null;
  const queued = over || s.startedAt ? Number(s.queuedMs) : now - Date.parse(s.createdAt);
  return (
    <span className="nowrap">
      {run !== null && took(run)}
      {(run === null || queued > 1000) && (
        <span className="dim">
          {run !== null && " "}waited {took(queued)}
        </span>
      )}
    </span>
  );
}

function Waiting({ statement: s }: { statement: Statement }) {
  const word = s.state === "QUEUED" ? "Queued" : "Running";
  return (
    <div className="sql-waiting">
      <Progress
        value={s.progress === null ? 100 : s.progress * 100}
        animated={s.progress === null}
        size={4}
        aria-label={s.progress === null ? word : `${word}: ${Math.round(s.progress * 100)} %`}
      />
      <Text size="sm" c="dimmed" role="status">
        {s.message ?? word}
        {s.progress !== null && s.state === "RUNNING" && ` ${Math.round(s.progress * 100)} %`}
      </Text>
    </div>
  );
}

const faults: Record<string, string> = {
  QUERY: "The statement is wrong, or refused",
  FORBIDDEN: "You may only read",
  CONFLICT: "It lost the race for a table",
  TIMEOUT: "It ran out of time",
  CANCELLED: "Cancelled",
  RESOURCES: "It needs more memory or disk than it may have",
  ENGINE: "The engine or its machine failed",
};

function Failure({
  statement: s,
  onGoTo,
  place,
}: {
  statement: Statement;
  onGoTo: () => void;
  place: string | null;
}) {
  if (!s.error) return null;
  return (
    <Alert
      className="sql-failure"
      color={s.state === "CANCELLED" ? "gray" : "red"}
      icon={<IconAlertTriangle size={18} aria-hidden />}
      title={faults[s.error.fault] ?? "It failed"}
    >
      <pre className="sql-error">{s.error.message}</pre>
      {place && (
        <Button size="compact-xs" variant="default" mt={6} onClick={onGoTo}>
          Go to {place}
        </Button>
      )}
    </Alert>
  );
}

const gone = (s: Statement) => s.resultUntil !== null && Date.parse(s.resultUntil) < Date.now();

function Rows({ statement: s, source }: { statement: Statement; source: ResultSource | null }) {
  if (!source || source.rowCount === 0 || gone(s)) return <NoRows statement={s} />;
  return <ResultGrid key={s.id} source={source} label="Rows of the result" />;
}

function NoRows({ statement: s }: { statement: Statement }) {
  if (!isOver(s) || s.error) return null;
  if (gone(s))
    return (
      <EmptyState icon={IconRowInsertBottom} title="The result is no longer kept">
        Results are kept for a day. Run the statement again to see its rows.
      </EmptyState>
    );
  const text =
    s.write || s.columns.length === 0 ? "It gives no rows." : "No row matches. Its columns are in order:";
  return (
    <EmptyState icon={IconRowInsertBottom} title={s.state === "SUCCEEDED" ? outcome(s) : "No rows"}>
      {text} {!s.write && <span className="mono">{s.columns.map((c) => c.name).join(", ")}</span>}
    </EmptyState>
  );
}
