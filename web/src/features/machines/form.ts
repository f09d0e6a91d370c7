import type {
  CreateComputeInput,
  CreateWarehouseInput,
  UpdateComputeInput,
  UpdateWarehouseInput,
} from "@/gql/gen";
import type { RequestError } from "@/lib/graphql";
import { type Flavor, flavorOf, type MachineRow } from "@/lib/machine";
import type { Kind, MachineFull } from "./kinds";

/** A machine in its form. */
export interface MachineModel {
  name: string;
  flavor: string;
  autoStop: string;
  /** Empty for the provider's default. */
  image: string;
  /** Empty for four per core. */
  slots: number | string;
  /** For a warehouse: duckdb or trino; auto lets the platform choose. */
  writeEngine: string;
  /** Number of Trino's nodes. */
  nodes: number | string;
  trinoStart: string;
}

const oneNode = { nodes: 1, trinoStart: "first_write" };

export const emptyMachine: MachineModel = {
  name: "",
  flavor: "",
  autoStop: "1h",
  image: "",
  slots: "",
  writeEngine: "auto",
  ...oneNode,
};

export const modelOf = (m: MachineFull): MachineModel => ({
  name: m.name,
  flavor: flavorOf(m as MachineRow),
  autoStop: m.autoStop,
  image: m.image ?? "",
  slots: m.slots || "",
  ...(m.__typename === "Warehouse"
    ? { writeEngine: m.writeEngine, nodes: m.nodes, trinoStart: m.trinoStart }
    : { writeEngine: "auto", ...oneNode }),
});

/** Without Trino, its nodes and start have their defaults. */
const withDefaults = (v: MachineModel): MachineModel =>
  v.writeEngine === "trino" ? v : { ...v, ...oneNode };

const whole = (n: number | string, least: number, most = Number.POSITIVE_INFINITY) =>
  n !== "" && Number.isInteger(Number(n)) && Number(n) >= least && Number(n) <= most;

/** Errors of a machine by field. The server has the last word. */
export function validateMachine(v: MachineModel): Partial<Record<keyof MachineModel, string>> {
  return {
    ...(v.name.trim() ? {} : { name: "Give it a name." }),
    ...(v.flavor ? {} : { flavor: "Choose how large it is." }),
    ...(v.slots === "" || whole(v.slots, 1) ? {} : { slots: "A whole number from 1, or nothing." }),
    ...(whole(withDefaults(v).nodes, 1, 16) ? {} : { nodes: "A whole number from 1 to 16." }),
  };
}

/** Whether a machine of the flavor must wait for room. A running machine already holds its own. */
export const lacksRoom = (f: Pick<Flavor, "name" | "available">, held: string | undefined) =>
  !f.available && f.name !== held;

/** The flavor under the kind's field name. */
const sized = (k: Kind, flavor: string) => (k.typename === "Compute" ? { flavor } : { size: flavor });

/** Input of the kind's create mutation. */
export function toCreate(k: Kind, v: MachineModel): never {
  const input: CreateComputeInput | CreateWarehouseInput = {
    name: v.name.trim(),
    autoStop: v.autoStop,
    ...sized(k, v.flavor),
    ...(v.image.trim() ? { image: v.image.trim() } : {}),
    ...(v.slots === "" ? {} : { slots: Number(v.slots) }),
    ...(k.typename === "Compute" || v.writeEngine === "auto" ? {} : { writeEngine: v.writeEngine }),
    ...(k.typename === "Compute" || v.writeEngine !== "trino"
      ? {}
      : { nodes: Number(v.nodes), trinoStart: v.trinoStart }),
  };
  return input as never;
}

/** Input with the changed fields only. Omitted fields stay as they are, also if locked. */
export function toUpdate(k: Kind, id: string, was: MachineModel, wanted: MachineModel): never {
  const v = withDefaults(wanted);
  const differs = (f: keyof MachineModel) => String(v[f]).trim() !== String(was[f]).trim();
  const input: UpdateComputeInput | UpdateWarehouseInput = {
    id,
    ...(differs("name") ? { name: v.name.trim() } : {}),
    ...(differs("autoStop") ? { autoStop: v.autoStop } : {}),
    ...(differs("flavor") ? sized(k, v.flavor) : {}),
    ...(differs("image") ? { image: v.image.trim() } : {}),
    ...(differs("slots") ? { slots: Number(v.slots) || 0 } : {}),
    ...(differs("writeEngine") ? { writeEngine: v.writeEngine } : {}),
    ...(differs("nodes") ? { nodes: Number(v.nodes) } : {}),
    ...(differs("trinoStart") ? { trinoStart: v.trinoStart } : {}),
  };
  return input as never;
}

const fields: Readonly<Record<string, keyof MachineModel>> = {
  name: "name",
  flavor: "flavor",
  size: "flavor",
  auto_stop: "autoStop",
  autoStop: "autoStop",
  image: "image",
  slots: "slots",
  write_engine: "writeEngine",
  writeEngine: "writeEngine",
  nodes: "nodes",
  trino_start: "trinoStart",
  trinoStart: "trinoStart",
};

/** The form's field that an error names. A duplicate name is a conflict without a field. */
export function fieldOf(e: RequestError): keyof MachineModel | undefined {
  if (e.code === "CONFLICT" && !e.field && /named/.test(e.message)) return "name";
  return e.field ? fields[e.field] : undefined;
}
