import { isCode } from "./graphql";
import type { RawRows } from "./rows";

export interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** Loads piece n of a result. */
export type LoadPiece = (n: number, signal: AbortSignal) => Promise<RawRows>;

/** Characters of a result in memory. Beyond that, the least recently used pieces are dropped. */
const holds = 160_000_000;
/** Number of retries of an announced piece that is missing, and their pause in milliseconds. */
const maxRetries = 5;
const pauseMs = 1_000;

interface Loading {
  done: Promise<void>;
  stop: AbortController;
  /** Somebody waits for it, so it loads even out of sight. */
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
 * The result of a statement. Only the visible pieces are loaded. It grows while the statement runs.
 * For useSyncExternalStore: `subscribe` and `version`.
 */
export class ResultSource {
  private ends: number[] = [];
  private readonly held = new Map<number, RawRows>();
  private readonly loading = new Map<number, Loading>();
  private readonly listeners = new Set<() => void>();
  private changes = 0;
  /** Why the last requested piece is missing. */
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

  /** Rows of all known pieces. */
  get rowCount(): number {
    return this.ends.at(-1) ?? 0;
  }
  get pieces(): number {
    return this.ends.length;
  }
  /** Whether the whole result is in memory. */
  get whole(): boolean {
    return this.held.size === this.ends.length;
  }

  /** Sets the row counts of all pieces; known pieces stay as they are. */
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

  /** The row's piece and its place in it; undefined if it is not loaded. */
  private at(row: number): { rows: RawRows; row: number } | undefined {
    const piece = this.pieceOf(row);
    const rows = this.held.get(piece);
    return rows && { rows, row: row - this.startOf(piece) };
  }

  /** A value for display; null for NULL, undefined if it is not loaded. */
  cell(row: number, column: number): string | null | undefined {
    const p = this.at(row);
    return p?.rows.cell(p.row, column);
  }

  /** A value as JSON; undefined if it is not loaded. */
  json(row: number, column: number): string | undefined {
    const p = this.at(row);
    return p?.rows.json(p.row, column);
  }

  /** A row as JSON, for a quick check; undefined if it is not loaded. */
  source(row: number): string | undefined {
    const p = this.at(row);
    return p?.rows.source(p.row);
  }

  /** Loads the pieces of these rows, and aborts requests for pieces that are no longer visible. */
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

  /**
   * Loads the pieces of these rows and waits for them. Throws the failure, or the signal's reason.
   */
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

  /** All pieces in order, each loaded when it is reached. */
  async *eachPiece(signal: AbortSignal): AsyncGenerator<{ rows: RawRows; first: number }> {
    for (let piece = 0; piece < this.ends.length; piece++) {
      await this.needPiece(piece, signal);
      const rows = this.held.get(piece);
      if (rows) yield { rows, first: this.startOf(piece) };
    }
  }

  /** Retries the failed piece. */
  retry() {
    const failed = this.failure;
    this.failure = null;
    this.changed();
    if (failed) void this.fetch(failed.piece);
  }

  private fetch(piece: number): Loading | undefined {
    const held = this.held.get(piece);
    if (held) {
      // The most recently used piece is last.
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
        if (tries === maxRetries || !isCode(error, "UNAVAILABLE")) throw error;
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

  /** Aborts all requests. */
  stop() {
    for (const l of this.loading.values()) l.stop.abort();
  }
}

const numeric = /^(int|long|float|double|decimal)/;
export const isNumeric = (type: string) => numeric.test(type);
const temporal = /^(date|time|timestamp)/;
export const isTemporal = (type: string) => temporal.test(type);
export const isNested = (type: string) => /^(struct|list|map)/.test(type);
