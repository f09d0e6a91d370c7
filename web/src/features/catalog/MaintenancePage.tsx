import { Link } from "@tanstack/react-router";
import { WorkspaceMaintenanceDocument } from "@/gql/gen";
import { useTab } from "@/lib/favicon";
import { CopyMenu } from "@/ui/Copy";
import { PageHeader } from "@/ui/PageHeader";
import { MaintenancePanel } from "./MaintenancePanel";
import type { Subject } from "./maintenance";

const workspace: Subject = { level: "workspace", id: "", name: "the workspace" };

/** How the workspace keeps its tables healthy where no database and no table says otherwise, and what was done to all. */
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
        description="Small files become few, old snapshots go, and files that nothing needs are removed: in all tables whose database and which themselves say nothing else."
        actions={<CopyMenu doc={WorkspaceMaintenanceDocument} variables={{}} rest="/api/v1/maintenance" />}
      />
      <section className="card" aria-label="Maintenance of the workspace">
        <MaintenancePanel subject={workspace} />
      </section>
    </div>
  );
}
