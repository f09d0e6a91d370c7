import { VisuallyHidden } from "@mantine/core";
import { IconSortAscending, IconSortDescending } from "@tabler/icons-react";
import type { VirtualItem } from "@tanstack/react-virtual";
import { type PointerEvent, useRef } from "react";
import type { ResultColumn } from "@/lib/result";
import { gridRow } from "./useGridScroll";

export interface Sort {
  column: number;
  descending: boolean;
}

/** Names and types of the columns: a click sorts, the edge resizes. */
export function GridHead({
  columns,
  shown,
  width,
  gutter,
  sort,
  sortable,
  onSort,
  onResize,
  onFit,
}: {
  columns: readonly ResultColumn[];
  shown: readonly VirtualItem[];
  width: number;
  gutter: number;
  sort: Sort | null;
  sortable: boolean;
  onSort: (column: number) => void;
  onResize: (column: number, width: number) => void;
  onFit: (column: number) => void;
}) {
  const hint = sortable ? "Sort by this column" : "Sorting works once the whole result is here; use ORDER BY";
  return (
    <div role="rowgroup" className="grid-head" style={{ width, height: gridRow }}>
      <div role="row" aria-rowindex={1} className="grid-row" style={{ width }}>
        <div role="columnheader" className="grid-number" style={{ width: gutter }}>
          <VisuallyHidden>Row</VisuallyHidden>
        </div>
        {shown.map((c) => {
          const column = columns[c.index];
          const sorted = sort?.column === c.index ? sort : null;
          return (
            <div
              role="columnheader"
              aria-colindex={c.index + 2}
              aria-sort={sorted ? (sorted.descending ? "descending" : "ascending") : undefined}
              key={c.key}
              className="grid-cell"
              style={{ left: c.start, width: c.size }}
            >
              <button
                type="button"
                tabIndex={-1}
                className="grid-name"
                title={`${column?.name}: ${column?.type}. ${hint}`}
                onClick={() => onSort(c.index)}
              >
                <span>{column?.name}</span>
                <small>{column?.type}</small>
                {sorted &&
                  (sorted.descending ? <IconSortDescending size={13} /> : <IconSortAscending size={13} />)}
              </button>
              <Edge width={c.size} onResize={(w) => onResize(c.index, w)} onFit={() => onFit(c.index)} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** The edge of a column. Dragging resizes it; a double click fits it to its content. */
function Edge({
  width,
  onResize,
  onFit,
}: {
  width: number;
  onResize: (width: number) => void;
  onFit: () => void;
}) {
  const from = useRef<{ x: number; width: number } | null>(null);
  const down = (e: PointerEvent<HTMLDivElement>) => {
    e.currentTarget.setPointerCapture(e.pointerId);
    from.current = { x: e.clientX, width };
  };
  const move = (e: PointerEvent<HTMLDivElement>) => {
    if (from.current) onResize(from.current.width + e.clientX - from.current.x);
  };
  return (
    <div
      className="grid-edge"
      aria-hidden
      onPointerDown={down}
      onPointerMove={move}
      onPointerUp={() => {
        from.current = null;
      }}
      onDoubleClick={onFit}
    />
  );
}
