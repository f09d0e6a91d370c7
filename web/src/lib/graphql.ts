import { queryOptions, type UseQueryOptions } from "@tanstack/react-query";
import type { TypedDocumentString } from "@/gql/gen";

/** Stable codes of `extensions.code`. */
export type ErrorCode =
  | "INVALID"
  | "UNAUTHENTICATED"
  | "FORBIDDEN"
  | "NOT_FOUND"
  | "CONFLICT"
  | "QUOTA_EXCEEDED"
  | "RATE_LIMITED"
  | "TOO_LARGE"
  | "UNAVAILABLE"
  | "INTERNAL";

export interface GqlError {
  message: string;
  path?: ReadonlyArray<string | number>;
  extensions?: { code?: string; field?: string; requestId?: string; [k: string]: unknown };
}

/** A failed request: the first error's message, code and field, and its id in the server's log. */
export class RequestError extends Error {
  readonly code: string | undefined;
  readonly field: string | undefined;
  readonly requestId: string | null;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** Seconds after which the server wants to be asked again. */
  readonly retryAfter: number | undefined;
  constructor(
    errors: ReadonlyArray<GqlError>,
    status: number,
    headers: { requestId?: string | null; retryAfter?: string | null } = {},
  ) {
    super(errors.map((e) => e.message).join(" ") || fallback(status));
    this.name = "RequestError";
    const ext = errors[0]?.extensions;
    this.code = ext?.code ?? codeOf(status);
    this.field = ext?.field;
    this.requestId = ext?.requestId ?? headers.requestId ?? null;
    this.status = status;
    const s = Number(headers.retryAfter);
    this.retryAfter = headers.retryAfter && Number.isFinite(s) ? s : undefined;
  }
}

function codeOf(status: number): string | undefined {
  if (status === 401) return "UNAUTHENTICATED";
  if (status === 403) return "FORBIDDEN";
  if (status === 413) return "TOO_LARGE";
  if (status === 429) return "RATE_LIMITED";
  if (status === 0 || status >= 502) return "UNAVAILABLE";
  return status >= 500 ? "INTERNAL" : undefined;
}

function fallback(status: number): string {
  if (status === 0) return "The server cannot be reached.";
  if (status === 429) return "Too many attempts. Wait a moment and try again.";
  return `The server answered with HTTP ${status}.`;
}

export const isCode = (e: unknown, code: ErrorCode) => e instanceof RequestError && e.code === code;

export const operationName = (q: string) => /(?:query|mutation|subscription)\s+(\w+)/.exec(q)?.[1] ?? "";

/**
 * Sends one query or mutation. Throws RequestError when there is no answer, or the signal's
 * AbortError.
 */
export async function send<R, V>(
  doc: TypedDocumentString<R, V>,
  variables: V,
  signal?: AbortSignal,
): Promise<Response> {
  const query = doc.toString();
  try {
    return await fetch("/graphql", {
      method: "POST",
      credentials: "same-origin",
      headers: {
        "content-type": "application/json",
        accept: "application/graphql-response+json, application/json",
        "x-requested-with": "console",
      },
      body: JSON.stringify({ operationName: operationName(query), query, variables }),
      signal: signal ?? null,
    });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new RequestError([], 0);
  }
}

/** The body of an answer. */
export interface Body<R> {
  data?: R;
  errors?: GqlError[];
  error?: string;
}

/** The data of an answer. Throws RequestError when it is not one, or has errors. */
export function dataOf<R>(res: Response, body: Body<R>): R {
  if (res.ok && body.data && !body.errors?.length) return body.data;
  const errors = body.errors ?? (body.error ? [{ message: body.error }] : []);
  throw new RequestError(errors, res.status, {
    requestId: res.headers.get("x-request-id"),
    retryAfter: res.headers.get("retry-after"),
  });
}

/** Sends one query or mutation. Throws RequestError, or the signal's AbortError. */
export async function request<R, V>(
  doc: TypedDocumentString<R, V>,
  variables: V,
  signal?: AbortSignal,
): Promise<R> {
  const res = await send(doc, variables, signal);
  return dataOf(res, (await res.json().catch(() => ({}))) as Body<R>);
}

/** Query options with the key [operation name, variables]. */
export function gql<R, V>(
  doc: TypedDocumentString<R, V>,
  variables: V,
  extra?: Partial<UseQueryOptions<R, Error, R>>,
) {
  return queryOptions<R, Error, R>({
    ...extra,
    queryKey: [operationName(doc.toString()), variables],
    queryFn: ({ signal }) => request(doc, variables, signal),
  });
}
