import { useSyncExternalStore } from "react";

let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(f: () => void) {
  if (!timer) now = Date.now();
  listeners.add(f);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const l of listeners) l();
  }, 1000);
  return () => {
    listeners.delete(f);
    if (listeners.size) return;
    clearInterval(timer);
    timer = undefined;
  };
}
const never = () => () => {};

/** The current time, updated every second for all components while `ticking`. */
export function useNow(ticking = true): number {
  return useSyncExternalStore(ticking ? subscribe : never, () => {
    if (!timer && Date.now() - now > 1000) now = Date.now();
    return now;
  });
}
