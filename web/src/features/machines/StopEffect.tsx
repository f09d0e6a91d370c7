import { useQuery } from "@tanstack/react-query";
import type { MachineRow } from "@/lib/machine";
import { kindOf } from "./kinds";
import { machineQuery } from "./queries";
import { stopText } from "./stop";

/** The effect of a stop on the machine's current work. */
export function StopEffect({ machine: m }: { machine: MachineRow }) {
  const kind = kindOf(m);
  const busy = useQuery(machineQuery(kind, m.id)).data?.machine?.agent?.busy ?? 0;
  return stopText(kind, busy);
}
