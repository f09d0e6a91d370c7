import type { QueryClient } from "@tanstack/react-query";

export type Entity = { readonly __typename: string; readonly id: string };

/**
 * v with the scalar fields of e wherever e occurs in it, and with the fields in `whole`, which
 * every document selects alike. Parts without e keep their identity.
 */
export function patchValue<T>(v: T, e: Entity, whole: readonly string[] = []): T {
  if (Array.isArray(v)) return patchArray(v, e, whole) as T;
  if (v === null || typeof v !== "object") return v;
  return patchObject(v as Record<string, unknown>, e, whole) as T;
}

function patchArray(v: readonly unknown[], e: Entity, whole: readonly string[]): readonly unknown[] {
  let out: unknown[] | undefined;
  v.forEach((old, i) => {
    const next = patchValue(old, e, whole);
    if (next === old) return;
    out ??= v.slice();
    out[i] = next;
  });
  return out ?? v;
}

const same = (a: unknown, b: unknown) => Object.is(a, b) || JSON.stringify(a) === JSON.stringify(b);

function patchObject(
  o: Record<string, unknown>,
  e: Entity,
  whole: readonly string[],
): Record<string, unknown> {
  let out: Record<string, unknown> | undefined;
  const set = (k: string, v: unknown) => {
    out ??= { ...o };
    out[k] = v;
  };
  for (const k in o) {
    const next = patchValue(o[k], e, whole);
    if (next !== o[k]) set(k, next);
  }
  if (o.id !== e.id || o.__typename !== e.__typename) return out ?? o;
  for (const [k, v] of Object.entries(e)) {
    const scalar = v === null || typeof v !== "object";
    if ((scalar || whole.includes(k)) && k in o && !same(o[k], v)) set(k, v);
  }
  return out ?? o;
}

/**
 * Writes the scalar fields of one entity, and those in `whole`, into every cached answer that has
 * it.
 */
export function patchEntity(qc: QueryClient, e: Entity, whole: readonly string[] = []) {
  for (const q of qc.getQueryCache().getAll()) {
    const old = q.state.data;
    if (old === undefined) continue;
    const next = patchValue(old, e, whole);
    if (next !== old) qc.setQueryData(q.queryKey, next, { updatedAt: q.state.dataUpdatedAt });
  }
}
