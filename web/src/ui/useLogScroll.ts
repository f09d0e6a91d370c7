import { type UIEvent, useLayoutEffect, useRef, useState, type WheelEvent } from "react";

export const rowHeight = 20;
/** Browsers clamp the height of an element (Firefox at about 17.8 M px): beyond this, scrolling is scaled. */
const maxPixels = 8_000_000;

/**
 * Which lines of n to draw, and where. Following keeps the last line in view until the reader scrolls up;
 * scrolling to the end follows again.
 */
export function useLogScroll(n: number, version: number, following: boolean) {
  const box = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(400);
  const [top, setTop] = useState(0);
  const [follow, setFollow] = useState(following);

  const real = n * rowHeight;
  const pixels = Math.min(real, maxPixels);
  const scale = pixels > height ? (real - height) / (pixels - height) : 1;
  const y = follow ? Math.max(0, real - height) : Math.min(top * scale, Math.max(0, real - height));
  const first = Math.max(0, Math.floor(y / rowHeight));
  const last = Math.min(n, first + Math.ceil(height / rowHeight) + 1);
  const shift = real <= height ? 0 : -(y - first * rowHeight);

  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const measure = new ResizeObserver(() => setHeight(el.clientHeight || 400));
    measure.observe(el);
    return () => measure.disconnect();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever lines arrive or the room changes
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [follow, version, height]);

  const onScroll = (e: UIEvent<HTMLDivElement>) => {
    const el = e.currentTarget;
    const atEnd = el.scrollTop + el.clientHeight >= el.scrollHeight - 4;
    setTop(el.scrollTop);
    if (follow !== atEnd && el.scrollHeight > el.clientHeight) setFollow(atEnd);
  };
  /** A wheel turned up means that the reader wants to stay, even while new lines arrive. */
  const onWheel = (e: WheelEvent<HTMLDivElement>) => {
    if (e.deltaY < 0 && real > height) setFollow(false);
  };
  /** Brings line i to the middle. */
  const goTo = (i: number) => {
    setFollow(false);
    const to = Math.max(0, i * rowHeight - height / 2) / scale;
    setTop(to);
    requestAnimationFrame(() => {
      if (box.current) box.current.scrollTop = to;
    });
  };
  return { box, follow, setFollow, first, last, shift, height, pixels, goTo, onScroll, onWheel };
}
