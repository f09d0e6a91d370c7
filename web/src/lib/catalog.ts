import { type QueryClient, queryOptions } from "@tanstack/react-query";
import {
  DatabasesDocument,
  type DatabasesQuery,
  SchemasDocument,
  type SchemasQuery,
  TableColumnsDocument,
  TableNamesDocument,
  type TableNamesQuery,
} from "@/gql/gen";
import { request } from "./graphql";

const page = 100;
const stale = { staleTime: 30_000 };

interface Page<N> {
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
  readonly edges: readonly { readonly node: N }[];
}

/** All items of a list, page by page; empty if it no longer exists. */
async function all<N>(ask: (after: string | null) => Promise<Page<N> | undefined>): Promise<N[]> {
  const nodes: N[] = [];
  let after: string | null = null;
  do {
    const p: Page<N> | undefined = await ask(after);
    nodes.push(...(p?.edges.map((e) => e.node) ?? []));
    after = p?.pageInfo.hasNextPage ? p.pageInfo.endCursor : null;
  } while (after !== null);
  return nodes;
}

export type DatabaseNode = DatabasesQuery["databases"]["edges"][number]["node"];
export type SchemaNode = NonNullable<SchemasQuery["database"]>["schemas"]["edges"][number]["node"];
export type TableName = NonNullable<TableNamesQuery["database"]>["tables"]["edges"][number]["node"];

/** All databases, oldest first. */
export const databasesQuery = queryOptions({
  queryKey: ["Databases"],
  queryFn: ({ signal }) =>
    all(async (after) => (await request(DatabasesDocument, { first: page, after }, signal)).databases),
  ...stale,
});

/** Schemas of a database, by its id or name. */
export const schemasQuery = (database: string) =>
  queryOptions({
    queryKey: ["Schemas", database],
    queryFn: ({ signal }): Promise<SchemaNode[]> =>
      all(
        async (after) =>
          (await request(SchemasDocument, { id: database, first: page, after }, signal)).database?.schemas,
      ),
    ...stale,
  });

/** Names of the tables and views in a schema; the database by its id or name. */
export const tableNamesQuery = (database: string, schema: string) =>
  queryOptions({
    queryKey: ["TableNames", database, schema],
    queryFn: ({ signal }): Promise<TableName[]> =>
      all(
        async (after) =>
          (await request(TableNamesDocument, { id: database, schema, first: page, after }, signal)).database
            ?.tables,
      ),
    ...stale,
  });

/** Columns of a table by its names; empty without such a table. */
export const columnsQuery = (database: string, schema: string, name: string) =>
  queryOptions({
    queryKey: ["TableColumns", database, schema, name],
    queryFn: async ({ signal }) =>
      (await request(TableColumnsDocument, { database, schema, name }, signal)).tableByName?.columns ?? [],
    ...stale,
  });

const catalogKeys = ["Databases", "Schemas", "TableNames", "TableColumns", "DatabaseTables", "TableDetail"];

/** Refetches all catalog queries. */
export const refreshCatalog = (qc: QueryClient) =>
  Promise.all(catalogKeys.map((key) => qc.invalidateQueries({ queryKey: [key] })));
