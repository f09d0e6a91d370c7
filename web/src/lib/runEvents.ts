import { useEffect, useEffectEvent } from "react";
import type { RunRowFragment } from "@/gql/gen";

const listeners = new Set<(r: RunRowFragment) => void>();

/** Tells whoever listens that a run is new or has changed. */
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
