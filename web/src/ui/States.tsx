import { Alert, Button, Code, Group, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import {
  IconAlertTriangle,
  IconFilterOff,
  IconLock,
  IconRefresh,
  type TablerIcon,
} from "@tabler/icons-react";
import type { ReactNode } from "react";
import { RequestError } from "@/lib/graphql";
import { CopyButton } from "./Copy";

/** An empty list: what it is for, and the first step. */
export function EmptyState({
  icon: Icon,
  title,
  children,
  action,
}: {
  icon: TablerIcon;
  title: string;
  children: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      <span className="empty-icon">
        <Icon size={26} stroke={1.5} aria-hidden />
      </span>
      <Title order={2} size="h4">
        {title}
      </Title>
      <Text size="sm" c="dimmed" maw={460}>
        {children}
      </Text>
      {action && <Group justify="center">{action}</Group>}
    </div>
  );
}

/** The filter hides all items. */
export function NoMatch({ what, onClear }: { what: string; onClear: () => void }) {
  return (
    <div className="empty empty-small">
      <IconFilterOff size={22} stroke={1.5} aria-hidden />
      <Text size="sm">No {what} match this filter.</Text>
      <Button variant="default" size="xs" onClick={onClear}>
        Clear the filter
      </Button>
    </div>
  );
}

/** The filter has unknown values: nothing is shown, rather than everything. */
export function UnknownChoice({
  what,
  unknown,
  all,
  onClear,
}: {
  what: string;
  unknown: readonly string[];
  all: readonly string[];
  onClear: () => void;
}) {
  return (
    <div className="empty empty-small">
      <IconFilterOff size={22} stroke={1.5} aria-hidden />
      <Text size="sm" style={{ overflowWrap: "anywhere" }}>
        There is no {what} {unknown.join(" or ")}. Choose from {all.join(", ")}.
      </Text>
      <Button variant="default" size="xs" onClick={onClear}>
        Clear the filter
      </Button>
    </div>
  );
}

const titles: Record<string, string> = {
  FORBIDDEN: "You may not see this",
  NOT_FOUND: "Not found",
  UNAVAILABLE: "The server cannot be reached",
};

/** What failed, why, and how to go on. */
export function ErrorPanel({ error, retry }: { error: unknown; retry?: () => void }) {
  const e = error instanceof RequestError ? error : undefined;
  const message = error instanceof Error ? error.message : String(error);
  const forbidden = e?.code === "FORBIDDEN";
  const details = JSON.stringify(
    { message, code: e?.code, field: e?.field, requestId: e?.requestId, page: location.pathname },
    null,
    2,
  );
  return (
    <Alert
      color={forbidden ? "yellow" : "red"}
      icon={forbidden ? <IconLock size={18} aria-hidden /> : <IconAlertTriangle size={18} aria-hidden />}
      title={titles[e?.code ?? ""] ?? "This did not work"}
      variant="light"
    >
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          {message}
          {forbidden && " An administrator of this workspace can give you the role under Members."}
        </Text>
        {e?.requestId && (
          <Text size="xs">
            Request <Code>{e.requestId}</Code>
          </Text>
        )}
        <Group gap="xs">
          {retry && (
            <Button size="xs" variant="default" leftSection={<IconRefresh size={14} />} onClick={retry}>
              Try again
            </Button>
          )}
          <CopyButton value={details} label="Copy details" />
        </Group>
      </Stack>
    </Alert>
  );
}

/** A table's shape while its rows are on their way. */
export function TableSkeleton({ rows = 8, columns = 5 }: { rows?: number; columns?: number }) {
  return (
    <div role="status" aria-label="Loading">
      <Table highlightOnHover={false}>
        <Table.Tbody>
          {Array.from({ length: rows }, (_, r) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have no identity
            <Table.Tr key={r}>
              {Array.from({ length: columns }, (_, c) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have no identity
                <Table.Td key={c}>
                  <Skeleton h={12} my={5} w={`${45 + ((r * 31 + c * 17) % 40)}%`} />
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

export function PanelSkeleton({ height = 160 }: { height?: number }) {
  return (
    <div role="status" aria-label="Loading">
      <Skeleton h={height} radius="md" />
    </div>
  );
}
