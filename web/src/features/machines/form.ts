import type {
  CreateComputeInput,
  CreateWarehouseInput,
  UpdateComputeInput,
  UpdateWarehouseInput,
} from "@/gql/gen";
import type { RequestError } from "@/lib/graphql";
import { type Flavor, flavorOf, type MachineRow } from "@/lib/machine";
import type { Kind, MachineFull } from "./kinds";

/** A machine as its form has it. */
export interface MachineModel {
  name: string;
  flavor: string;
  autoStop: string;
  /** Empty for the provider's default. */
  image: string;
  /** Empty for four for each core. */
  slots: number | string;
}

export const emptyMachine: MachineModel = { name: "", flavor: "", autoStop: "1h", image: "", slots: "" };

export const modelOf = (m: MachineFull): MachineModel => ({
  name: m.name,
  flavor: flavorOf(m as MachineRow),
  autoStop: m.autoStop,
  image: m.image ?? "",
  slots: m.slots || "",
});

/** What keeps a machine from being saved, by field. The server has the last word. */
export function validateMachine(v: MachineModel): Partial<Record<keyof MachineModel, string>> {
  return {
    ...(v.name.trim() ? {} : { name: "Give it a name." }),
    ...(v.flavor ? {} : { flavor: "Choose how large it is." }),
    ...(v.slots === "" || (Number.isInteger(Number(v.slots)) && Number(v.slots) > 0)
      ? {}
      : { slots: "A whole number from 1, or nothing." }),
  };
}

/** Whether a machine of the flavor would have to wait for room. What a machine holds while it runs is its own. */
export const lacksRoom = (f: Pick<Flavor, "name" | "available">, held: string | undefined) =>
  !f.available && f.name !== held;

/** The flavor under the name that the kind has for it. */
const sized = (k: Kind, flavor: string) => (k.typename === "Compute" ? { flavor } : { size: flavor });

/** Input of the kind's own create, which takes no other. */
export function toCreate(k: Kind, v: MachineModel): never {
  const input: CreateComputeInput | CreateWarehouseInput = {
    name: v.name.trim(),
    autoStop: v.autoStop,
    ...sized(k, v.flavor),
    ...(v.image.trim() ? { image: v.image.trim() } : {}),
    ...(v.slots === "" ? {} : { slots: Number(v.slots) }),
  };
  return input as never;
}

/** Input with what is changed, and nothing else: what is not said stays, also where it is locked. */
export function toUpdate(k: Kind, id: string, was: MachineModel, v: MachineModel): never {
  const differs = (f: keyof MachineModel) => String(v[f]).trim() !== String(was[f]).trim();
  const input: UpdateComputeInput | UpdateWarehouseInput = {
    id,
    ...(differs("name") ? { name: v.name.trim() } : {}),
    ...(differs("autoStop") ? { autoStop: v.autoStop } : {}),
    ...(differs("flavor") ? sized(k, v.flavor) : {}),
    ...(differs("image") ? { image: v.image.trim() } : {}),
    ...(differs("slots") ? { slots: Number(v.slots) || 0 } : {}),
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
};

/** The field of the form that a refusal speaks of. A name that is taken is a conflict, without a field. */
export function fieldOf(e: RequestError): keyof MachineModel | undefined {
  if (e.code === "CONFLICT" && !e.field && /named/.test(e.message)) return "name";
  return e.field ? fields[e.field] : undefined;
}
