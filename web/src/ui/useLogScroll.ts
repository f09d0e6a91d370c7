import { type UIEvent, useLayoutEffect, useRef, useState, type WheelEvent } from "react";

export const rowHeight = 20;
/**
 * Browsers clamp the height of an element (Firefox at about 17.8 M px): beyond this, scrolling is
 * scaled.
 */
const maxPixels = 8_000_000;

/**
 * Which lines of n to draw, and where. Following keeps the last line in view until the reader
 * scrolls up; scrolling to the end follows again. What the reader looks at stays in place while
 * lines arrive, though the scale of a very long log changes under it.
 */
export function useLogScroll(n: number, version: number, following: boolean) {
  const box = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(400);
  const [top, setTop] = useState(0); // of the view, in pixels of the whole log
  const [follow, follows] = useState(following);
  const own = useRef(-1); // where this code has scrolled to, whose event says nothing about the reader

  const real = n * rowHeight;
  const pixels = Math.min(real, maxPixels);
  const scale = pixels > height ? (real - height) / (pixels - height) : 1;
  const end = Math.max(0, real - height);
  const y = follow ? end : Math.min(top, end);
  const first = Math.floor(y / rowHeight);
  const last = Math.min(n, first + Math.ceil(height / rowHeight) + 1);
  const shift = real <= height ? 0 : first * rowHeight - y;

  /** Keeps the end in view from now on, or leaves the view where it is. */
  const setFollow = (on: boolean) => {
    if (!on) setTop(y);
    follows(on);
  };

  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const measure = new ResizeObserver(() => setHeight(el.clientHeight || 400));
    measure.observe(el);
    return () => measure.disconnect();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever lines arrive or the room changes
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const to = follow ? el.scrollHeight : y / scale;
    if (Math.abs(el.scrollTop - to) < 1) return;
    el.scrollTop = to;
    own.current = el.scrollTop;
  }, [follow, version, height, scale, top]);

  const onScroll = (e: UIEvent<HTMLDivElement>) => {
    const el = e.currentTarget;
    if (Math.abs(el.scrollTop - own.current) < 1) return;
    own.current = -1;
    setTop(el.scrollTop * scale);
    const atEnd = el.scrollTop + el.clientHeight >= el.scrollHeight - 4;
    if (el.scrollHeight > el.clientHeight) follows(atEnd);
  };
  /** A wheel turned up means that the reader wants to stay, even while new lines arrive. */
  const onWheel = (e: WheelEvent<HTMLDivElement>) => {
    if (e.deltaY < 0 && follow && real > height) setFollow(false);
  };
  /** Brings line i to the middle. */
  const goTo = (i: number) => {
    follows(false);
    setTop(Math.max(0, i * rowHeight - height / 2));
  };
  return { box, follow, setFollow, first, last, shift, height, pixels, goTo, onScroll, onWheel };
}
