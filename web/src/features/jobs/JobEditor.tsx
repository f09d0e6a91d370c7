import "./job.css";
import { Button, Group, Loader, Modal, SegmentedControl, Stack, Text } from "@mantine/core";
import { Link, useBlocker, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { plural } from "@/lib/format";
import { RequestError } from "@/lib/graphql";
import { PageHeader } from "@/ui/PageHeader";
import { ErrorPanel } from "@/ui/States";
import { useSaveJob } from "./actions";
import { JobForm } from "./JobForm";
import { type JobModel, parseModel } from "./model";
import { byPath, type Issue, pathOf, validateJob } from "./validate";

const JsonEditor = lazy(() => import("@/ui/JsonEditor").then((m) => ({ default: m.JsonEditor })));

const toText = (m: JobModel) => JSON.stringify(m, null, 2);

/** One model of a job, shown as a form or as JSON. */
export function JobEditor({
  id,
  name,
  initial,
}: {
  id: string | undefined;
  name: string;
  initial: JobModel;
}) {
  const navigate = useNavigate();
  const save = useSaveJob(id);
  const [model, setModel] = useState(initial);
  const [text, setText] = useState<string | null>(null);
  const [tried, setTried] = useState(false);
  const [refused, setRefused] = useState<{ model: JobModel; issue: Issue } | null>(null);

  const parsed = useMemo(() => (text === null ? null : parseModel(text)), [text]);
  const issues = useMemo(() => {
    const own = validateJob(model);
    return refused?.model === model ? [refused.issue, ...own] : own;
  }, [model, refused]);
  const dirty =
    (JSON.stringify(model) !== JSON.stringify(initial) || parsed?.error != null) && !save.isSuccess;
  const leave = useBlocker({ shouldBlockFn: () => dirty, enableBeforeUnload: dirty, withResolver: true });

  const change = (m: JobModel) => {
    setModel(m);
    save.reset();
  };
  const changeText = (s: string) => {
    setText(s);
    const p = parseModel(s);
    if (p.model) change(p.model);
  };
  const submit = async () => {
    setTried(true);
    if (issues.length || parsed?.error) return;
    try {
      const job = await save.mutateAsync(model);
      await navigate({ to: "/jobs/$jobId", params: { jobId: job.id }, ignoreBlocker: true });
    } catch (e) {
      if (e instanceof RequestError && e.field)
        setRefused({ model, issue: { path: pathOf(e.field), message: e.message } });
    }
  };
  const unplaced = save.error && !(save.error instanceof RequestError && save.error.field);
  return (
    <div className="page page-narrow">
      <PageHeader
        trail={[
          <Link key="jobs" to="/jobs">
            Jobs
          </Link>,
          ...(id
            ? [
                <Link key="job" to="/jobs/$jobId" params={{ jobId: id }}>
                  {name}
                </Link>,
              ]
            : []),
        ]}
        title={id ? `Edit ${name}` : "New job"}
        description={id ? "Changes what later runs do. Past runs are never rewritten." : undefined}
        actions={
          <SegmentedControl
            size="xs"
            aria-label="View of the job"
            value={text === null ? "form" : "json"}
            onChange={(v) => setText(v === "json" ? toText(model) : null)}
            disabled={parsed?.error != null}
            data={[
              { value: "form", label: "Form" },
              { value: "json", label: "JSON" },
            ]}
          />
        }
      />
      {unplaced && <ErrorPanel error={save.error} />}
      {text === null ? (
        <JobForm
          model={model}
          onChange={change}
          errors={tried ? byPath(issues) : byPath(liveIssues(issues, model))}
        />
      ) : (
        <section className="card" aria-label="JSON">
          <div className="section-title">
            <h2>JSON</h2>
            <Text size="xs" c="dimmed">
              The input of createJob in GraphQL; that of POST /jobs in REST is understood as well
            </Text>
          </div>
          <div className="json-editor">
            <Suspense fallback={<Loader m="md" size="sm" />}>
              <JsonEditor
                value={text}
                onChange={changeText}
                error={parsed?.error ?? null}
                label="The job as JSON"
              />
            </Suspense>
          </div>
          {(parsed?.error || issues.length > 0) && (
            <ul className="issues" aria-label="To put right">
              {(parsed?.error ? [{ path: "", message: parsed.error }] : issues).map((i) => (
                <li key={i.path + i.message}>
                  {i.path && <span className="mono dim">{i.path}</span>} {i.message}
                </li>
              ))}
            </ul>
          )}
        </section>
      )}
      <div className="save-bar">
        <Text size="sm" c={tried && issues.length ? "red" : "dimmed"} mr="auto" aria-live="polite">
          {parsed?.error
            ? "The JSON is not valid yet."
            : tried && issues.length > 0
              ? `${plural(issues.length, "thing")} to put right: ${issues[0]?.message}`
              : dirty
                ? "Not saved yet."
                : ""}
        </Text>
        <Button
          variant="default"
          renderRoot={(p) =>
            id ? <Link to="/jobs/$jobId" params={{ jobId: id }} {...p} /> : <Link to="/jobs" {...p} />
          }
        >
          Cancel
        </Button>
        <Button onClick={submit} loading={save.isPending}>
          {id ? "Save" : "Create job"}
        </Button>
      </div>
      <Modal
        opened={leave.status === "blocked"}
        onClose={() => leave.reset?.()}
        title="Leave without saving?"
      >
        <Stack>
          <Text size="sm">What you changed on this page is lost when you leave it.</Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={() => leave.reset?.()}>
              Stay
            </Button>
            <Button color="red" onClick={() => leave.proceed?.()}>
              Leave
            </Button>
          </Group>
        </Stack>
      </Modal>
    </div>
  );
}

/** Issues to show while somebody types: not those of empty fields. */
function liveIssues(issues: readonly Issue[], m: JobModel): Issue[] {
  return issues.filter((i) => {
    const value = i.path.split(".").reduce<unknown>((o, k) => (o as Record<string, unknown> | null)?.[k], m);
    return value !== "" && value !== null && value !== undefined;
  });
}
