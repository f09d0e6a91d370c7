import { Button } from "@mantine/core";
import { IconLock, IconMapOff } from "@tabler/icons-react";
import { type ErrorComponentProps, Link } from "@tanstack/react-router";
import type { Role } from "@/gql/gen";
import { useTab } from "@/lib/favicon";
import { PageHeader } from "./PageHeader";
import { EmptyState, ErrorPanel } from "./States";

/** A page that failed as a whole. */
export function ErrorPage({ error, reset }: ErrorComponentProps) {
  useTab("Something failed");
  return (
    <div className="page page-narrow">
      <PageHeader title="Something failed" />
      <ErrorPanel error={error} retry={reset} />
    </div>
  );
}

/** The page or resource does not exist in this workspace. */
export function LostPage({ what = "page" }: { what?: string }) {
  useTab("Not found");
  return (
    <div className="page page-narrow">
      <PageHeader title="Not found" />
      <div className="card">
        <EmptyState
          icon={IconMapOff}
          title={`There is no such ${what} in this workspace`}
          action={
            <Button renderRoot={(p) => <Link to="/" {...p} />} variant="default">
              Back to the overview
            </Button>
          }
        >
          It may have been deleted, or the address has a typing error. Somebody who belongs to several
          workspaces may also be signed in to another one.
        </EmptyState>
      </div>
    </div>
  );
}

/** A page for users without the necessary role. */
export function ForbiddenPage({ title, role, mine }: { title: string; role: Role; mine: Role }) {
  return (
    <div className="page page-narrow">
      <PageHeader title={title} />
      <div className="card">
        <EmptyState icon={IconLock} title={`This needs the role ${role.toLowerCase()}`}>
          Your role in this workspace is {mine.toLowerCase()}. An administrator can give you another, under
          Members.
        </EmptyState>
      </div>
    </div>
  );
}
