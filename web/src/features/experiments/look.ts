import { z } from "zod";
import { flag } from "@/lib/search";

export const xAxes = ["step", "time", "relative"] as const;
export type XAxis = (typeof xAxes)[number];

/** How charts of metrics are drawn. */
export interface Look {
  x: XAxis;
  log: boolean;
  /** 0 for none, below 1. */
  smoothing: number;
}

/** The look of charts in an address. */
export const lookSearch = {
  x: z.enum(xAxes).optional().catch(undefined),
  log: flag,
  smooth: z.coerce.number().min(0).max(0.99).optional().catch(undefined),
};

export interface LookPlace {
  x?: Look["x"] | undefined;
  log?: boolean | undefined;
  smooth?: number | undefined;
}

export const lookOf = (p: LookPlace): Look => ({
  x: p.x ?? "step",
  log: p.log ?? false,
  smoothing: p.smooth ?? 0,
});

/** A look as in an address, where defaults are absent. */
export const placeOf = (l: Look): LookPlace => ({
  x: l.x === "step" ? undefined : l.x,
  log: l.log || undefined,
  smooth: l.smoothing || undefined,
});
