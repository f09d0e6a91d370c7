import "./grid.css";
import { VisuallyHidden } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { copyText } from "@/lib/clipboard";
import { formatCount } from "@/lib/format";
import { done, failed } from "@/lib/notify";
import { isNumeric, type ResultSource } from "@/lib/result";
import { rangeOf, rangeText, type Selection, sortedRows, type TextFormat } from "@/lib/table";
import { CellDetail } from "./CellDetail";
import { GridHead, type Sort } from "./GridHead";
import { GridTools } from "./GridTools";
import { firstWidth, narrowest, widest } from "./gridWidths";
import { gridRow, useGridScroll } from "./useGridScroll";

/** More rows than this are for a download. */
const copyAtMost = 200_000;
/** Sorting more rows would be noticeable. */
export const sortAtMost = 500_000;
const shownCharacters = 400;

const origin: Selection = { row: 0, column: 0, toRow: 0, toColumn: 0 };

/** The rows of a result. Only the visible ones are loaded and drawn. Key it by the result. */
export function ResultGrid({
  source,
  label,
  tools,
}: {
  source: ResultSource;
  label: string;
  /** Beside the search. */
  tools?: ReactNode;
}) {
  const version = useSyncExternalStore(source.subscribe, source.version);
  const id = useId();
  const n = source.rowCount;
  const columns = source.columns;
  const scroll = useGridScroll(n);
  const [selection, setSelection] = useState(origin);
  const [sort, setSort] = useState<Sort | null>(null);
  const [detail, setDetail] = useState(false);
  const [sized, setSized] = useState<ReadonlyMap<number, number>>(new Map());
  const dragging = useRef(false);

  const sortable = source.whole && n <= sortAtMost;
  const order = useMemo(() => {
    if (!sort || !sortable) return null;
    const numeric = isNumeric(columns[sort.column]?.type ?? "");
    return sortedRows((r) => source.cell(r, sort.column), n, numeric, sort.descending);
  }, [source, sort, sortable, columns, n]);
  const real = (row: number) => order?.[row] ?? row;
  const values = {
    columns,
    cell: (r: number, c: number) => source.cell(real(r), c),
    json: (r: number, c: number) => source.json(real(r), c),
  };

  const { first, end } = scroll;
  useEffect(() => {
    if (!order) source.want(first, end);
  }, [source, first, end, order]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: again when the first rows have come
  const widths = useMemo(
    () => columns.map((_, c) => sized.get(c) ?? firstWidth(source, c)),
    [source, columns, sized, source.cell(0, 0) === undefined],
  );
  const gutter = 20 + 8 * Math.max(2, formatCount(n).length);
  const across = useVirtualizer({
    horizontal: true,
    count: columns.length,
    getScrollElement: () => scroll.box.current,
    estimateSize: (i) => widths[i] ?? 120,
    paddingStart: gutter,
    scrollPaddingStart: gutter,
    overscan: 3,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: when widths change, places have to be reckoned again
  useEffect(() => across.measure(), [widths, gutter]);

  const go = (row: number, column: number, extend: boolean) => {
    const r = Math.max(0, Math.min(n - 1, row));
    const c = Math.max(0, Math.min(columns.length - 1, column));
    setSelection(
      extend ? { ...selection, toRow: r, toColumn: c } : { row: r, column: c, toRow: r, toColumn: c },
    );
    scroll.show(r);
    across.scrollToIndex(c);
  };
  const resize = (column: number, width: number) =>
    setSized(new Map(sized).set(column, Math.max(narrowest, Math.min(widest, width))));
  const sortBy = (column: number) => {
    if (!sortable) return;
    setSort((s) => {
      if (s?.column !== column) return { column, descending: false };
      return s.descending ? null : { column, descending: true };
    });
  };

  const range = rangeOf(selection);
  const rows = range.bottom - range.top + 1;
  const one = rows === 1 && range.left === range.right;
  const copy = async (f: TextFormat) => {
    if (rows > copyAtMost)
      return failed(
        "That is too much to copy",
        `Copy ${formatCount(copyAtMost)} rows at most, or download the result.`,
      );
    try {
      if (!order) await source.need(range.top, range.bottom + 1);
      await copyText(
        one && f === "tsv" ? (values.cell(range.top, range.left) ?? "") : rangeText(values, range, f, !one),
      );
      done(one ? "Copied the value." : `Copied ${formatCount(rows)} ${rows === 1 ? "row" : "rows"}.`);
    } catch (e) {
      failed("Nothing was copied", e);
    }
  };

  const moves: Readonly<Record<string, [number, number]>> = {
    ArrowDown: [1, 0],
    ArrowUp: [-1, 0],
    ArrowRight: [0, 1],
    ArrowLeft: [0, -1],
    PageDown: [scroll.perPage, 0],
    PageUp: [-scroll.perPage, 0],
    Home: [0, -columns.length],
    End: [0, columns.length],
  };
  /** A key's action; undefined for keys that the grid does not use. */
  const actionOf = (e: KeyboardEvent): (() => void) | undefined => {
    const mod = e.ctrlKey || e.metaKey;
    const { toRow, toColumn } = selection;
    if (mod && e.key === "c") return () => void copy("tsv");
    if (mod && e.key === "a")
      return () => setSelection({ row: 0, column: 0, toRow: n - 1, toColumn: columns.length - 1 });
    if (e.key === "Enter") return () => setDetail(true);
    if (e.key === "s" && !mod) return () => sortBy(toColumn);
    const move = moves[e.key];
    if (!move) return undefined;
    const [down, right] = move;
    if (e.altKey && e.shiftKey && right)
      return () => resize(toColumn, (widths[toColumn] ?? 120) + 16 * Math.sign(right));
    if (mod && e.key === "Home") return () => go(0, 0, e.shiftKey);
    if (mod && e.key === "End") return () => go(n - 1, columns.length - 1, e.shiftKey);
    return () => go(mod && down ? (down > 0 ? n - 1 : 0) : toRow + down, toColumn + right, e.shiftKey);
  };
  const onKey = (e: KeyboardEvent) => {
    const act = actionOf(e);
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    act();
  };
  const pick = (e: MouseEvent, row: number, column: number) => {
    if (e.button !== 0) return;
    dragging.current = true;
    setSelection(
      e.shiftKey
        ? { ...selection, toRow: row, toColumn: column }
        : { row, column, toRow: row, toColumn: column },
    );
  };
  const drag = (e: MouseEvent, row: number, column: number) => {
    if (dragging.current && e.buttons === 1) setSelection({ ...selection, toRow: row, toColumn: column });
  };

  const width = across.getTotalSize();
  const shown = across.getVirtualItems();
  const active =
    selection.toRow >= first && selection.toRow < end
      ? `${id}-${selection.toRow}-${selection.toColumn}`
      : undefined;
  const lines = [];
  for (let r = first; r < end; r++) {
    lines.push(
      <div role="row" aria-rowindex={r + 2} key={r} className="grid-row" style={{ width }}>
        <div role="rowheader" className="grid-number" style={{ width: gutter }}>
          {formatCount(r + 1)}
        </div>
        {shown.map((c) => {
          const v = values.cell(r, c.index);
          const on = r >= range.top && r <= range.bottom && c.index >= range.left && c.index <= range.right;
          return (
            <div
              role="gridcell"
              id={`${id}-${r}-${c.index}`}
              aria-colindex={c.index + 2}
              aria-selected={on}
              key={c.key}
              className="grid-cell"
              data-active={(r === selection.toRow && c.index === selection.toColumn) || undefined}
              data-null={v === null || undefined}
              data-waiting={v === undefined || undefined}
              data-number={isNumeric(columns[c.index]?.type ?? "") || undefined}
              style={{ left: c.start, width: c.size }}
              onMouseDown={(e) => pick(e, r, c.index)}
              onMouseEnter={(e) => drag(e, r, c.index)}
              onDoubleClick={() => setDetail(true)}
            >
              {v === null ? "NULL" : v === undefined ? "" : v.slice(0, shownCharacters)}
            </div>
          );
        })}
      </div>,
    );
  }
  return (
    <div className="grid">
      <GridTools
        source={source}
        order={order}
        selection={selection}
        version={version}
        onFound={(p) => go(p.row, p.column, false)}
        onCopy={(f) => void copy(f)}
        onDone={() => scroll.box.current?.focus()}
      >
        {tools}
      </GridTools>
      <VisuallyHidden id={`${id}-keys`}>
        Arrow keys move, with Shift they select. Enter shows the whole value, S sorts by the column, Ctrl and
        C copies, Alt, Shift and an arrow make the column wider or narrower.
      </VisuallyHidden>
      <div
        ref={scroll.box}
        role="grid"
        aria-label={label}
        aria-describedby={`${id}-keys`}
        aria-rowcount={n + 1}
        aria-colcount={columns.length + 1}
        aria-activedescendant={active}
        aria-multiselectable
        tabIndex={0}
        className="grid-box"
        onKeyDown={onKey}
        onMouseUp={() => {
          dragging.current = false;
        }}
        onScroll={scroll.onScroll}
      >
        <div style={{ height: scroll.pixels + gridRow, width, position: "relative" }} role="presentation">
          <GridHead
            columns={columns}
            shown={shown}
            width={width}
            gutter={gutter}
            sort={order ? sort : null}
            sortable={sortable}
            onSort={sortBy}
            onResize={resize}
            onFit={(c) => resize(c, firstWidth(source, c, first, widest))}
          />
          <div
            className="grid-view"
            role="rowgroup"
            style={{ height: Math.min(scroll.body, scroll.pixels), width }}
          >
            <div role="presentation" style={{ transform: `translateY(${scroll.shift}px)` }}>
              {lines}
            </div>
          </div>
        </div>
      </div>
      <CellDetail
        opened={detail && n > 0}
        onClose={() => {
          setDetail(false);
          scroll.box.current?.focus();
        }}
        column={columns[selection.toColumn]}
        row={selection.toRow}
        value={values.cell(selection.toRow, selection.toColumn)}
      />
    </div>
  );
}
