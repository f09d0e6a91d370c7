import { ActionIcon, Button, Group, Loader, Menu, TextInput, Tooltip } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconCopy, IconRefresh, IconSearch } from "@tabler/icons-react";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { findText, type Place } from "@/lib/find";
import { formatCount } from "@/lib/format";
import { failed } from "@/lib/notify";
import type { ResultSource } from "@/lib/result";
import type { Selection, TextFormat } from "@/lib/table";

/** Search in a result, copying of the selection, and load failures. */
export function GridTools({
  source,
  order,
  selection,
  onFound,
  onCopy,
  onDone,
  children,
}: {
  source: ResultSource;
  order: Uint32Array | null;
  selection: Selection;
  /** The source's version, to redraw on changes. */
  version: number;
  onFound: (p: Place) => void;
  onCopy: (f: TextFormat) => void;
  /** The reader goes back to the rows. */
  onDone: () => void;
  children?: ReactNode;
}) {
  const find = useFind(source, order, selection, onFound);
  const onKey = (e: KeyboardEvent) => {
    if (e.key === "Enter") void find.next(e.shiftKey);
    if (e.key === "Escape") onDone();
  };
  return (
    <div className="grid-tools">
      <TextInput
        size="xs"
        w={210}
        aria-label="Search in the result"
        placeholder="Search in the result"
        leftSection={<IconSearch size={14} aria-hidden />}
        rightSection={find.busy ? <Loader size={12} /> : null}
        value={find.text}
        onChange={(e) => find.setText(e.currentTarget.value)}
        onKeyDown={onKey}
      />
      <Tooltip label="Previous (Shift+Enter)">
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label="Previous match"
          disabled={!find.text}
          onClick={() => void find.next(true)}
        >
          <IconChevronUp size={15} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Next (Enter)">
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label="Next match"
          disabled={!find.text}
          onClick={() => void find.next(false)}
        >
          <IconChevronDown size={15} />
        </ActionIcon>
      </Tooltip>
      <span className="dim grid-note" role="status" aria-label="Search">
        {find.note}
      </span>
      {source.failure && (
        <Button
          size="compact-xs"
          color="red"
          variant="light"
          leftSection={<IconRefresh size={13} />}
          title={source.failure.error instanceof Error ? source.failure.error.message : undefined}
          onClick={() => source.retry()}
        >
          A part could not be loaded: try again
        </Button>
      )}
      <Group gap={6} ml="auto" wrap="nowrap">
        <Menu>
          <Menu.Target>
            <Button size="compact-sm" fz="xs" variant="default" leftSection={<IconCopy size={14} />}>
              Copy
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Label>What is selected</Menu.Label>
            <Menu.Item onClick={() => onCopy("tsv")}>As text with tabs (Ctrl+C)</Menu.Item>
            <Menu.Item onClick={() => onCopy("csv")}>As CSV</Menu.Item>
            <Menu.Item onClick={() => onCopy("json")}>As JSON</Menu.Item>
          </Menu.Dropdown>
        </Menu>
        {children}
      </Group>
    </div>
  );
}

function useFind(
  source: ResultSource,
  order: Uint32Array | null,
  selection: Selection,
  onFound: (p: Place) => void,
) {
  const [text, set] = useState("");
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  const under = useRef<AbortController>(undefined);
  useEffect(() => () => under.current?.abort(), []);
  const setText = (s: string) => {
    under.current?.abort();
    set(s);
    setNote("");
  };
  const next = async (back: boolean) => {
    if (!text || source.rowCount === 0) return;
    under.current?.abort();
    const stop = new AbortController();
    under.current = stop;
    setBusy(true);
    setNote("");
    const from = { row: selection.toRow, column: selection.toColumn };
    const progress = (row: number) => setNote(`looking at row ${formatCount(row + 1)}`);
    try {
      const found = await findText(source, text, from, back, order, stop.signal, progress);
      setNote(found ? `row ${formatCount(found.row + 1)}` : "not found");
      if (found) onFound(found);
    } catch (e) {
      if (!stop.signal.aborted) failed("The search failed", e);
    } finally {
      if (under.current === stop) setBusy(false);
    }
  };
  return { text, setText, note, busy, next };
}
