import "./sql.css";
import {
  ActionIcon,
  Button,
  MultiSelect,
  Select,
  Switch,
  Table,
  Text,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconFilter, IconPlayerPlay, IconSearch, IconTerminal2 } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { StatementPurpose, StatementState, StatementsChangedDocument } from "@/gql/gen";
import { engineName } from "@/lib/engine";
import { useTab } from "@/lib/favicon";
import { formatCount, plural } from "@/lib/format";
import { failed } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { useSubscription } from "@/lib/socket";
import { confirm } from "@/ui/dialogs";
import { PageHeader } from "@/ui/PageHeader";
import { EmptyState, ErrorPanel, NoMatch, TableSkeleton, UnknownChoice } from "@/ui/States";
import { StatusBadge, statusWord } from "@/ui/Status";
import { ShowMore, TableHead } from "@/ui/Table";
import { Ago, Duration } from "@/ui/Time";
import { danger, useExecute } from "./actions";
import { namedEngine } from "./engine";
import {
  type HistoryFilter,
  historyQuery,
  isOver,
  type StatementRow,
  statementQuery,
  toFilter,
  warehousesQuery,
} from "./queries";
import { took } from "./took";

const states = Object.values(StatementState).map((value) => ({ value, label: statusWord(value) }));

/** All statements, newest first, filtered by the address. */
export function HistoryPage({ filter, unknown }: { filter: HistoryFilter; unknown: readonly string[] }) {
  useTab("Statements");
  const navigate = useNavigate();
  const valid = unknown.length === 0;
  const q = useInfiniteQuery({ ...historyQuery(filter), enabled: valid });
  const data = valid ? q.data : undefined;
  const rows = data?.pages.flatMap((p) => p.statements.edges.map((e) => e.node)) ?? [];
  const fresh = useFresh(filter, rows, valid);
  const filtered = Object.values(filter).some((v) => v !== undefined);
  const set = (f: Partial<HistoryFilter>) =>
    void navigate({ to: "/sql/history", search: { ...filter, ...f }, replace: true });
  const clear = () => void navigate({ to: "/sql/history", search: {}, replace: true });
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="sql" to="/sql">
            SQL
          </Link>,
        ]}
        title="Statements"
        description="The statements of this workspace, newest first; those of maintenance by the switch. Results are kept for a day."
        actions={<Filters filter={filter} set={set} />}
      />
      {valid && q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="card">
        {!valid && (
          <UnknownChoice
            what="state"
            unknown={unknown}
            all={Object.values(StatementState)}
            onClear={() => set({ state: undefined })}
          />
        )}
        {valid && fresh.count > 0 && (
          <div className="table-foot" style={{ borderTop: 0 }}>
            <Button size="compact-sm" radius="xl" onClick={fresh.show}>
              {plural(fresh.count, "new statement")}
            </Button>
          </div>
        )}
        {valid && q.isPending && !q.error && <TableSkeleton rows={12} columns={6} />}
        {rows.length > 0 && <StatementsTable rows={rows} />}
        {data && rows.length === 0 && filtered && <NoMatch what="statements" onClear={clear} />}
        {data && rows.length === 0 && !filtered && (
          <EmptyState
            icon={IconTerminal2}
            title="Nothing was run yet"
            action={<Button renderRoot={(p) => <Link to="/sql" {...p} />}>Write a statement</Button>}
          >
            Statements come from the SQL page, from tasks of jobs, and through the API.
          </EmptyState>
        )}
        {valid && <ShowMore of={q}>Show older statements</ShowMore>}
      </div>
    </div>
  );
}

function Filters({ filter, set }: { filter: HistoryFilter; set: (f: Partial<HistoryFilter>) => void }) {
  const warehouses = useQuery(warehousesQuery).data?.warehouses.edges.map((e) => e.node) ?? [];
  const options = warehouses.map((w) => ({ value: w.id, label: w.name }));
  if (filter.warehouse && !warehouses.some((w) => w.id === filter.warehouse))
    options.push({ value: filter.warehouse, label: filter.warehouse });
  const search = useDebouncedCallback((q: string) => set({ q: q.trim() || undefined }), 300);
  return (
    <>
      <TextInput
        key={filter.q ?? ""}
        aria-label="Search in the texts"
        placeholder="Search in the texts"
        defaultValue={filter.q ?? ""}
        onChange={(e) => search(e.currentTarget.value)}
        leftSection={<IconSearch size={15} aria-hidden />}
        w={{ base: "100%", xs: 190 }}
      />
      <MultiSelect
        aria-label="Filter by state"
        placeholder={filter.state?.length ? undefined : "Any state"}
        data={states}
        value={filter.state ?? []}
        onChange={(v) => set({ state: v.length ? v : undefined })}
        leftSection={<IconFilter size={15} aria-hidden />}
        clearable
        w={{ base: "100%", xs: 190 }}
      />
      <Select
        aria-label="Filter by warehouse"
        placeholder="Any warehouse"
        data={options}
        value={filter.warehouse ?? null}
        onChange={(v) => set({ warehouse: v ?? undefined })}
        clearable
        w={{ base: "100%", xs: 170 }}
      />
      <Switch
        label="Maintenance"
        checked={filter.purpose === StatementPurpose.Maintenance}
        onChange={(e) => set({ purpose: e.currentTarget.checked ? StatementPurpose.Maintenance : undefined })}
      />
      <Switch
        label="Mine"
        checked={filter.mine === true}
        onChange={(e) => set({ mine: e.currentTarget.checked || undefined })}
      />
      {filter.run && (
        <Button variant="default" size="xs" onClick={() => set({ run: undefined })}>
          Of one run: show all
        </Button>
      )}
    </>
  );
}

