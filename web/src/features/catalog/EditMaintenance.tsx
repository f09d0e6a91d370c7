import { Button, Checkbox, Group, NumberInput, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { type ReactNode, useMemo, useState } from "react";
import { timeZones } from "@/lib/cron";
import { RequestError } from "@/lib/graphql";
import { CronText } from "@/ui/CronText";
import { ErrorPanel } from "@/ui/States";
import type { Subject } from "./maintenance";
import {
  boundsOf,
  type FieldName,
  fieldNames,
  fieldOf,
  fields,
  inheritedText,
  levelOf,
  type Maintenance,
  ownFields,
  toPolicy,
  type Values,
  validatePolicy,
  valuesOf,
} from "./policy";
import { useSetPolicy, useWarehouses } from "./useMaintenance";

/** Edits a subject's maintenance policy: each field is set here or inherited. */
export function EditMaintenance({
  subject: s,
  maintenance: m,
  onClose,
}: {
  subject: Subject;
  maintenance: Maintenance;
  onClose: () => void;
}) {
  const [values, setValues] = useState(() => valuesOf(m));
  const [own, setOwn] = useState(() => ownFields(m));
  const [wrong, setWrong] = useState<ReturnType<typeof validatePolicy>>({});
  const save = useSetPolicy(s);
  const refused = save.error instanceof RequestError ? fieldOf(save.error) : undefined;
  const change = (f: FieldName, v: Partial<Values>) => {
    setValues((old) => ({ ...old, ...v }));
    setWrong((old) => ({ ...old, [f]: undefined }));
    if (refused === f) save.reset();
  };
  const inherit = (f: FieldName, on: boolean) => {
    setOwn((old) => new Set(on ? [...old].filter((x) => x !== f) : [...old, f]));
    change(f, {});
  };
  const send = () => {
    const found = validatePolicy(values, own);
    setWrong(found);
    if (Object.keys(found).length === 0) save.mutate(toPolicy(values, own), { onSuccess: onClose });
  };
  const about = (f: FieldName) => {
    if (own.has(f)) return undefined;
    if (ownFields(m).has(f)) return "Inherited once it is saved.";
    const said = f === "schedule" ? null : valuesOf(m)[f];
    return `${typeof said === "boolean" ? `${said ? "On" : "Off"}. ` : ""}${inheritedText(levelOf(m, f))}`;
  };
  return (
    <form
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      <Stack gap="sm">
        {save.error && !refused && <ErrorPanel error={save.error} />}
        <Text size="sm" c="dimmed">
          {s.level === "workspace"
            ? "Applies to all tables without a policy of their own or of their database."
            : `Inherited fields follow ${s.level === "table" ? "its database or the workspace" : "the workspace"}, also after later changes.`}
        </Text>
        {fieldNames.map((f) => (
          <div key={f} className="policy-field">
            <Control
              field={f}
              values={values}
              disabled={!own.has(f)}
              description={about(f)}
              error={wrong[f] ?? (refused === f ? save.error?.message : undefined)}
              onChange={(v) => change(f, v)}
            />
            <Checkbox
              label={s.level === "workspace" ? "Built in" : "Inherit"}
              aria-label={`${s.level === "workspace" ? "Built in" : "Inherit"}: ${fields[f].label}`}
              checked={!own.has(f)}
              onChange={(e) => inherit(f, e.currentTarget.checked)}
            />
          </div>
        ))}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Not now
          </Button>
          <Button type="submit" loading={save.isPending}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

interface ControlProps {
  field: FieldName;
  values: Values;
  disabled: boolean;
  description: string | undefined;
  error: string | undefined;
  onChange: (v: Partial<Values>) => void;
}

function Control({ field: f, values: v, onChange, ...rest }: ControlProps): ReactNode {
  const { label } = fields[f];
  if (f === "schedule") return <Schedule values={v} onChange={onChange} {...rest} />;
  if (f === "warehouse") return <Warehouse label={label} value={v.warehouse} onChange={onChange} {...rest} />;
  const bounds = boundsOf(f);
  const value = v[f];
  if (bounds)
    return (
      <NumberInput
        label={label}
        suffix={` ${bounds.unit}`}
        min={bounds.least}
        max={bounds.most}
        clampBehavior="none"
        allowDecimal={false}
        value={value as number | string}
        onChange={(n) => onChange({ [f]: n })}
        {...rest}
      />
    );
  return (
    <Switch
      label={label}
      checked={value === true}
      onChange={(e) => onChange({ [f]: e.currentTarget.checked })}
      {...rest}
    />
  );
}

function Schedule({
  values: v,
  onChange,
  disabled,
  description,
  error,
}: Omit<ControlProps, "field">): ReactNode {
  const zones = useMemo(() => {
    const all = timeZones();
    return all.includes(v.timeZone) ? all : [v.timeZone, ...all];
  }, [v.timeZone]);
  return (
    <div className="policy-schedule">
      <TextInput
        className="code-input"
        label={fields.schedule.label}
        description={description ?? (v.cron.trim() ? <CronText cron={v.cron.trim()} /> : "A cron line.")}
        value={v.cron}
        spellCheck={false}
        disabled={disabled}
        error={error}
        onChange={(e) => onChange({ cron: e.currentTarget.value })}
      />
      <Select
        label="Time zone"
        description="Of the cron line."
        data={zones}
        value={v.timeZone}
        disabled={disabled}
        searchable
        limit={30}
        allowDeselect={false}
        onChange={(z) => z && onChange({ timeZone: z })}
      />
    </div>
  );
}

const any = "any";

function Warehouse({
  label,
  value,
  onChange,
  ...rest
}: Omit<ControlProps, "field" | "values"> & { label: string; value: string }): ReactNode {
  const warehouses = useWarehouses();
  const data = [
    { value: any, label: "Any that runs" },
    ...warehouses.map((w) => ({ value: w.id, label: w.name })),
  ];
  if (value && !warehouses.some((w) => w.id === value)) data.push({ value, label: value });
  return (
    <Select
      label={label}
      data={data}
      value={value || any}
      allowDeselect={false}
      onChange={(w) => w && onChange({ warehouse: w === any ? "" : w })}
      {...rest}
    />
  );
}
