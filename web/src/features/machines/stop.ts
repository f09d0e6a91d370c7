import { plural } from "@/lib/format";
import type { Kind } from "./kinds";

/** What a stop of a machine does while so many of its slots are in use. */
export function stopText(kind: Pick<Kind, "work" | "stopEffect" | "stopAfter">, busy: number): string {
  const now =
    busy > 0
      ? `${plural(busy, kind.work)} ${busy === 1 ? "runs" : "run"} on it and will be cancelled first.`
      : kind.stopEffect;
  return [now, kind.stopAfter].filter(Boolean).join(" ");
}
