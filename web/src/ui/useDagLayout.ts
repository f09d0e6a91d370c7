import { useEffect, useMemo, useState } from "react";
import { type DagShape, dagShape, layoutDag, type Positions } from "./dagLayout";

/** From this many tasks on, a layout takes noticeable time, so a worker computes it. */
const workerFrom = 100;

/**
 * Positions of tasks by their index; null while a worker computes them. Recomputed only when the
 * shape changes.
 */
export function useDagLayout(tasks: readonly { key: string; dependsOn: readonly string[] }[]) {
  const key = JSON.stringify(dagShape(tasks));
  const shape = useMemo(() => JSON.parse(key) as DagShape, [key]);
  const small = shape.ids.length < workerFrom || typeof Worker === "undefined";
  const now = useMemo(() => (small ? layoutDag(shape) : null), [shape, small]);
  const [later, setLater] = useState<{ key: string; positions: Positions } | null>(null);
  useEffect(() => {
    if (small) return;
    const worker = new Worker(new URL("./dagWorker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (e) => setLater(e.data);
    worker.postMessage({ key, shape });
    return () => worker.terminate();
  }, [key, shape, small]);
  const positions = now ?? (later?.key === key ? later.positions : null);
  return { shape, positions };
}
