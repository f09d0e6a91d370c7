import { type DagShape, layoutDag } from "./dagLayout";

self.onmessage = (e: MessageEvent<{ key: string; shape: DagShape }>) => {
  self.postMessage({ key: e.data.key, positions: layoutDag(e.data.shape) });
};
