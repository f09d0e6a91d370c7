import { plural } from "@/lib/format";
import type { Kind } from "./kinds";

/** The effect of a stop of a machine with so many slots in use. */
export function stopText(kind: Pick<Kind, "work" | "stopEffect" | "stopAfter">, busy: number): string {
  const now =
    busy > 0
      ? `${plural(busy, kind.work)} ${busy === 1 ? "runs" : "run"} on it and will be cancelled first.`
      : kind.stopEffect;
  return [now, kind.stopAfter].filter(Boolean).join(" ");
}
