import { z } from "zod";

/** Readable URLs: ?status=FAILED&status=RUNNING instead of JSON in the query string. */
export const parseSearch = (s: string): Record<string, unknown> => {
  const o: Record<string, unknown> = {};
  for (const [k, v] of new URLSearchParams(s)) o[k] = k in o ? [o[k], v].flat() : v;
  return o;
};

export const stringifySearch = (o: Record<string, unknown>): string => {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(o))
    for (const x of Array.isArray(v) ? v : [v])
      if (x !== undefined && x !== null && x !== "") p.append(k, String(x));
  const s = p.toString();
  return s ? `?${s}` : "";
};

const list = (textOf: (v: unknown) => string) =>
  z
    .preprocess(
      (v) => (v === undefined ? undefined : [v].flat().map(textOf)),
      z
        .array(z.string())
        .transform((a) => [...new Set(a)].filter(Boolean))
        .transform((a) => (a.length ? a : undefined))
        .optional(),
    )
    .catch(undefined);

/**
 * The choices in an address, each once, in upper case as in the API. Unknown ones stay, so that a
 * page can report them.
 */
export const choices = list((v) => String(v).trim().toUpperCase());

/** The texts in an address, each once. */
export const texts = list(String);

/** Splits choices into known and unknown ones. */
export function split<T extends string>(chosen: readonly string[] | undefined, all: readonly T[]) {
  const there = (s: string): s is T => (all as readonly string[]).includes(s);
  const known = chosen?.filter(there);
  return { known: known?.length ? known : undefined, unknown: chosen?.filter((s) => !there(s)) ?? [] };
}

/** A whole number from 1. */
export const count = z.coerce.number().int().min(1).optional().catch(undefined);

/** Text; empty is absent. */
export const text = z
  .preprocess((v) => (v === "" || v === undefined ? undefined : String([v].flat()[0])), z.string().optional())
  .catch(undefined);

/** True, or absent. */
export const flag = z
  .preprocess((v) => (v === true || v === "true" ? true : undefined), z.boolean().optional())
  .catch(undefined);
