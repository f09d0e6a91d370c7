import { type RefObject, useEffect, useState } from "react";

/** Whether an element is in sight, or soon will be. */
export function useNear(of: RefObject<Element | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    if (!of.current) return;
    // Of several changes at once, the last one counts.
    const sight = new IntersectionObserver((changes) => setNear(changes.at(-1)?.isIntersecting === true), {
      rootMargin: "300px",
    });
    sight.observe(of.current);
    return () => sight.disconnect();
  }, [of]);
  return near;
}
