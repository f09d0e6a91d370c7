import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData, type SpotlightActionGroupData } from "@mantine/spotlight";
import {
  IconAffiliate,
  IconFlask,
  IconKeyboard,
  IconLogout,
  IconMoon,
  IconPlayerPlay,
  IconPlus,
  IconSearch,
} from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import {
  PaletteDocument,
  PaletteExperimentsDocument,
  PaletteMachinesDocument,
  PaletteRunsDocument,
  Role,
} from "@/gql/gen";
import { includes } from "@/lib/auth";
import { formatAgo } from "@/lib/format";
import { gql } from "@/lib/graphql";
import { machinePath } from "@/lib/machine";
import { useRole } from "@/lib/session";
import { MachineIcon, machineWord } from "@/ui/Machine";
import { useStartRun } from "@/ui/StartRun";
import { StatusIcon, statusWord } from "@/ui/Status";
import { pages } from "./nav";
import { useLogout } from "./useLogout";

const icon = (Icon: typeof IconPlus) => <Icon size={18} stroke={1.6} aria-hidden />;

/** Ctrl+K: pages, jobs, runs, experiments, machines and their commands. */
export function Palette({ onShortcuts }: { onShortcuts: () => void }) {
  const [open, setOpen] = useState(false);
  const [query, setQuery] = useState("");
  const [search] = useDebouncedValue(query.trim(), 150);
  const jobs = useQuery({
    ...gql(PaletteDocument, { search: search || null }),
    enabled: open,
    placeholderData: keepPreviousData,
  });
  const runs = useQuery({ ...gql(PaletteRunsDocument, {}), enabled: open });
  const experiments = useQuery({ ...gql(PaletteExperimentsDocument, {}), enabled: open });
  const machines = useQuery({ ...gql(PaletteMachinesDocument, {}), enabled: open }).data;
  const navigate = useNavigate();
  const start = useStartRun();
  const editor = includes(useRole(), Role.Editor);
  const commands = useCommands(onShortcuts);

  const found = jobs.data?.jobs.edges.map((e) => e.node) ?? [];
  const groups: SpotlightActionGroupData[] = [
    {
      group: "Pages",
      actions: pages.map((p) => ({
        id: `page-${p.to}`,
        label: p.label,
        leftSection: icon(p.icon),
        onClick: () => void navigate({ to: p.to }),
      })),
    },
    {
      group: "Jobs",
      actions: found.map((j) => ({
        id: j.id,
        label: j.name,
        description: "Open the job",
        keywords: j.id,
        leftSection: icon(IconAffiliate),
        onClick: () => void navigate({ to: "/jobs/$jobId", params: { jobId: j.id } }),
      })),
    },
    {
      group: "Runs",
      actions: (runs.data?.runs.edges ?? []).map(({ node: r }) => ({
        id: r.id,
        label: r.jobName,
        description: `${statusWord(r.status)}, ${formatAgo(r.createdAt, Date.now())}`,
        keywords: `${r.id} ${statusWord(r.status)}`,
        leftSection: <StatusIcon status={r.status} size={18} />,
        onClick: () => void navigate({ to: "/runs/$runId", params: { runId: r.id } }),
      })),
    },
    {
      group: "Experiments",
      actions: (experiments.data?.experiments.edges ?? []).map(({ node: x }) => ({
        id: `experiment-${x.id}`,
        label: x.name,
        description: "Open the experiment",
        leftSection: icon(IconFlask),
        onClick: () => void navigate({ to: "/experiments/$experimentId", params: { experimentId: x.id } }),
      })),
    },
    {
      group: "Machines",
      actions: [...(machines?.computeInstances.edges ?? []), ...(machines?.warehouses.edges ?? [])].map(
        ({ node: m }) => ({
          id: m.id,
          label: m.name,
          description: `${m.__typename === "Compute" ? "Compute instance" : "Warehouse"}, ${machineWord(m.state).toLowerCase()}`,
          keywords: m.id,
          leftSection: (
            <span className="machine-state" data-status={m.state}>
              <MachineIcon state={m.state} size={18} />
            </span>
          ),
          onClick: () => void navigate({ to: machinePath(m), params: { machineId: m.id } }),
        }),
      ),
    },
    {
      group: "Commands",
      actions: [
        ...(editor
          ? found.map((j) => ({
              id: `run-${j.id}`,
              label: `Run ${j.name}`,
              leftSection: icon(IconPlayerPlay),
              onClick: () => start.ask(j),
            }))
          : []),
        ...commands,
      ],
    },
  ];
  const direct = runById(query, (id) => void navigate({ to: "/runs/$runId", params: { runId: id } }));
  return (
    <Spotlight
      actions={direct ? [direct] : groups.filter((g) => g.actions.length > 0)}
      query={query}
      onQueryChange={setQuery}
      onSpotlightOpen={() => setOpen(true)}
      onSpotlightClose={() => setOpen(false)}
      shortcut="mod + K"
      nothingFound={jobs.isFetching ? "Searching…" : "Nothing found"}
      highlightQuery
      attributes={{ content: { "aria-label": "Search and commands" } }}
      scrollable
      maxHeight={420}
      limit={24}
      searchProps={{
        placeholder: "Go to a page, a job or a run, or type a command",
        "aria-label": "Search and commands",
        leftSection: <IconSearch size={18} stroke={1.6} aria-hidden />,
      }}
    />
  );
}

