import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTab } from "@/lib/favicon";
import { sessionQuery } from "@/lib/session";
import { CopyId } from "@/ui/Copy";
import { PageHeader } from "@/ui/PageHeader";
import { ErrorPanel, PanelSkeleton } from "@/ui/States";
import { When } from "@/ui/Time";
import { PasswordForm } from "./PasswordForm";
import { PlacesCards } from "./PlacesCards";
import { QuotasCard } from "./QuotasCard";
import { settingsQuery } from "./queries";
import { SamplesCard } from "./SamplesCard";

/** The workspace's limits, provider, storage and samples, and the signed-in user's password. */
export function SettingsPage() {
  useTab("Settings");
  const q = useQuery(settingsQuery);
  const session = useQuery(sessionQuery).data;
  const viewer = session?.viewer;
  return (
    <div className="page page-narrow">
      <PageHeader title="Settings" description="Of this workspace, and of your account." />
      {q.error && <ErrorPanel error={q.error} retry={() => q.refetch()} />}
      <div className="two">
        <div className="stack">
          {q.data ? <QuotasCard quotas={q.data.quotas} /> : !q.error && <PanelSkeleton height={180} />}
          <PlacesCards />
          <SamplesCard />
        </div>
        <div className="stack">
          <section className="card" aria-label="Workspace">
            <div className="section-title">
              <h2>Workspace</h2>
            </div>
            <dl className="facts card-pad" style={{ paddingTop: 0 }}>
              <dt>Name</dt>
              <dd>{viewer?.workspace.name}</dd>
              <dt>Id</dt>
              <dd>{viewer && <CopyId id={viewer.workspace.id} />}</dd>
              <dt>Version</dt>
              <dd className="mono">{session?.instance.version}</dd>
              {viewer?.sessionExpiresAt && (
                <>
                  <dt>Session ends</dt>
                  <dd>
                    <When at={viewer.sessionExpiresAt} />
                  </dd>
                </>
              )}
            </dl>
          </section>
          <section className="card" aria-label="Password">
            <div className="section-title">
              <h2>Password</h2>
            </div>
            <div className="card-pad" style={{ paddingTop: 0 }}>
              {viewer?.user ? (
                <PasswordForm email={viewer.user.email} />
              ) : (
                <Text size="sm" c="dimmed">
                  An API key has no password.
                </Text>
              )}
            </div>
          </section>
        </div>
      </div>
    </div>
  );
}
