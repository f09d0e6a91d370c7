import { Button, Checkbox, Group, Popover, Text, TextInput } from "@mantine/core";
import { IconTable } from "@tabler/icons-react";
import { useState } from "react";
import { kindWords, noColumns } from "./columns";
import type { Column } from "./search";

const listedAtMost = 200;

/** Chooses the columns of the table among what the loaded runs logged. */
export function ColumnPicker({
  there,
  shown,
  onChange,
}: {
  there: readonly Column[];
  shown: readonly Column[];
  onChange: (ids: string[] | undefined) => void;
}) {
  const [search, setSearch] = useState("");
  const ids = new Set(shown.map((c) => c.id));
  const lost = shown.filter((c) => !there.some((x) => x.id === c.id));
  const found = [...there, ...lost].filter((c) => c.key.toLowerCase().includes(search.trim().toLowerCase()));
  const toggle = (id: string, on: boolean) => {
    const next = [...ids].filter((x) => x !== id).concat(on ? [id] : []);
    onChange(next.length ? next : [noColumns]);
  };
  return (
    <Popover width={320} position="bottom-end" shadow="md" trapFocus>
      <Popover.Target>
        <Button variant="default" leftSection={<IconTable size={16} />}>
          Columns ({shown.length})
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Columns">
        <TextInput
          size="xs"
          aria-label="Find a column"
          placeholder="Find a metric, parameter or tag"
          value={search}
          onChange={(e) => setSearch(e.currentTarget.value)}
        />
        <div className="column-list">
          {(["metrics", "params", "tags"] as const).map((kind) => {
            const of = found.filter((c) => c.kind === kind).slice(0, listedAtMost);
            if (of.length === 0) return null;
            return (
              <fieldset key={kind}>
                <legend>{kindWords[kind]}</legend>
                {of.map((c) => (
                  <Checkbox
                    key={c.id}
                    size="xs"
                    label={c.key}
                    checked={ids.has(c.id)}
                    onChange={(e) => toggle(c.id, e.currentTarget.checked)}
                  />
                ))}
              </fieldset>
            );
          })}
          {found.length === 0 && (
            <Text size="sm" c="dimmed" py="sm">
              The loaded runs have no such key.
            </Text>
          )}
          {found.length > listedAtMost && (
            <Text size="xs" c="dimmed" pt="xs">
              Type a part of the key to see the others.
            </Text>
          )}
        </div>
        <Group justify="flex-end" pt="xs">
          <Button size="xs" variant="default" onClick={() => onChange(undefined)}>
            The usual columns
          </Button>
        </Group>
      </Popover.Dropdown>
    </Popover>
  );
}
