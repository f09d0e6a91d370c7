import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { LogoutDocument } from "@/gql/gen";
import { request } from "@/lib/graphql";
import { failed } from "@/lib/notify";
import { sessionQuery } from "@/lib/session";

/** Ends the session and clears all loaded data. */
export function useLogout() {
  const navigate = useNavigate();
  const qc = useQueryClient();
  return useMutation({
    mutationFn: () => request(LogoutDocument, {}),
    onSuccess: async () => {
      qc.removeQueries({ queryKey: sessionQuery.queryKey });
      await navigate({ to: "/login" });
      qc.clear();
    },
    onError: (e) => failed("Could not sign out", e),
  });
}
