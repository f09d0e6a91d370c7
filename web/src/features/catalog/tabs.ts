import { TableKind } from "@/gql/gen";

export const tableTabs = [
  { value: "schema", label: "Schema" },
  { value: "sample", label: "Sample" },
  { value: "snapshots", label: "Snapshots" },
  { value: "files", label: "Files" },
  { value: "partitions", label: "Partitions" },
  { value: "history", label: "History" },
  { value: "lineage", label: "Lineage" },
  { value: "maintenance", label: "Maintenance" },
  { value: "sql", label: "SQL" },
] as const;
export type TableTab = (typeof tableTabs)[number]["value"];

const ofViews: readonly TableTab[] = ["sql", "schema", "lineage"];

/** The tabs of a table or a view. */
export const tabsOf = (kind: TableKind) =>
  kind === TableKind.View
    ? ofViews.flatMap((v) => tableTabs.filter((t) => t.value === v))
    : tableTabs.filter((t) => t.value !== "sql");
