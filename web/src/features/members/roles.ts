import { Role } from "@/gql/gen";

export const roleOptions = Object.values(Role).map((value) => ({ value, label: value.toLowerCase() }));
