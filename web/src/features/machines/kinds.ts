import {
  ComputeDetailDocument,
  type ComputeFullFragment,
  ComputeListDocument,
  ComputeLogDocument,
  CreateComputeDocument,
  CreateWarehouseDocument,
  DeleteComputeDocument,
  DeleteWarehouseDocument,
  StartComputeDocument,
  StartWarehouseDocument,
  StopComputeDocument,
  StopWarehouseDocument,
  type TypedDocumentString,
  UpdateComputeDocument,
  UpdateWarehouseDocument,
  WarehouseDetailDocument,
  type WarehouseFullFragment,
  WarehouseLogDocument,
  WarehousesListDocument,
} from "@/gql/gen";
import type { MachineRow } from "@/lib/machine";

export type MachineFull = ComputeFullFragment | WarehouseFullFragment;

/** A page of a list of machines. */
export interface MachinesPage {
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
  readonly edges: readonly { readonly node: MachineRow }[];
}

type Changed = { readonly done: { readonly machine: MachineFull } };
interface ById {
  id: string;
}

/** Texts and documents of one kind of machine. */
export interface Kind {
  typename: MachineFull["__typename"];
  title: string;
  noun: string;
  list: "/compute" | "/warehouses";
  page: "/compute/$machineId" | "/warehouses/$machineId";
  /** Path of the same in REST. */
  rest: string;
  /** What the kind calls a machine's flavor. */
  flavorWord: string;
  slotsLabel: string;
  /** The fields that change only while it is stopped. */
  locked: string;
  description: string;
  /** What its slots run. */
  work: string;
  /** The effect of a stop on running work of unknown amount. */
  stopEffect: string;
  /** What happens to that work afterwards. */
  stopAfter: string;
  deleteEffect: string;
  documents: {
    list: TypedDocumentString<{ machines: MachinesPage }, { first: number; after?: string | null }>;
    detail: TypedDocumentString<{ machine: MachineFull | null }, ById>;
    log: TypedDocumentString<{ machine: { log: string } | null }, { id: string; bytes: number }>;
    /** toCreate and toUpdate build the kind's input. */
    create: TypedDocumentString<Changed, { input: never }>;
    update: TypedDocumentString<Changed, { input: never }>;
    start: TypedDocumentString<Changed, ById>;
    stop: TypedDocumentString<Changed, ById>;
    delete: TypedDocumentString<unknown, ById>;
  };
}

export const compute: Kind = {
  typename: "Compute",
  title: "Compute",
  noun: "compute instance",
  list: "/compute",
  page: "/compute/$machineId",
  rest: "/api/v1/compute",
  flavorWord: "Flavor",
  slotsLabel: "Tasks at once",
  locked: "Flavor, image and slots",
  description:
    "Machines that run the tasks of jobs. Each starts when a task needs it, and stops when it is idle.",
  work: "task",
  stopEffect: "Tasks that run on it are cancelled first.",
  stopAfter:
    "Tasks with retries left are retried: on the workspace's agent if their job allows it, else when it is started again.",
  deleteEffect:
    "Its log and its measurements are deleted too. Tasks that wait for it fail. Jobs that name it fail until they name another, unless they may run on the workspace's agent.",
  documents: {
    list: ComputeListDocument,
    detail: ComputeDetailDocument,
    log: ComputeLogDocument,
    create: CreateComputeDocument,
    update: UpdateComputeDocument,
    start: StartComputeDocument,
    stop: StopComputeDocument,
    delete: DeleteComputeDocument,
  },
};

export const warehouse: Kind = {
  typename: "Warehouse",
  title: "Warehouses",
  noun: "warehouse",
  list: "/warehouses",
  page: "/warehouses/$machineId",
  rest: "/api/v1/sql/warehouses",
  flavorWord: "Size",
  slotsLabel: "Statements at once",
  locked: "Size, write engine, image and slots",
  description: "Machines that run SQL and nothing else. Each stops by itself when it is idle.",
  work: "statement",
  stopEffect: "Running statements are cancelled first.",
  stopAfter: "",
  deleteEffect: "Its log and its measurements are deleted too. Tables stay in the storage.",
  documents: {
    list: WarehousesListDocument,
    detail: WarehouseDetailDocument,
    log: WarehouseLogDocument,
    create: CreateWarehouseDocument,
    update: UpdateWarehouseDocument,
    start: StartWarehouseDocument,
    stop: StopWarehouseDocument,
    delete: DeleteWarehouseDocument,
  },
};

export const kindOf = (m: Pick<MachineRow, "__typename">): Kind =>
  m.__typename === "Compute" ? compute : warehouse;
