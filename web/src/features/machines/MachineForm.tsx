import { Button, Checkbox, Group, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { RequestError, request } from "@/lib/graphql";
import { autoStopRule, autoStops, type Flavor, flavorSize, perHour } from "@/lib/machine";
import { done } from "@/lib/notify";
import { ErrorPanel } from "@/ui/States";
import { possible, useMachineActions, useTakeMachine } from "./actions";
import { EngineFields } from "./EngineFields";
import {
  emptyMachine,
  fieldOf,
  lacksRoom,
  type MachineModel,
  modelOf,
  toCreate,
  toUpdate,
  validateMachine,
} from "./form";
import type { Kind, MachineFull } from "./kinds";
import { flavorsQuery } from "./queries";

/** Creates a machine and, on request, starts it. It shows the cost in advance. */
export function CreateMachine({ kind, onClose }: { kind: Kind; onClose: () => void }) {
  const [startIt, setStartIt] = useState(false);
  const take = useTakeMachine();
  const navigate = useNavigate();
  const { start } = useMachineActions();
  const create = useMutation({
    mutationFn: async (v: MachineModel) =>
      (await request(kind.documents.create, { input: toCreate(kind, v) })).done.machine,
    onSuccess: async (m) => {
      take(m);
      await navigate({ to: kind.page, params: { machineId: m.id } });
      done(`Made the ${kind.noun} ${m.name}.`);
      if (startIt) start(m);
    },
  });
  return (
    <MachineForm
      kind={kind}
      initial={emptyMachine}
      resizable
      error={create.error}
      pending={create.isPending}
      submit={`Create the ${kind.noun}`}
      onClose={onClose}
      onSubmit={(v) => create.mutate(v)}
    >
      <Checkbox
        label="Start it at once"
        description="Else it stays stopped, at no cost, until it is started."
        checked={startIt}
        onChange={(e) => setStartIt(e.currentTarget.checked)}
      />
    </MachineForm>
  );
}

/**
 * Edits a machine: its name, its auto-stop and Trino's nodes at any time, the rest only while it is
 * stopped.
 */
export function EditMachine({
  kind,
  machine,
  onClose,
}: {
  kind: Kind;
  machine: MachineFull;
  onClose: () => void;
}) {
  const take = useTakeMachine();
  const [was] = useState(() => modelOf(machine));
  const update = useMutation({
    mutationFn: async (v: MachineModel) =>
      (await request(kind.documents.update, { input: toUpdate(kind, machine.id, was, v) })).done.machine,
    onSuccess: (m) => {
      take(m);
      onClose();
      done(`Saved ${m.name}.`);
    },
  });
  return (
    <MachineForm
      kind={kind}
      initial={was}
      resizable={possible(machine).resize}
      error={update.error}
      pending={update.isPending}
      submit="Save"
      onClose={onClose}
      onSubmit={(v) => update.mutate(v)}
    />
  );
}

function MachineForm({
  kind,
  initial,
  resizable,
  error,
  pending,
  submit,
  onSubmit,
  onClose,
  children,
}: {
  kind: Kind;
  initial: MachineModel;
  /**
   * Flavor, write engine, image and slots may change: the machine is stopped or not created yet.
   */
  resizable: boolean;
  error: Error | null;
  pending: boolean;
  submit: string;
  onSubmit: (v: MachineModel) => void;
  onClose: () => void;
  children?: React.ReactNode;
}) {
  const flavors = useQuery(flavorsQuery);
  const all = flavors.data?.flavors ?? [];
  const form = useForm<MachineModel>({ initialValues: initial, validate: validateMachine });
  const v = form.getValues();
  // The smallest one with room, until another is chosen.
  const flavor = v.flavor || (all.find((f) => f.available) ?? all[0])?.name || "";
  const chosen = all.find((f) => f.name === flavor);
  const [sent, setSent] = useState<MachineModel>();
  const refused = error instanceof RequestError ? fieldOf(error) : undefined;
  const props = (f: keyof MachineModel) => {
    const p = form.getInputProps(f);
    // An error stays until another value is chosen.
    const still = refused === f && (sent?.[f] === v[f] || f === "flavor");
    return { ...p, error: p.error ?? (still ? error?.message : undefined) };
  };
  const send = () => {
    if (flavor !== v.flavor) form.setFieldValue("flavor", flavor);
    const errors = validateMachine({ ...v, flavor });
    form.setErrors(errors);
    if (Object.keys(errors).length > 0) return;
    setSent(v);
    onSubmit({ ...v, flavor });
  };
  return (
    <form
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      <Stack>
        {error && !refused && <ErrorPanel error={error} />}
        {flavors.error && <ErrorPanel error={flavors.error} retry={() => flavors.refetch()} />}
        <TextInput label="Name" withAsterisk data-autofocus {...props("name")} />
        <Select
          label={kind.flavorWord}
          withAsterisk
          allowDeselect={false}
          data={all.map((f) => ({ value: f.name, label: f.name }))}
          disabled={!resizable}
          renderOption={({ option }) => <FlavorOption flavor={all.find((f) => f.name === option.value)} />}
          {...props("flavor")}
          value={flavor || null}
          description={chosen ? `${flavorSize(chosen)}` : undefined}
        />
        {chosen?.limits && (
          <Text size="xs" c="dimmed">
            {chosen.limits}
          </Text>
        )}
        {kind.typename === "Warehouse" && (
          <EngineFields
            engine={v.writeEngine}
            made={initial.writeEngine !== "auto"}
            changeable={resizable}
            props={props}
          />
        )}
        <Select label="Stop it when idle for" allowDeselect={false} data={autoStops} {...props("autoStop")} />
        <details className="more-fields" open={refused === "image" || refused === "slots" || undefined}>
          <summary>More: image and slots</summary>
          <Stack gap="sm" mt="sm">
            <TextInput
              label="Image"
              description="A build that the provider knows. The first start pins it to a fixed copy."
              placeholder="The provider's default"
              spellCheck={false}
              disabled={!resizable}
              {...props("image")}
            />
            <NumberInput
              label={kind.slotsLabel}
              description="Empty means four for each core."
              min={1}
              allowDecimal={false}
              disabled={!resizable}
              {...props("slots")}
            />
          </Stack>
        </details>
        {!resizable && (
          <Text size="xs" c="dimmed">
            {kind.locked} can be changed while it is stopped.
          </Text>
        )}
        {children}
        {chosen && (
          <Cost
            flavor={chosen}
            autoStop={v.autoStop}
            noRoom={lacksRoom(chosen, resizable ? undefined : initial.flavor)}
          />
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Not now
          </Button>
          <Button type="submit" loading={pending}>
            {submit}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function FlavorOption({ flavor: f }: { flavor: Flavor | undefined }) {
  if (!f) return null;
  return (
    <div className="flavor-option">
      <b>{f.name}</b>
      <span>{perHour(f)}</span>
      <small>{flavorSize(f)}</small>
      {!f.available && <small>no room now</small>}
    </div>
  );
}

/** The running cost of a machine, before it is created. */
function Cost({ flavor: f, autoStop, noRoom }: { flavor: Flavor; autoStop: string; noRoom: boolean }) {
  return (
    <div className="cost" role="status" aria-label="Cost">
      <b>{perHour(f)}</b> <span>while it runs; it {autoStopRule(autoStop)}.</span>
      {noRoom && (
        <div>There is no room for {f.name} beside the running machines, so it cannot start yet.</div>
      )}
    </div>
  );
}
