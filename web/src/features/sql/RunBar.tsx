import { ActionIcon, Button, Group, Menu, Select, Tooltip } from "@mantine/core";
import { IconChevronDown, IconPlayerPlay, IconPlayerStop, IconSparkles } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { SqlWarehousesQuery } from "@/gql/gen";
import { databasesQuery, schemasQuery } from "@/lib/catalog";
import type { SqlTab, TabStore } from "@/lib/sqlTabs";
import { parameterCount, statements } from "@/lib/sqlText";
import { MachineIcon, machineWord } from "@/ui/Machine";
import { automatic, engineChoices, engineOn } from "./engine";
import { Parameters } from "./Parameters";

export type WarehouseOption = SqlWarehousesQuery["warehouses"]["edges"][number]["node"];

const limits = [
  { value: "1000", label: "1,000 rows" },
  { value: "10000", label: "10,000 rows" },
  { value: "100000", label: "100,000 rows" },
  { value: "1000000", label: "1,000,000 rows" },
  { value: "0", label: "No limit" },
];

/** The bar that runs a tab's text, with its warehouse, engine and names. */
export function RunBar({
  tab,
  store,
  warehouses,
  warehouse,
  running,
  cancelling,
  onRun,
  onRunAll,
  onCancel,
  onFormat,
}: {
  tab: SqlTab;
  store: TabStore;
  warehouses: readonly WarehouseOption[];
  /** The warehouse that runs it. */
  warehouse: WarehouseOption | undefined;
  running: boolean;
  cancelling: boolean;
  onRun: () => void;
  onRunAll: () => void;
  onCancel: () => void;
  onFormat: () => void;
}) {
  const parts = statements(tab.text);
  const parameters = Math.max(0, ...parts.map((p) => parameterCount(tab.text.slice(p.from, p.to))));
  const starts = warehouse && warehouse.state !== "RUNNING";
  return (
    <div className="sql-bar">
      <Group gap={0} wrap="nowrap">
        <Tooltip label="The selection, or the statement at the cursor (Ctrl+Enter)">
          <Button
            size="xs"
            className="sql-run"
            leftSection={<IconPlayerPlay size={15} />}
            disabled={running || parts.length === 0}
            onClick={onRun}
          >
            Run
          </Button>
        </Tooltip>
        <Menu position="bottom-start">
          <Menu.Target>
            <Button
              size="xs"
              px={6}
              className="sql-run-more"
              aria-label="More ways to run"
              disabled={running || parts.length === 0}
            >
              <IconChevronDown size={15} />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={onRun}>Run the statement at the cursor (Ctrl+Enter)</Menu.Item>
            <Menu.Item onClick={onRunAll}>
              Run all {parts.length} {parts.length === 1 ? "statement" : "statements"} (Ctrl+Shift+Enter)
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      </Group>
      {running && (
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlayerStop size={15} />}
          disabled={cancelling}
          onClick={onCancel}
        >
          {cancelling ? "Cancelling" : "Cancel"}
        </Button>
      )}
      <Tooltip label="Format (Shift+Alt+F)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Format"
          onClick={onFormat}
          disabled={parts.length === 0}
        >
          <IconSparkles size={15} />
        </ActionIcon>
      </Tooltip>
      {parameters > 0 && <Parameters tab={tab} count={parameters} store={store} />}
      <div className="sql-places">
        <Select
          size="xs"
          style={{ flex: "1 1 120px", maxWidth: 165 }}
          aria-label="Warehouse"
          placeholder="No warehouse"
          allowDeselect={false}
          data={warehouses.map((w) => ({ value: w.id, label: w.name }))}
          value={warehouse?.id ?? null}
          onChange={(v) => v && store.change(tab.id, { warehouse: v })}
          leftSection={
            warehouse && (
              <span className="machine-state" data-status={warehouse.state}>
                <MachineIcon state={warehouse.state} />
              </span>
            )
          }
          renderOption={({ option }) => {
            const w = warehouses.find((x) => x.id === option.value);
            return (
              <span className="sql-warehouse machine-state" data-status={w?.state}>
                {w && <MachineIcon state={w.state} />}
                <span>{option.label}</span>
                <small className="dim">{w && machineWord(w.state).toLowerCase()}</small>
              </span>
            );
          }}
        />
        <span className="dim sql-starts" role="status" aria-label="State of the warehouse">
          {warehouse && machineWord(warehouse.state).toLowerCase()}
          {starts && warehouse.state !== "STARTING" && ", starts by itself"}
        </span>
        <EngineSelect tab={tab} store={store} warehouse={warehouse} />
        <Home tab={tab} store={store} />
        <Select
          size="xs"
          w={134}
          aria-label="Rows at most"
          allowDeselect={false}
          data={limits}
          value={String(tab.rowLimit)}
          onChange={(v) => v !== null && store.change(tab.id, { rowLimit: Number(v) })}
        />
      </div>
    </div>
  );
}

/** The engine of the tab's statements: the warehouse's choice or a named one. */
function EngineSelect({
  tab,
  store,
  warehouse,
}: {
  tab: SqlTab;
  store: TabStore;
  warehouse: WarehouseOption | undefined;
}) {
  const choices = engineChoices(warehouse);
  return (
    <Select
      size="xs"
      w={112}
      aria-label="Engine"
      allowDeselect={false}
      data={choices.map(({ value, label }) => ({ value, label }))}
      value={engineOn(warehouse, tab.engine) ?? automatic}
      onChange={(v) => v && store.change(tab.id, { engine: v === automatic ? undefined : v })}
      comboboxProps={{ width: 270, position: "bottom-start" }}
      renderOption={({ option }) => (
        <span className="sql-warehouse">
          <span>{option.label}</span>
          <small className="dim">{choices.find((c) => c.value === option.value)?.about}</small>
        </span>
      )}
    />
  );
}

/** The default database and schema of names. */
function Home({ tab, store }: { tab: SqlTab; store: TabStore }) {
  const databases = useQuery(databasesQuery).data ?? [];
  const schemas = useQuery(schemasQuery(tab.database)).data ?? [];
  const withPresent = (all: readonly string[], present: string) =>
    all.includes(present) ? all : [present, ...all];
  return (
    <Group gap={4} wrap="nowrap">
      <Select
        size="xs"
        w={98}
        aria-label="Database of short names"
        allowDeselect={false}
        data={withPresent(
          databases.map((d) => d.name),
          tab.database,
        )}
        value={tab.database}
        onChange={(v) => v && store.change(tab.id, { database: v, schema: "public" })}
      />
      <Select
        size="xs"
        w={102}
        aria-label="Schema of short names"
        allowDeselect={false}
        data={withPresent(
          schemas.map((s) => s.name),
          tab.schema,
        )}
        value={tab.schema}
        onChange={(v) => v && store.change(tab.id, { schema: v })}
      />
    </Group>
  );
}
