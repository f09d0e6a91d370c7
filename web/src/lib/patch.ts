import type { QueryClient } from "@tanstack/react-query";

export type Entity = { readonly __typename: string; readonly id: string };

/** v with the scalar fields of e wherever e occurs in it; parts without e keep their identity. */
export function patchValue<T>(v: T, e: Entity): T {
  if (Array.isArray(v)) return patchArray(v, e) as T;
  if (v === null || typeof v !== "object") return v;
  return patchObject(v as Record<string, unknown>, e) as T;
}

function patchArray(v: readonly unknown[], e: Entity): readonly unknown[] {
  let out: unknown[] | undefined;
  v.forEach((old, i) => {
    const next = patchValue(old, e);
    if (next === old) return;
    out ??= v.slice();
    out[i] = next;
  });
  return out ?? v;
}

function patchObject(o: Record<string, unknown>, e: Entity): Record<string, unknown> {
  let out: Record<string, unknown> | undefined;
  const set = (k: string, v: unknown) => {
    out ??= { ...o };
    out[k] = v;
  };
  for (const k in o) {
    const next = patchValue(o[k], e);
    if (next !== o[k]) set(k, next);
  }
  if (o.id !== e.id || o.__typename !== e.__typename) return out ?? o;
  for (const [k, v] of Object.entries(e)) {
    const scalar = v === null || typeof v !== "object";
    if (scalar && k in o && !Object.is(o[k], v)) set(k, v);
  }
  return out ?? o;
}

/** Writes the scalar fields of one entity into every cached answer that shows it. */
export function patchEntity(qc: QueryClient, e: Entity) {
  for (const q of qc.getQueryCache().getAll()) {
    const old = q.state.data;
    if (old === undefined) continue;
    const next = patchValue(old, e);
    if (next !== old) qc.setQueryData(q.queryKey, next, { updatedAt: q.state.dataUpdatedAt });
  }
}
