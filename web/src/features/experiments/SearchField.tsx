import { ActionIcon, Button, CloseButton, Popover, Stack, Text, TextInput } from "@mantine/core";
import { IconInfoCircle, IconSearch } from "@tabler/icons-react";
import { type FormEvent, useEffect, useState } from "react";
import { isCode } from "@/lib/graphql";

/** The reason why the server refuses the filter; null for any other failure. */
export const filterError = (e: unknown) => (isCode(e, "INVALID") ? (e as Error).message : null);

/** A search in MLflow's grammar, or for a part of the name. It is sent by Enter. */
export function SearchField({
  value,
  error,
  label,
  examples,
  onSearch,
}: {
  value: string | undefined;
  error: string | null;
  label: string;
  examples: readonly string[];
  onSearch: (q: string | undefined) => void;
}) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    onSearch(text.trim() || undefined);
  };
  const clear = () => {
    setText("");
    onSearch(undefined);
  };
  return (
    <form onSubmit={submit} className="experiment-search">
      <TextInput
        aria-label={label}
        placeholder={`Part of a name, or ${examples[0]}`}
        value={text}
        error={error}
        onChange={(e) => setText(e.currentTarget.value)}
        leftSection={<IconSearch size={15} aria-hidden />}
        rightSectionWidth={text ? 60 : 34}
        rightSection={
          <span className="nowrap">
            {text && <CloseButton size={26} aria-label="Clear the search" onClick={clear} />}
            <Help examples={examples} />
          </span>
        }
      />
    </form>
  );
}

/** Nothing is listed, because the server refuses the filter. */
export function Refused({ onClear }: { onClear: () => void }) {
  return (
    <div className="empty empty-small">
      <Text size="sm">This filter cannot be read. The reason is below the search field.</Text>
      <Button variant="default" size="xs" onClick={onClear}>
        Clear the filter
      </Button>
    </div>
  );
}

function Help({ examples }: { examples: readonly string[] }) {
  return (
    <Popover width={400} position="bottom-end" shadow="md" withArrow>
      <Popover.Target>
        <ActionIcon variant="subtle" color="gray" size={26} aria-label="How to search">
          <IconInfoCircle size={16} />
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown aria-label="How to search">
        <Stack gap={6}>
          <Text size="sm">
            A plain text finds names that contain it. Everything else is MLflow's language: conditions that
            are joined by AND. Press Enter to search.
          </Text>
          {examples.map((e) => (
            <pre key={e} className="code-block">
              {e}
            </pre>
          ))}
          <Text size="xs" c="dimmed">
            Texts have quotes, numbers have none. A key with a space or a slash stands in backticks. Operators
            are =, !=, &lt;, &lt;=, &gt;, &gt;=, LIKE, ILIKE, IN, IS NULL and IS NOT NULL.
          </Text>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
