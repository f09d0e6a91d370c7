import "./sql.css";
import { Alert, Button } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { IconAlertTriangle, IconHistory } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import {
  type KeyboardEvent,
  lazy,
  type PointerEvent,
  Suspense,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { columnsQuery, databasesQuery, schemasQuery, tableNamesQuery } from "@/lib/catalog";
import { useTab } from "@/lib/favicon";
import { useShortcuts } from "@/lib/hotkeys";
import { failed } from "@/lib/notify";
import { useViewer } from "@/lib/session";
import { type SqlTab, type TabStore, tabStore } from "@/lib/sqlTabs";
import { offsetOf, placeOf, statements, stretchAt } from "@/lib/sqlText";
import { PageHeader } from "@/ui/PageHeader";
import type { Mark, SqlEditorHandle } from "@/ui/SqlEditor";
import { EmptyState, PanelSkeleton } from "@/ui/States";
import { useCancel } from "./actions";
import { type CatalogNames, complete } from "./complete";
import { engineOn, namedEngine } from "./engine";
import { useStatement } from "./live";
import { isOver, type Statement, statementQuery, warehousesQuery } from "./queries";
import { ResultPane, type View } from "./ResultPane";
import { RunBar } from "./RunBar";
import { useRun } from "./run";
import { SchemaTree } from "./SchemaTree";
import { TabBar } from "./TabBar";

const SqlEditor = lazy(() => import("@/ui/SqlEditor"));

/** A request in the address: an earlier statement, or an initial text. */
export interface Asked {
  statement?: string | undefined;
  q?: string | undefined;
  warehouse?: string | undefined;
}

/** SQL: texts in tabs, run on a warehouse, with their results below. */
export function SqlPage(asked: Asked) {
  useTab("SQL");
  const workspace = useViewer()?.workspace.id;
  return (
    <div className="page sql-page">
      <PageHeader
        title="SQL"
        actions={
          <Button
            size="xs"
            variant="default"
            leftSection={<IconHistory size={15} />}
            renderRoot={(p) => <Link to="/sql/history" {...p} />}
          >
            History
          </Button>
        }
      />
      {workspace && <Workbench store={tabStore(workspace)} asked={asked} />}
    </div>
  );
}

/** Opens what the address requests, and removes the request from the address. */
function useAsked(store: TabStore, { statement, q, warehouse }: Asked) {
  const qc = useQueryClient();
  const navigate = useNavigate();
  useEffect(() => {
    if (!statement && q === undefined && !warehouse) return;
    const open = async () => {
      if (statement)
        return openStatement(store, (await qc.ensureQueryData(statementQuery(statement))).statement);
      const present = store.get().list.find((t) => t.id === store.get().active);
      if (present?.text !== q)
        store.open({ text: q ?? "", engine: undefined, ...(warehouse ? { warehouse } : {}) });
    };
    open()
      .catch((e) => failed("The statement cannot be opened", e))
      .finally(() => void navigate({ to: "/sql", search: {}, replace: true }));
  }, [qc, navigate, store, statement, q, warehouse]);
}

function openStatement(store: TabStore, s: Statement | null) {
  if (!s) return failed("There is no such statement", "It may belong to another workspace.");
  const there = store.get().list.find((t) => t.runs.some((r) => r.id === s.id));
  if (there) {
    store.show(there.id);
    return store.change(there.id, { shown: there.runs.findIndex((r) => r.id === s.id) });
  }
  store.open({
    text: s.query,
    warehouse: s.warehouse?.id,
    engine: namedEngine(s),
    database: s.database,
    schema: s.schema,
    parameters: s.parameters.map(asParameter),
    runs: [{ id: s.id, from: 0, text: s.query }],
  });
}

function asParameter(v: unknown): SqlTab["parameters"][number] {
  if (v === null) return { kind: "null", value: "" };
  if (typeof v === "string") return { kind: "text", value: v };
  return { kind: typeof v === "boolean" ? "boolean" : "number", value: String(v) };
}

/** Catalog names for completion, loaded on demand. */
function useCatalogNames(): CatalogNames {
  const qc = useQueryClient();
  return useMemo(
    () => ({
      databases: async () => (await qc.fetchQuery(databasesQuery)).map((d) => d.name),
      schemas: async (d) => (await qc.fetchQuery(schemasQuery(d))).map((s) => s.name),
      tables: async (d, s) =>
        (await qc.fetchQuery(tableNamesQuery(d, s))).map((t) => ({ name: t.name, view: t.kind === "VIEW" })),
      columns: (d, s, t) => qc.fetchQuery(columnsQuery(d, s, t)),
    }),
    [qc],
  );
}

/**
 * The position of a statement's error in the current text; null without an error or if the text has
 * changed.
 */
export function markOf(tab: SqlTab, s: Statement | null | undefined): Mark | null {
  const run = tab.runs.find((r) => r.id === s?.id);
  if (!run || !s?.error?.line) return null;
  const still = tab.text.slice(run.from, run.from + run.text.length) === run.text;
  const from = still ? run.from : tab.text.indexOf(run.text);
  if (from < 0) return null;
  const at = stretchAt(run.text, offsetOf(run.text, s.error.line, s.error.column ?? 1));
  return { from: from + at.from, to: from + at.to, message: s.error.message };
}

function Workbench({ store, asked }: { store: TabStore; asked: Asked }) {
  useAsked(store, asked);
  const tabs = useSyncExternalStore(store.subscribe, store.get);
  const tab = (tabs.list.find((t) => t.id === tabs.active) ?? tabs.list[0]) as SqlTab;
  const editor = useRef<SqlEditorHandle>(null);
  const list = useQuery(warehousesQuery);
  const warehouses = list.data?.warehouses.edges.map((e) => e.node) ?? [];
  const warehouse = warehouses.find((w) => w.id === tab.warehouse) ?? warehouses[0];
  const names = useCatalogNames();
  const { run, refusal, sending } = useRun(store, warehouse?.id, (t) =>
    engineOn(
      warehouses.find((w) => w.id === (t.warehouse ?? warehouse?.id)),
      t.engine,
    ),
  );
  const [view, setView] = useState<View>("result");
  const { statement } = useStatement(tab.runs[Math.min(tab.shown, tab.runs.length - 1)]?.id);
  const cancel = useCancel();
  const running =
    sending.has(tab.id) || (statement !== undefined && statement !== null && !isOver(statement));
  const mark = useMemo(() => markOf(tab, statement), [tab, statement]);

  const present = () => store.get().list.find((t) => t.id === tab.id) ?? tab;
  const onRun = () => {
    const at = editor.current?.atCursor();
    if (!running) run(present(), at ? [at] : []);
  };
  const onRunAll = () => {
    if (!running) run(present(), statements(present().text));
  };
  const onFormat = async () => {
    const { formatDialect, duckdb, trino } = await import("sql-formatter");
    const dialect = present().engine === "trino" ? trino : duckdb;
    try {
      editor.current?.replaceAll(formatDialect(present().text, { dialect, keywordCase: "upper" }));
    } catch {
      failed("The text was left as it is", "It cannot be formatted: a quote or a bracket may be missing.");
    }
  };
  const onCancel = () => {
    if (statement && !isOver(statement)) cancel.mutate(statement.id);
  };
  useShortcuts("SQL", [
    { keys: ["n"], label: "New query", run: () => void store.open({}) },
    { keys: ["e"], label: "To the text", run: () => editor.current?.focus() },
  ]);
  if (list.data && warehouses.length === 0) return <NoWarehouse />;
  return (
    <div className="sql-work">
      <SchemaTree onInsert={(text) => editor.current?.insert(text)} />
      <div className="sql-main">
        <section className="card sql-text" aria-label="Text">
          <TabBar tabs={tabs} store={store} />
          {store.full && (
            <Alert color="yellow" icon={<IconAlertTriangle size={16} aria-hidden />} py={4}>
              This browser cannot store more: your text is lost when the page is closed.
            </Alert>
          )}
          <EditorRoom>
            <Suspense fallback={<PanelSkeleton height={120} />}>
              <SqlEditor
                key={tab.id}
                ref={editor}
                value={tab.text}
                mark={mark}
                complete={(c) => complete(c, names, tab)}
                onChange={(text) => store.change(tab.id, { text })}
                onRun={onRun}
                onRunAll={onRunAll}
                onFormat={() => void onFormat()}
              />
            </Suspense>
          </EditorRoom>
          <RunBar
            tab={tab}
            store={store}
            warehouses={warehouses}
            warehouse={warehouse}
            running={running}
            cancelling={
              cancel.isPending ||
              (statement?.cancelRequestedAt !== null && statement?.cancelRequestedAt !== undefined)
            }
            onRun={onRun}
            onRunAll={onRunAll}
            onCancel={onCancel}
            onFormat={() => void onFormat()}
          />
        </section>
        <ResultPane
          key={tab.id}
          runs={tab.runs}
          shown={tab.shown}
          refusal={refusal?.tab === tab.id ? refusal.error : null}
          view={view}
          onView={setView}
          onShow={(shown) => store.change(tab.id, { shown })}
          onGoTo={() => mark && editor.current?.goTo(mark.from)}
          place={mark && placeOf(tab.text, mark.from)}
        />
      </div>
    </div>
  );
}

function NoWarehouse() {
  return (
    <div className="card">
      <EmptyState
        icon={IconAlertTriangle}
        title="There is no warehouse to run SQL on"
        action={
          <Button renderRoot={(p) => <Link to="/warehouses" search={{ create: true }} {...p} />}>
            New warehouse
          </Button>
        }
      >
        A warehouse is a machine that runs SQL. It starts when a statement needs it, and costs nothing while
        it is stopped.
      </EmptyState>
    </div>
  );
}

const smallest = 96;
const tallest = 900;

/** The area of the text, with an adjustable height. */
function EditorRoom({ children }: { children: React.ReactNode }) {
  const [height, setHeight] = useLocalStorage({
    key: "millpond-sql-height",
    defaultValue: 200,
    getInitialValueInEffect: false,
  });
  const from = useRef<{ y: number; height: number } | null>(null);
  const set = (h: number) => setHeight(Math.max(smallest, Math.min(tallest, Math.round(h))));
  const onKey = (e: KeyboardEvent) => {
    const by = { ArrowUp: -24, ArrowDown: 24 }[e.key];
    if (!by) return;
    e.preventDefault();
    set(height + by);
  };
  const down = (e: PointerEvent<HTMLElement>) => {
    e.currentTarget.setPointerCapture(e.pointerId);
    from.current = { y: e.clientY, height };
  };
  return (
    <>
      <div className="sql-room" style={{ height }}>
        {children}
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: a rule cannot be moved */}
      <div
        role="separator"
        aria-orientation="horizontal"
        aria-label="Height of the text"
        aria-valuenow={height}
        aria-valuemin={smallest}
        aria-valuemax={tallest}
        tabIndex={0}
        className="sql-separator"
        onKeyDown={onKey}
        onPointerDown={down}
        onPointerMove={(e) => from.current && set(from.current.height + e.clientY - from.current.y)}
        onPointerUp={() => {
          from.current = null;
        }}
      />
    </>
  );
}
