import { useEffect, useEffectEvent } from "react";
import type { RunRowFragment } from "@/gql/gen";

const listeners = new Set<(r: RunRowFragment) => void>();

/** Notifies listeners of a new or changed run. */
export function announceRun(r: RunRowFragment) {
  for (const l of listeners) l(r);
}

/** Calls f for every run that is new or changes while the component is mounted. */
export function useRunEvents(f: (r: RunRowFragment) => void) {
  const on = useEffectEvent(f);
  useEffect(() => {
    const l = (r: RunRowFragment) => on(r);
    listeners.add(l);
    return () => {
      listeners.delete(l);
    };
  }, []);
}
