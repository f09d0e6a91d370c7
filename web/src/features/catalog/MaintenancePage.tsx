import { Link } from "@tanstack/react-router";
import { WorkspaceMaintenanceDocument } from "@/gql/gen";
import { useTab } from "@/lib/favicon";
import { CopyMenu } from "@/ui/Copy";
import { PageHeader } from "@/ui/PageHeader";
import { MaintenancePanel } from "./MaintenancePanel";
import type { Subject } from "./maintenance";

const workspace: Subject = { level: "workspace", id: "", name: "the workspace" };

/**
 * The workspace's maintenance policy, for tables without another policy, and all maintenance runs.
 */
export function MaintenancePage() {
  useTab("Maintenance");
  return (
    <div className="page">
      <PageHeader
        trail={[
          <Link key="catalog" to="/catalog">
            Catalog
          </Link>,
        ]}
        title="Maintenance"
        description="Joins small files, expires old snapshots and removes unneeded files, in all tables without a policy of their own or of their database."
        actions={<CopyMenu doc={WorkspaceMaintenanceDocument} variables={{}} rest="/api/v1/maintenance" />}
      />
      <section className="card" aria-label="Maintenance of the workspace">
        <MaintenancePanel subject={workspace} />
      </section>
    </div>
  );
}
