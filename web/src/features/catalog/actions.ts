import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  CreateDatabaseDocument,
  CreateSchemaDocument,
  DeleteDatabaseDocument,
  DeleteSchemaDocument,
  DropTableDocument,
  PurgeTableDocument,
  RenameTableDocument,
  UndropTableDocument,
} from "@/gql/gen";
import { refreshCatalog } from "@/lib/catalog";
import { request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { patchEntity } from "@/lib/patch";
import { confirm } from "@/ui/dialogs";
import type { TableRow } from "./queries";

const nounOf = (t: Pick<TableRow, "kind">) => (t.kind === "VIEW" ? "view" : "table");

/** Drops, restores and renames tables and views. */
export function useTableActions() {
  const qc = useQueryClient();
  const take = (t: TableRow) => {
    patchEntity(qc, t);
    return refreshCatalog(qc);
  };
  const drop = useMutation({
    mutationFn: async (t: TableRow) =>
      (await request(DropTableDocument, { input: { id: t.id } })).dropTable.table,
    onSuccess: async (t) => {
      await take(t);
      done(
        `Dropped ${t.fullName}. It can be restored for seven days, and keeps its files until it is purged.`,
      );
    },
    onError: (e, t) => failed(`${t.fullName} was not dropped`, e),
  });
  const undrop = useMutation({
    mutationFn: async (t: TableRow) => (await request(UndropTableDocument, { id: t.id })).undropTable.table,
    onSuccess: async (t) => {
      await take(t);
      done(`${t.fullName} is back.`);
    },
    onError: (e, t) => failed(`${t.fullName} was not restored`, e),
  });
  const purge = useMutation({
    mutationFn: async (t: TableRow) => (await request(PurgeTableDocument, { id: t.id })).purgeTable.table,
    onSuccess: async (t) => {
      await take(t);
      done(`The files of ${t.fullName} will be removed.`);
    },
    onError: (e, t) => failed(`${t.fullName} was not purged`, e),
  });
  const rename = useMutation({
    mutationFn: async (i: { id: string; schema: string; name: string }) =>
      (await request(RenameTableDocument, { input: i })).renameTable.table,
    onSuccess: async (t) => {
      await take(t);
      done(`It is ${t.fullName} now.`);
    },
  });
  const askDrop = (t: TableRow) =>
    confirm({
      title: `Drop ${t.fullName}?`,
      effect: `Statements that name the ${nounOf(t)} fail from now on. It can be restored here for seven days, with its rows and its history.`,
      action: `Drop the ${nounOf(t)}`,
      run: () => drop.mutate(t),
    });
  const askPurge = (t: TableRow) =>
    confirm({
      title: `Purge ${t.fullName}?`,
      effect:
        "All files in its directories are removed once it can no longer be restored, an hour from now at the earliest. Until then, registering its metadata file cancels this.",
      action: "Purge the table",
      run: () => purge.mutate(t),
    });
  return { askDrop, askPurge, undrop, rename };
}

/** Creates and deletes databases and schemas. */
export function useCatalogActions() {
  const qc = useQueryClient();
  const navigate = useNavigate();
  const createDatabase = useMutation({
    mutationFn: async (name: string) =>
      (await request(CreateDatabaseDocument, { input: { name } })).createDatabase.database,
    onSuccess: async (d) => {
      await refreshCatalog(qc);
      done(`Made the database ${d.name}, with the schema public.`);
    },
  });
  const createSchema = useMutation({
    mutationFn: async (i: { database: string; name: string }) =>
      (await request(CreateSchemaDocument, { input: i })).createSchema.schema,
    onSuccess: async (s) => {
      await refreshCatalog(qc);
      done(`Made the schema ${s.name}.`);
    },
  });
  const removeDatabase = useMutation({
    mutationFn: (d: { id: string; name: string }) => request(DeleteDatabaseDocument, { id: d.id }),
    onSuccess: async (_, d) => {
      await navigate({ to: "/catalog" });
      await refreshCatalog(qc);
      done(`Deleted the database ${d.name}.`);
    },
    onError: (e, d) => failed(`${d.name} was not deleted`, e),
  });
  const removeSchema = useMutation({
    mutationFn: (s: { database: string; name: string }) =>
      request(DeleteSchemaDocument, { input: { database: s.database, name: s.name } }),
    onSuccess: async (_, s) => {
      await refreshCatalog(qc);
      done(`Deleted the schema ${s.name}.`);
    },
    onError: (e, s) => failed(`${s.name} was not deleted`, e),
  });
  const askRemoveDatabase = (d: { id: string; name: string }) =>
    confirm({
      title: `Delete the database ${d.name}?`,
      effect:
        "It must not contain tables or views. Tables and views that were dropped in it can no longer be restored.",
      action: "Delete the database",
      run: () => removeDatabase.mutate(d),
    });
  const askRemoveSchema = (s: { database: string; name: string }) =>
    confirm({
      title: `Delete the schema ${s.name}?`,
      effect: "It must not contain tables, views or other schemas.",
      action: "Delete the schema",
      run: () => removeSchema.mutate(s),
    });
  return { createDatabase, createSchema, askRemoveDatabase, askRemoveSchema };
}
