import { Tooltip } from "@mantine/core";
import type { ReactElement } from "react";
import type { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useRole } from "@/lib/session";

/** Disables its child for lower roles, with the reason on hover. */
export function Allowed({ role, children }: { role: Role; children: (disabled: boolean) => ReactElement }) {
  const mine = useRole();
  const allowed = includes(mine, role);
  if (allowed) return children(false);
  return (
    <Tooltip label={`This needs the role ${role.toLowerCase()}. An administrator can give it to you.`}>
      <span>{children(true)}</span>
    </Tooltip>
  );
}
