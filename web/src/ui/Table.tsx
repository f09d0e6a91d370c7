import { Button, Table, VisuallyHidden } from "@mantine/core";

/** A column's name; with numbers, on the right; with controls, only for screen readers. */
type Column = string | { right: string } | { hidden: string } | false | undefined | null;

/** The head of a table. Columns that are false are left out. */
export function TableHead({ columns }: { columns: Column[] }) {
  return (
    <Table.Thead>
      <Table.Tr>
        {columns.map((c) => {
          if (!c) return null;
          if (typeof c === "string") return <Table.Th key={c}>{c}</Table.Th>;
          if ("right" in c)
            return (
              <Table.Th key={c.right} ta="right">
                {c.right}
              </Table.Th>
            );
          return (
            <Table.Th key={c.hidden}>
              <VisuallyHidden>{c.hidden}</VisuallyHidden>
            </Table.Th>
          );
        })}
      </Table.Tr>
    </Table.Thead>
  );
}

/** A list's next page, below its table. */
export function ShowMore({
  of,
  children,
}: {
  of: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };
  children: string;
}) {
  if (!of.hasNextPage) return null;
  return (
    <div className="table-foot">
      <Button
        variant="default"
        size="xs"
        loading={of.isFetchingNextPage}
        onClick={() => void of.fetchNextPage()}
      >
        {children}
      </Button>
    </div>
  );
}