/**
 * Statements that began after the list was loaded. They are counted, and shown on request so that
 * rows do not jump.
 */
function useFresh(filter: HistoryFilter, rows: readonly StatementRow[], enabled: boolean) {
  const qc = useQueryClient();
  const key = JSON.stringify(filter);
  const [seen, setSeen] = useState<{ key: string; ids: ReadonlySet<string> }>({ key, ids: new Set() });
  const known = useRef(rows);
  known.current = rows;
  useSubscription(
    StatementsChangedDocument,
    { filter: toFilter(filter) },
    ({ statementsUpdated: s }) => {
      patchEntity(qc, s);
      const shown = known.current;
      if (shown.some((r) => r.id === s.id) || s.createdAt < (shown[0]?.createdAt ?? "")) return;
      setSeen((old) => ({ key, ids: new Set(old.key === key ? [...old.ids, s.id] : [s.id]) }));
    },
    enabled,
  );
  const ids = seen.key === key ? [...seen.ids] : [];
  const count = ids.filter((id) => !rows.some((r) => r.id === id)).length;
  const show = () => {
    setSeen({ key, ids: new Set() });
    void qc.invalidateQueries({ queryKey: ["StatementsList"] });
  };
  return { count, show };
}

/** Runs a statement again and opens it. Destructive statements need a confirmation. */
function useRerun() {
  const qc = useQueryClient();
  const navigate = useNavigate();
  const execute = useExecute();
  const m = useMutation({
    mutationFn: async (row: StatementRow) => {
      const { statement: s } = await qc.fetchQuery(statementQuery(row.id));
      if (!s) throw new Error("The statement is no longer known.");
      return execute({
        query: s.query,
        warehouse: s.warehouseId,
        engine: namedEngine(s) ?? null,
        parameters: s.parameters.length ? s.parameters : null,
        database: s.database,
        schema: s.schema,
        rowLimit: s.rowLimit,
        byteLimit: s.byteLimit,
      });
    },
    onSuccess: (s) => void navigate({ to: "/sql", search: { statement: s.id } }),
    onError: (e) => failed("The statement was not run", e),
  });
  return (row: StatementRow) => {
    const effect = danger(row.query) ?? (row.write ? "It writes, and will write again." : null);
    if (!effect) return m.mutate(row);
    confirm({
      title: "Run this statement again?",
      effect,
      action: "Run it",
      cancel: "Do not run it",
      run: () => m.mutate(row),
    });
  };
}

function StatementsTable({ rows }: { rows: readonly StatementRow[] }) {
  const rerun = useRerun();
  return (
    <Table.ScrollContainer minWidth={760}>
      <Table aria-label="Statements" className="rows">
        <TableHead
          columns={[
            "State",
            "Statement",
            "Warehouse",
            "By",
            { right: "Rows" },
            { right: "Time" },
            "Sent",
            { hidden: "Actions" },
          ]}
        />
        <Table.Tbody>
          {rows.map((s) => (
            <Table.Tr key={s.id} className="row-link">
              <Table.Td w={120}>
                <StatusBadge
                  status={s.state}
                  word={s.cancelRequestedAt && !isOver(s) ? "Cancelling" : undefined}
                />
              </Table.Td>
              <Table.Td>
                <Link to="/sql" search={{ statement: s.id }} className="sql-query">
                  {s.query.trim().slice(0, 600)}
                </Link>
                {s.error && s.state === "FAILED" && (
                  <Text size="xs" c="dimmed" lineClamp={1} maw={620}>
                    {s.error.message}
                  </Text>
                )}
                {s.engine && (
                  <Text
                    size="xs"
                    lineClamp={1}
                    maw={620}
                    className="sql-served"
                    title={s.routingReason ?? undefined}
                  >
                    {engineName(s.engine)}
                    {s.routingReason && <span className="dim">: {s.routingReason}</span>}
                  </Text>
                )}
                {s.message && !isOver(s) && (
                  <Text size="xs" c="dimmed" lineClamp={1} maw={620}>
                    {s.message}
                  </Text>
                )}
              </Table.Td>
              <Table.Td>
                {s.warehouse ? (
                  <Link to="/warehouses/$machineId" params={{ machineId: s.warehouse.id }}>
                    {s.warehouse.name}
                  </Link>
                ) : (
                  <span className="dim">{s.warehouseId ? "deleted" : "not chosen yet"}</span>
                )}
              </Table.Td>
              <Table.Td className="wraps" miw={120}>
                {s.createdBy}
                {s.runId && (
                  <Text size="xs">
                    <Link to="/runs/$runId" params={{ runId: s.runId }}>
                      {s.taskKey ? `task ${s.taskKey}` : "its run"}
                    </Link>
                  </Text>
                )}
              </Table.Td>
              <Table.Td ta="right">
                {s.rowCount === null ? (
                  <span className="dim">not known</span>
                ) : (
                  formatCount(Number(s.rowCount))
                )}
                {s.truncated && <div className="dim">cut</div>}
              </Table.Td>
              <Table.Td ta="right" className="nowrap">
                {s.runMs !== null && isOver(s) ? (
                  took(Number(s.runMs))
                ) : (
                  <Duration from={s.startedAt} to={s.finishedAt} />
                )}
              </Table.Td>
              <Table.Td>
                <Ago at={s.createdAt} />
              </Table.Td>
              <Table.Td>
                <Tooltip label="Run it again">
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    aria-label="Run it again"
                    disabled={!s.warehouseId}
                    onClick={() => rerun(s)}
                  >
                    <IconPlayerPlay size={15} />
                  </ActionIcon>
                </Tooltip>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
