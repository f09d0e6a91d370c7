import { Role } from "@/gql/gen";

/**
 * Where to go after signing in: the path in `to` if it is of this origin and not a sign-in page
 * itself, else the overview.
 */
export function returnPath(to: string | undefined, origin: string): string {
  if (!to?.startsWith("/")) return "/";
  let url: URL;
  try {
    url = new URL(to, origin);
  } catch {
    return "/";
  }
  if (url.origin !== origin || isPublic(url.pathname)) return "/";
  return url.pathname + url.search + url.hash;
}

/** Pages before sign-in. */
export const isPublic = (path: string) => path === "/login" || path === "/setup";

const rank: Record<Role, number> = { [Role.Viewer]: 0, [Role.Editor]: 1, [Role.Admin]: 2 };

/** Whether a role includes another. The server decides; this only says what to offer. */
export const includes = (role: Role | undefined, needed: Role) =>
  role !== undefined && rank[role] >= rank[needed];
