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

/** A repeated parameter. One that is not understood is as good as absent: a URL never breaks a page. */
export const list = <T extends z.ZodType>(item: T) =>
  z.preprocess((v) => (v === undefined ? undefined : [v].flat()), z.array(item).optional()).catch(undefined);

/** A whole number from 1. */
export const count = z.coerce.number().int().min(1).optional().catch(undefined);

/** Text; empty is absent. */
export const text = z
  .preprocess((v) => (v === "" || v === undefined ? undefined : String([v].flat()[0])), z.string().optional())
  .catch(undefined);
