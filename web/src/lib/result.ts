import { isCode } from "./graphql";
import type { RawRows } from "./rows";

export interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** Loads piece n of a result. */
export type LoadPiece = (n: number, signal: AbortSignal) => Promise<RawRows>;

/** How much of a result is held at once, in characters; of what is more, that looked at longest ago goes. */
const holds = 160_000_000;
/** A piece that is announced and not there yet is asked for again so often, so many milliseconds apart. */
const patience = 5;
const pauseMs = 1_000;

interface Loading {
  done: Promise<void>;
  stop: AbortController;
  /** Somebody waits for it: it goes on though it is out of sight. */
  needed: boolean;
}

const aborted = (signal: AbortSignal | undefined) => signal?.aborted === true;

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });

/**
 * The result of a statement, of which only the pieces in sight are loaded. It grows while the statement runs.
 * For useSyncExternalStore: `subscribe` and `version`.
 */
export class ResultSource {
  private ends: number[] = [];
  private readonly held = new Map<number, RawRows>();
  private readonly loading = new Map<number, Loading>();
  private readonly listeners = new Set<() => void>();
  private changes = 0;
  /** Why the piece that was asked for last is not there. */
  failure: { piece: number; error: unknown } | null = null;

  constructor(
    readonly columns: readonly ResultColumn[],
    private readonly load: LoadPiece,
    pieces: readonly number[] = [],
  ) {
    this.grow(pieces);
  }

  readonly subscribe = (f: () => void) => {
    this.listeners.add(f);
    return () => {
      this.listeners.delete(f);
    };
  };
  readonly version = () => this.changes;
  private changed() {
    this.changes++;
    for (const f of this.listeners) f();
  }

  /** Rows of the pieces that there are. */
  get rowCount(): number {
    return this.ends.at(-1) ?? 0;
  }
  get pieces(): number {
    return this.ends.length;
  }
  /** Whether all of it is held. */
  get whole(): boolean {
    return this.held.size === this.ends.length;
  }

  /** Says how many rows each piece has; those that were there before stay as they are. */
  grow(pieces: readonly number[]) {
    if (pieces.length <= this.ends.length) return;
    let end = this.rowCount;
    for (const rows of pieces.slice(this.ends.length)) {
      end += rows;
      this.ends.push(end);
    }
    this.changed();
  }

  private startOf = (piece: number) => (piece === 0 ? 0 : (this.ends[piece - 1] ?? 0));

  private pieceOf(row: number): number {
    let low = 0;
    let high = this.ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.ends[middle] ?? 0) <= row) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The row's piece and its place in it; undefined while it is not held. */
  private at(row: number): { rows: RawRows; row: number } | undefined {
    const piece = this.pieceOf(row);
    const rows = this.held.get(piece);
    return rows && { rows, row: row - this.startOf(piece) };
  }

  /** A value as a person reads it; null for NULL, undefined while it is not here. */
  cell(row: number, column: number): string | null | undefined {
    const p = this.at(row);
    return p?.rows.cell(p.row, column);
  }

  /** A value as JSON; undefined while it is not here. */
  json(row: number, column: number): string | undefined {
    const p = this.at(row);
    return p?.rows.json(p.row, column);
  }

  /** A row as JSON, for a quick look; undefined while it is not here. */
  source(row: number): string | undefined {
    const p = this.at(row);
    return p?.rows.source(p.row);
  }

  /** Has the pieces of these rows loaded, and gives up those on their way that nobody looks at any more. */
  want(first: number, end: number) {
    if (this.ends.length === 0 || end <= first) return;
    const from = this.pieceOf(first);
    const to = Math.min(this.pieceOf(end - 1), this.ends.length - 1);
    for (const [piece, l] of this.loading) if (!l.needed && (piece < from || piece > to)) l.stop.abort();
    for (let piece = from; piece <= to; piece++) {
      if (this.failure?.piece === piece) continue;
      void this.fetch(piece);
    }
  }

  /** Has the pieces of these rows loaded and waits for them. Throws what failed, or the signal's reason. */
  async need(first: number, end: number, signal?: AbortSignal): Promise<void> {
    if (end <= first) return;
    for (let piece = this.pieceOf(first); piece <= this.pieceOf(end - 1) && piece < this.pieces; piece++)
      await this.needPiece(piece, signal);
  }

  private async needPiece(piece: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.failure?.piece === piece) this.failure = null;
    const l = this.fetch(piece);
    if (!l) return;
    l.needed = true;
    await l.done;
    signal?.throwIfAborted();
    if (this.held.has(piece)) return;
    throw this.failure?.error ?? new Error("That part of the result could not be loaded.");
  }

  /** Each piece in turn, loaded when its turn comes. */
  async *eachPiece(signal: AbortSignal): AsyncGenerator<{ rows: RawRows; first: number }> {
    for (let piece = 0; piece < this.ends.length; piece++) {
      await this.needPiece(piece, signal);
      const rows = this.held.get(piece);
      if (rows) yield { rows, first: this.startOf(piece) };
    }
  }

  /** Asks again for what failed. */
  retry() {
    const failed = this.failure;
    this.failure = null;
    this.changed();
    if (failed) void this.fetch(failed.piece);
  }

  private fetch(piece: number): Loading | undefined {
    const held = this.held.get(piece);
    if (held) {
      // The one used last stands last.
      this.held.delete(piece);
      this.held.set(piece, held);
      return undefined;
    }
    const under = this.loading.get(piece);
    if (under && !aborted(under.stop.signal)) return under;
    const stop = new AbortController();
    const l: Loading = { stop, needed: false, done: this.take(piece, stop.signal) };
    this.loading.set(piece, l);
    void l.done.finally(() => {
      if (this.loading.get(piece) === l) this.loading.delete(piece);
    });
    return l;
  }

  private async take(piece: number, signal: AbortSignal): Promise<void> {
    try {
      const rows = await this.ask(piece, signal);
      if (aborted(signal)) return;
      this.held.set(piece, rows);
      this.makeRoom(piece);
      this.changed();
    } catch (error) {
      if (aborted(signal)) return;
      this.failure = { piece, error };
      this.changed();
    }
  }

  private async ask(piece: number, signal: AbortSignal): Promise<RawRows> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.load(piece, signal);
      } catch (error) {
        if (tries === patience || !isCode(error, "UNAVAILABLE")) throw error;
        await pause(pauseMs, signal);
        signal.throwIfAborted();
      }
    }
  }

  private makeRoom(keep: number) {
    let size = 0;
    for (const rows of this.held.values()) size += rows.size;
    for (const [piece, rows] of this.held) {
      if (size <= holds) return;
      if (piece === keep) continue;
      this.held.delete(piece);
      size -= rows.size;
    }
  }

  /** Gives up what is on its way. */
  stop() {
    for (const l of this.loading.values()) l.stop.abort();
  }
}

const numeric = /^(int|long|float|double|decimal)/;
export const isNumeric = (type: string) => numeric.test(type);
const temporal = /^(date|time|timestamp)/;
export const isTemporal = (type: string) => temporal.test(type);
export const isNested = (type: string) => /^(struct|list|map)/.test(type);
