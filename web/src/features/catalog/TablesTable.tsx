import { Button, Table } from "@mantine/core";
import { IconArrowBackUp, IconEye, IconTable, IconTrash } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { formatBytes, formatCount } from "@/lib/format";
import { useRole } from "@/lib/session";
import { TableHead } from "@/ui/Table";
import { Ago } from "@/ui/Time";
import { useTableActions } from "./actions";
import type { TableRow } from "./queries";

/** Tables and views, one per line; dropped ones can be restored. */
export function TablesTable({ rows, dropped }: { rows: readonly TableRow[]; dropped: boolean }) {
  const editor = includes(useRole(), Role.Editor);
  const { askPurge, undrop } = useTableActions();
  return (
    <Table.ScrollContainer minWidth={680}>
      <Table aria-label="Tables" className="rows">
        <TableHead
          columns={[
            "Name",
            "Schema",
            { right: "Rows" },
            { right: "Size" },
            dropped ? "Dropped" : "Changed",
            dropped ? "Restorable" : "By",
            dropped && editor && { hidden: "Actions" },
          ]}
        />
        <Table.Tbody>
          {rows.map((t) => (
            <Table.Tr key={t.id} className="row-link">
              <Table.Td className="wraps">
                <Link
                  to="/catalog/table/$tableId"
                  params={{ tableId: t.id }}
                  className="row-main catalog-name"
                >
                  {t.kind === "VIEW" ? (
                    <IconEye size={15} aria-label="View" />
                  ) : (
                    <IconTable size={15} aria-label="Table" />
                  )}
                  {t.name}
                </Link>
              </Table.Td>
              <Table.Td>{t.schema}</Table.Td>
              <Table.Td ta="right">
                {t.rowCount === null ? <Unknown /> : formatCount(Number(t.rowCount))}
              </Table.Td>
              <Table.Td ta="right" className="nowrap">
                {t.dataBytes === null ? <Unknown /> : formatBytes(Number(t.dataBytes))}
              </Table.Td>
              <Table.Td>
                <Ago at={(dropped && t.droppedAt) || t.updatedAt} />
              </Table.Td>
              <Table.Td>
                {dropped && t.restorableUntil ? (
                  <>
                    until <Ago at={t.restorableUntil} />
                    {t.detached && <small className="dim"> · detached: its files stay</small>}
                  </>
                ) : (
                  t.updatedBy
                )}
              </Table.Td>
              {dropped && editor && (
                <Table.Td ta="right">
                  <Button
                    size="xs"
                    variant="default"
                    leftSection={<IconArrowBackUp size={14} />}
                    aria-label={`Restore ${t.name}`}
                    loading={undrop.isPending && undrop.variables.id === t.id}
                    onClick={() => undrop.mutate(t)}
                  >
                    Restore
                  </Button>
                  {t.detached && (
                    <Button
                      ml="xs"
                      size="xs"
                      variant="default"
                      color="red"
                      leftSection={<IconTrash size={14} />}
                      aria-label={`Purge ${t.name}`}
                      onClick={() => askPurge(t)}
                    >
                      Purge
                    </Button>
                  )}
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

const Unknown = () => <span className="dim">–</span>;
