import { ActionIcon, Button, Stack, Text, TextInput } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import type { Errors } from "./fields";
import type { VariableModel } from "./model";

/** Names and values, one per row. */
export function VariablesForm({
  title,
  description,
  add,
  path,
  list,
  onChange,
  errors,
}: {
  title: string;
  description: string;
  add: string;
  path: string;
  list: readonly VariableModel[];
  onChange: (l: VariableModel[]) => void;
  errors: Errors;
}) {
  const set = (i: number, v: Partial<VariableModel>) =>
    onChange(list.map((x, j) => (i === j ? { ...x, ...v } : x)));
  return (
    <Stack gap="xs">
      <div>
        <Text size="sm" fw={600}>
          {title}
        </Text>
        <Text size="xs" c="dimmed">
          {description}
        </Text>
      </div>
      {list.map((v, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
        <div key={i} className="variable-row code-input">
          <TextInput
            size="xs"
            aria-label={`${title}: name ${i + 1}`}
            placeholder="NAME"
            value={v.name}
            onChange={(e) => set(i, { name: e.currentTarget.value })}
            error={errors.get(`${path}.${i}.name`)}
          />
          <TextInput
            size="xs"
            aria-label={`${title}: value ${i + 1}`}
            placeholder="value"
            value={v.value}
            onChange={(e) => set(i, { value: e.currentTarget.value })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove ${v.name || "this row"}`}
            onClick={() => onChange(list.filter((_, j) => j !== i))}
          >
            <IconX size={15} />
          </ActionIcon>
        </div>
      ))}
      {errors.get(path) && (
        <Text size="xs" c="var(--mantine-color-error)">
          {errors.get(path)}
        </Text>
      )}
      <Button
        size="xs"
        variant="default"
        leftSection={<IconPlus size={14} />}
        style={{ alignSelf: "flex-start" }}
        onClick={() => onChange([...list, { name: "", value: "" }])}
      >
        {add}
      </Button>
    </Stack>
  );
}
