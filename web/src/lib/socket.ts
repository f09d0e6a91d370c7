import { createClient } from "graphql-ws";
import { useEffect, useEffectEvent } from "react";
import type { TypedDocumentString } from "@/gql/gen";
import { type GqlError, operationName } from "./graphql";

export type ConnectionState = "idle" | "connecting" | "live" | "retrying" | "denied";

let state: ConnectionState = "idle";
const stateListeners = new Set<() => void>();
const setState = (s: ConnectionState) => {
  state = s;
  for (const l of stateListeners) l();
};

/** The state of the one socket, for useSyncExternalStore. */
export const connection = {
  get: () => state,
  subscribe: (l: () => void) => {
    stateListeners.add(l);
    return () => {
      stateListeners.delete(l);
    };
  },
};

const reconnectListeners = new Set<() => void>();
/**
 * Calls f when the socket or a stream on it is back: events were missed, so cached data must be
 * refetched.
 */
export const onReconnect = (f: () => void) => {
  reconnectListeners.add(f);
  return () => {
    reconnectListeners.delete(f);
  };
};

const deniedListeners = new Set<() => void>();
/** Calls f when the server refuses the socket because the session has ended. */
export const onDenied = (f: () => void) => {
  deniedListeners.add(f);
  return () => {
    deniedListeners.delete(f);
  };
};

const denied = (code: number) => code === 4401 || code === 4403;

/** Refetches all cached data, because events were missed. */
const missed = () => {
  for (const f of reconnectListeners) f();
};

let connectedBefore = false;
let socket: WebSocket | undefined;
let pongTimer: ReturnType<typeof setTimeout> | undefined;

const client = createClient({
  url: () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
  lazy: true,
  lazyCloseTimeout: 5_000,
  keepAlive: 15_000,
  connectionAckWaitTimeout: 10_000,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: (n) => new Promise((r) => setTimeout(r, Math.min(30_000, 500 * 2 ** n) * (0.5 + Math.random()))),
  shouldRetry: (e) => !(e instanceof CloseEvent && denied(e.code)),
  on: {
    connecting: (retry) => setState(retry ? "retrying" : "connecting"),
    connected: (s) => {
      socket = s as WebSocket;
      setState("live");
      if (connectedBefore) missed();
      connectedBefore = true;
    },
    ping: (received) => {
      if (received) return;
      pongTimer = setTimeout(() => {
        if (socket?.readyState === WebSocket.OPEN) socket.close(4408, "ping timeout");
      }, 5_000);
    },
    pong: (received) => {
      if (received) clearTimeout(pongTimer);
    },
    closed: (e) => {
      clearTimeout(pongTimer);
      if (!denied((e as CloseEvent).code)) return setState("idle");
      setState("denied");
      for (const f of deniedListeners) f();
    },
  },
});

/** Whether a stream was ended by a temporary failure of the platform rather than by an answer. */
const passes = (e: unknown) =>
  Array.isArray(e) &&
  (e as GqlError[]).some((g) =>
    ["INTERNAL", "UNAVAILABLE", "RATE_LIMITED"].includes(g.extensions?.code ?? ""),
  );

export interface Sink<R> {
  next: (d: R) => void;
  error?: (e: unknown) => void;
  complete?: () => void;
}

/**
 * Subscribes, and resubscribes with backoff when the server ends the stream: gqlgen sends
 * `complete` to every operation when it cancels a connection (shutdown, session end), and the
 * client library treats that as a normal end. A temporary error, such as a database outage, is
 * retried in the same way; any other goes to the sink and ends the subscription. `variables` is
 * read at each start, so a log resumes from its cursor. `finished` says whether a `complete` is a
 * real end.
 */
export function subscribe<R, V>(
  doc: TypedDocumentString<R, V>,
  variables: () => V,
  sink: Sink<R>,
  finished: () => boolean = () => false,
) {
  const query = doc.toString();
  const payload = {
    operationName: operationName(query),
    query,
    get variables() {
      return variables() as Record<string, unknown>;
    },
  };
  let dispose: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let tries = 0;
  const soon = (f: () => void) => {
    timer = setTimeout(f, Math.min(15_000, 250 * 2 ** tries++) * (0.5 + Math.random()));
  };
  const resume = () => {
    missed();
    start();
  };
  const start = () => {
    dispose = client.subscribe<R>(payload, {
      next: (m) => {
        tries = 0;
        if (m.data) sink.next(m.data);
        if (m.errors) sink.error?.(m.errors);
      },
      error: (e) => {
        if (stopped) return;
        if (passes(e)) return soon(resume);
        stopped = true;
        sink.error?.(e);
      },
      complete: () => {
        if (stopped) return;
        if (finished()) {
          stopped = true;
          sink.complete?.();
          return;
        }
        soon(start);
      },
    });
  };
  start();
  return () => {
    stopped = true;
    clearTimeout(timer);
    dispose?.();
  };
}

/**
 * Subscribes while the component is mounted. The connection badge and the queries show failures.
 */
export function useSubscription<R, V>(
  doc: TypedDocumentString<R, V>,
  variables: V,
  next: (d: R) => void,
  enabled = true,
) {
  const onNext = useEffectEvent(next);
  const key = JSON.stringify(variables);
  useEffect(() => {
    if (!enabled) return;
    return subscribe(doc, () => JSON.parse(key) as V, { next: onNext });
  }, [doc, key, enabled]);
}
