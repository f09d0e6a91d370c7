import { Button, Group, Popover, Select, Stack, Text, TextInput } from "@mantine/core";
import { IconVariable } from "@tabler/icons-react";
import type { Parameter, SqlTab, TabStore } from "@/lib/sqlTabs";

const kinds = [
  { value: "text", label: "Text" },
  { value: "number", label: "Number" },
  { value: "boolean", label: "Boolean" },
  { value: "null", label: "NULL" },
];
const empty: Parameter = { kind: "text", value: "" };

/** Values for $1, $2 and so on. They are bound, never pasted into the text. */
export function Parameters({ tab, count, store }: { tab: SqlTab; count: number; store: TabStore }) {
  const rows = Array.from({ length: count }, (_, i) => tab.parameters[i] ?? empty);
  const set = (i: number, p: Partial<Parameter>) =>
    store.change(tab.id, { parameters: rows.map((x, j) => (i === j ? { ...x, ...p } : x)) });
  const given = Math.min(tab.parameters.length, count);
  return (
    <Popover position="bottom-start" withArrow trapFocus>
      <Popover.Target>
        <Button size="xs" variant="default" leftSection={<IconVariable size={15} />}>
          Parameters {given < count ? `(${count - given} to give)` : `(${count})`}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Parameters">
        <Stack gap={6}>
          <Text size="xs" c="dimmed">
            Bound as values, never pasted into the text.
          </Text>
          {rows.map((p, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a parameter is its number
            <Group key={i} gap={6} wrap="nowrap">
              <Text size="xs" className="mono" w={24}>
                ${i + 1}
              </Text>
              <Select
                size="xs"
                w={104}
                aria-label={`Kind of parameter ${i + 1}`}
                allowDeselect={false}
                comboboxProps={{ withinPortal: false }}
                data={kinds}
                value={p.kind}
                onChange={(v) =>
                  v && set(i, { kind: v as Parameter["kind"], value: v === "boolean" ? "true" : p.value })
                }
              />
              {p.kind === "boolean" ? (
                <Select
                  size="xs"
                  w={190}
                  aria-label={`Value of parameter ${i + 1}`}
                  allowDeselect={false}
                  comboboxProps={{ withinPortal: false }}
                  data={["true", "false"]}
                  value={p.value}
                  onChange={(v) => v && set(i, { value: v })}
                />
              ) : (
                <TextInput
                  size="xs"
                  w={190}
                  aria-label={`Value of parameter ${i + 1}`}
                  disabled={p.kind === "null"}
                  value={p.kind === "null" ? "" : p.value}
                  onChange={(e) => set(i, { value: e.currentTarget.value })}
                />
              )}
            </Group>
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
