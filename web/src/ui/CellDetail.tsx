import { Group, Modal, Text } from "@mantine/core";
import { formatCount } from "@/lib/format";
import { prettyJson } from "@/lib/prettyJson";
import { isNested, type ResultColumn } from "@/lib/result";
import { CopyButton } from "./Copy";

/** One value, whole. */
export function CellDetail({
  opened,
  onClose,
  column,
  row,
  value,
}: {
  opened: boolean;
  onClose: () => void;
  column: ResultColumn | undefined;
  row: number;
  value: string | null | undefined;
}) {
  const text = value && column && isNested(column.type) ? prettyJson(value) : value;
  return (
    <Modal opened={opened} onClose={onClose} title={column?.name} size="lg">
      <Group justify="space-between" mb="xs">
        <Text size="sm" c="dimmed">
          <span className="mono">{column?.type}</span>, row {formatCount(row + 1)}
          {value ? `, ${formatCount(value.length)} characters` : ""}
        </Text>
        {value !== null && value !== undefined && <CopyButton value={value} label="Copy" />}
      </Group>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <pre className="code-block grid-detail" tabIndex={0}>
        {text === null ? <i>NULL</i> : text === "" ? <i>An empty text</i> : text}
      </pre>
    </Modal>
  );
}
