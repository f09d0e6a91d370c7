import { type UIEvent, useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from "react";

export const gridRow = 26;
/**
 * Browsers clamp the height of an element (Firefox at about 17.8 M px): beyond this, scrolling is
 * scaled.
 */
const maxPixels = 8_000_000;

/** Which of n rows to draw below a head of one row, and where. */
export function useGridScroll(n: number) {
  const box = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(400);
  const [top, setTop] = useState(0); // of the view, in pixels of all rows
  const own = useRef(-1); // where this code has scrolled to: rounded, so its event says less than `top`

  const body = Math.max(gridRow, height - gridRow);
  const real = n * gridRow;
  const pixels = Math.min(real, maxPixels);
  const scale = pixels > body ? (real - body) / (pixels - body) : 1;
  const y = Math.min(top, Math.max(0, real - body));
  const first = Math.floor(y / gridRow);
  const end = Math.min(n, first + Math.ceil(body / gridRow) + 1);
  const shift = first * gridRow - y;

  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const measure = new ResizeObserver(() => setHeight(el.clientHeight || 400));
    measure.observe(el);
    return () => measure.disconnect();
  }, []);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const to = y / scale;
    if (Math.abs(el.scrollTop - to) < 1) return;
    el.scrollTop = to;
    own.current = el.scrollTop;
  }, [y, scale]);

  const onScroll = (e: UIEvent<HTMLDivElement>) => {
    const el = e.currentTarget;
    if (Math.abs(el.scrollTop - own.current) < 1) return;
    own.current = -1;
    const atEnd = el.scrollTop + el.clientHeight >= el.scrollHeight - 1;
    setTop(atEnd ? Math.max(0, real - body) : el.scrollTop * scale);
  };
  /** Where a pixel of the bar stands for many rows, a wheel still moves by its own distance. */
  const wheel = useEffectEvent((e: WheelEvent) => {
    if (scale === 1 || e.deltaY === 0 || e.ctrlKey || e.shiftKey) return;
    e.preventDefault();
    const by = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? e.deltaY * gridRow : e.deltaY;
    const most = Math.max(0, real - body);
    setTop((t) => Math.max(0, Math.min(most, Math.min(t, most) + by)));
  });
  useEffect(() => {
    const el = box.current;
    // Not passive, which React's own are.
    el?.addEventListener("wheel", wheel, { passive: false });
    return () => el?.removeEventListener("wheel", wheel);
  }, []);
  /** Brings a row into view, as little as is needed; far away, to the middle. */
  const show = (row: number) => {
    const at = row * gridRow;
    if (at >= y && at + gridRow <= y + body) return;
    const near = Math.abs(at - y) < 3 * body;
    const to = near ? (at < y ? at : at + gridRow - body) : at - body / 2;
    setTop(Math.max(0, Math.min(Math.max(0, real - body), to)));
  };
  const perPage = Math.max(1, Math.floor(body / gridRow) - 1);
  return { box, first, end, shift, pixels, body, onScroll, show, perPage };
}
