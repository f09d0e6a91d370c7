import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { FlavorsDocument } from "@/gql/gen";
import { gql, operationName, request } from "@/lib/graphql";
import type { Kind } from "./kinds";

const listKey = (k: Kind) => [operationName(k.documents.list.toString())] as const;

/** Machines of a kind, oldest first. Changes are pushed; a refetch reveals deletions elsewhere. */
export const machinesQuery = (k: Kind) =>
  infiniteQueryOptions({
    queryKey: listKey(k),
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) =>
      (await request(k.documents.list, { first: 50, after: pageParam }, signal)).machines,
    getNextPageParam: (p) => (p.pageInfo.hasNextPage ? p.pageInfo.endCursor : undefined),
    refetchInterval: 10_000,
  });

/** One machine; null if it does not exist. */
export const machineQuery = (k: Kind, id: string) =>
  queryOptions({
    queryKey: [operationName(k.documents.detail.toString()), { id }],
    queryFn: ({ signal }) => request(k.documents.detail, { id }, signal),
    refetchInterval: 10_000,
  });

/** Flavors of machines with prices, and whether there is room for one more. */
export const flavorsQuery = gql(FlavorsDocument, {}, { staleTime: 10_000 });

/** Bytes of a log that a page shows; the download has more. */
export const logBytes = 64 * 1024;
export const downloadBytes = 1024 * 1024;

const logKey = (k: Kind, id: string) => [operationName(k.documents.log.toString()), { id }] as const;

/** The end of the agent's log as base64; empty if the machine is deleted. */
export const machineLogQuery = (k: Kind, id: string) =>
  queryOptions({
    queryKey: logKey(k, id),
    queryFn: ({ signal }) => readLog(k, id, logBytes, signal),
  });

export const readLog = async (k: Kind, id: string, bytes: number, signal?: AbortSignal) =>
  (await request(k.documents.log, { id, bytes }, signal)).machine?.log ?? "";
