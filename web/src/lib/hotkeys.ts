import { useEffect, useEffectEvent } from "react";

export interface Shortcut {
  /** Keys in order, such as ["v"] or ["g", "r"]; names as in KeyboardEvent.key. */
  keys: readonly string[];
  label: string;
  run: () => void;
}
export interface ShortcutGroup {
  title: string;
  shortcuts: readonly Shortcut[];
}

const groups = new Map<symbol, ShortcutGroup>();
const listeners = new Set<() => void>();
let snapshot: readonly ShortcutGroup[] = [];
let pending = "";
let pendingAt = 0;

/** The active shortcuts, for useSyncExternalStore. */
export const shortcuts = {
  get: () => snapshot,
  subscribe: (f: () => void) => {
    listeners.add(f);
    return () => {
      listeners.delete(f);
    };
  },
};
function publish() {
  snapshot = [...groups.values()];
  for (const l of listeners) l();
}

/** Whether a key press goes into a text: shortcuts then stay off. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest(".cm-editor")) return true;
  return target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
}

const dialogOpen = () => document.querySelector('[role="dialog"][aria-modal="true"]') !== null;

function onKey(e: KeyboardEvent) {
  if (e.ctrlKey || e.metaKey || e.altKey || isTyping(e.target) || dialogOpen()) return;
  const sequence = pending && Date.now() - pendingAt < 1_000 ? `${pending} ${e.key}` : e.key;
  pending = "";
  const all = [...groups.values()].reverse().flatMap((g) => g.shortcuts);
  const hit = all.find((s) => s.keys.join(" ") === sequence) ?? all.find((s) => s.keys.join(" ") === e.key);
  if (hit) {
    e.preventDefault();
    hit.run();
    return;
  }
  if (!all.some((s) => s.keys[0] === e.key && s.keys.length > 1)) return;
  pending = e.key;
  pendingAt = Date.now();
}

/** Enables shortcuts and lists them under `?` while the component is mounted. */
export function useShortcuts(title: string, list: readonly Shortcut[]) {
  const run = useEffectEvent((keys: string) => list.find((s) => s.keys.join(" ") === keys)?.run());
  const shape = JSON.stringify(list.map((s) => [s.keys, s.label]));
  useEffect(() => {
    const id = Symbol(title);
    const entries = JSON.parse(shape) as [string[], string][];
    if (groups.size === 0) window.addEventListener("keydown", onKey);
    groups.set(id, {
      title,
      shortcuts: entries.map(([keys, label]) => ({ keys, label, run: () => run(keys.join(" ")) })),
    });
    publish();
    return () => {
      groups.delete(id);
      if (groups.size === 0) window.removeEventListener("keydown", onKey);
      publish();
    };
  }, [title, shape]);
}
