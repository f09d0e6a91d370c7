import { type RefObject, useEffect, useState } from "react";

/** Whether an element is in sight, or soon will be. */
export function useNear(of: RefObject<Element | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    if (!of.current) return;
    const sight = new IntersectionObserver(([e]) => setNear(e?.isIntersecting === true), {
      rootMargin: "300px",
    });
    sight.observe(of.current);
    return () => sight.disconnect();
  }, [of]);
  return near;
}
