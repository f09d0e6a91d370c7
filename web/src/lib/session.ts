import { useQuery } from "@tanstack/react-query";
import { type Role, SessionDocument } from "@/gql/gen";
import { gql } from "./graphql";

/** The signed-in user and the instance. */
export const sessionQuery = gql(SessionDocument, {}, { staleTime: 60_000 });

export const useViewer = () => useQuery(sessionQuery).data?.viewer ?? null;

export const useRole = (): Role | undefined => useViewer()?.role;
