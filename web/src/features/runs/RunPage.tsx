import "./run.css";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type FaviconState, useTab } from "@/lib/favicon";
import { LostPage } from "@/ui/Fallbacks";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { isActive, statusWord } from "@/ui/Status";
import { FailurePanel } from "./FailurePanel";
import { LogPanel } from "./LogPanel";
import { useLiveRun } from "./live";
import { type RunDetail, runQuery } from "./queries";
import { RunHeader } from "./RunHeader";
import { RunTables } from "./RunTables";
import { RunTracking } from "./RunTracking";
import { type Place, select } from "./selection";
import { TasksPanel } from "./TasksPanel";

const icons: Record<RunDetail["status"], FaviconState> = {
  PENDING: "-running",
  RUNNING: "-running",
  SUCCESS: "-success",
  FAILED: "-failed",
  CANCELLED: "",
};

/** One run: the failure, its tasks as a graph or over time, and the log of one of them below. */
export function RunPage({ id, place }: { id: string; place: Place }) {
  const q = useQuery(runQuery(id));
  const run = q.data?.run;
  useLiveRun(id, run !== null);
  useTab(run ? `${statusWord(run.status)}: ${run.jobName}` : "Run", run ? icons[run.status] : "");
  if (run === null) return <LostPage what="run" />;
  if (run) return <Loaded run={run} place={place} />;
  return (
    <div className="page">
      {q.error ? (
        <ErrorPanel error={q.error} retry={() => q.refetch()} />
      ) : (
        <>
          <PanelSkeleton height={52} />
          <PanelSkeleton height={230} />
          <PanelSkeleton height={420} />
        </>
      )}
    </div>
  );
}

function Loaded({ run, place }: { run: RunDetail; place: Place }) {
  const navigate = useNavigate();
  const [openedAt] = useState(() => run.status);
  const go = (p: Partial<Place>, replace = false) =>
    void navigate({
      to: "/runs/$runId",
      params: { runId: run.id },
      search: { ...place, ...p },
      replace,
      resetScroll: false,
    });
  const selection = select(run, place);
  const choose = (task: string, attempt?: number) => go({ task, attempt, line: undefined });
  return (
    <div className="page run-page">
      <RunHeader run={run} />
      {run.status === "FAILED" && <FailurePanel run={run} onOpen={choose} />}
      {!run.singleCommand && run.tasks.length > 0 && (
        <TasksPanel
          run={run}
          selected={selection.index}
          view={place.view ?? "graph"}
          onView={(view) => go({ view }, true)}
          onSelect={choose}
        />
      )}
      <LogPanel
        run={run}
        selection={selection}
        line={place.line}
        wasOver={!isActive(openedAt)}
        onTask={(task) => choose(task)}
        onAttempt={(attempt) => go({ task: selection.task?.key, attempt, line: undefined })}
        onLine={(line) => go({ task: selection.task?.key, attempt: selection.attempt?.number, line }, true)}
      />
      <RunTracking run={run} />
      <RunTables run={run} />
    </div>
  );
}