/** A pasted run id leads to its run, however old. */
function runById(query: string, open: (id: string) => void): SpotlightActionData | null {
  const id = /^\s*(run_[0-9a-z]{20,})\s*$/.exec(query)?.[1];
  return id
    ? { id: `open-${id}`, label: id, description: "Open this run", keywords: query, onClick: () => open(id) }
    : null;
}

function useCommands(onShortcuts: () => void): SpotlightActionData[] {
  const navigate = useNavigate();
  const logout = useLogout();
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme("light") === "dark";
  const editor = includes(useRole(), Role.Editor);
  return [
    ...(editor
      ? [
          {
            id: "new-job",
            label: "New job",
            leftSection: icon(IconPlus),
            onClick: () => void navigate({ to: "/jobs/new" }),
          },
          {
            id: "new-compute",
            label: "New compute instance",
            leftSection: icon(IconPlus),
            onClick: () => void navigate({ to: "/compute", search: { create: true } }),
          },
          {
            id: "new-warehouse",
            label: "New warehouse",
            leftSection: icon(IconPlus),
            onClick: () => void navigate({ to: "/warehouses", search: { create: true } }),
          },
        ]
      : []),
    {
      id: "statements",
      label: "Show statements",
      leftSection: icon(IconSearch),
      onClick: () => void navigate({ to: "/sql/history" }),
    },
    {
      id: "maintenance",
      label: "Show the maintenance of tables",
      leftSection: icon(IconSearch),
      onClick: () => void navigate({ to: "/catalog/maintenance" }),
    },
    {
      id: "new-key",
      label: "New API key",
      leftSection: icon(IconPlus),
      onClick: () => void navigate({ to: "/api-keys", search: { create: true } }),
    },
    {
      id: "failed-runs",
      label: "Show failed runs",
      leftSection: icon(IconSearch),
      onClick: () => void navigate({ to: "/runs", search: { status: ["FAILED"] } }),
    },
    {
      id: "scheme",
      label: dark ? "Light colours" : "Dark colours",
      leftSection: icon(IconMoon),
      onClick: () => setColorScheme(dark ? "light" : "dark"),
    },
    { id: "keys", label: "Keyboard shortcuts", leftSection: icon(IconKeyboard), onClick: onShortcuts },
    { id: "logout", label: "Sign out", leftSection: icon(IconLogout), onClick: () => logout.mutate() },
  ];
}
