package domain

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// permissionsPage returns the content of docs/permissions.md.
func permissionsPage() string {
	roles := []Role{RoleViewer, RoleEditor, RoleAdmin, RoleAgent, RoleSystem}
	var b strings.Builder
	b.WriteString(`# Who may do what

Every call is made in one workspace with one role. An admin sets a member's role. An API key has its
own role, limited at each use by its creator's role. A task's process acts as an editor; its token
lives as long as its attempt. *agent* is the role of an agent's token: it opens the agent's
connection and nothing else. *system* is the platform on its schedules.

Resources of other workspaces are not found, whatever the role. Editors and viewers see and revoke
their own API keys; ` + "`api_key.manage`" + ` covers the keys of others. A refusal is 403 and is recorded in
the audit log.

| action | viewer | editor | admin | agent | system |
|---|---|---|---|---|---|
`)
	for _, a := range slices.Sorted(maps.Keys(Permissions)) {
		fmt.Fprintf(&b, "| `%s` |", a)
		for _, r := range roles {
			mark := " "
			if r.Allows(a) {
				mark = " ✓ "
			}
			b.WriteString(mark + "|")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestPermissionsPage compares the page to the table. UPDATE_GOLDEN=1 writes it.
func TestPermissionsPage(t *testing.T) {
	const path = "../docs/permissions.md"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(permissionsPage()), 0o644)) //nolint:gosec // documentation is for everybody
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), permissionsPage(), "the permissions have changed: UPDATE_GOLDEN=1 go test ./domain")
}

// TestPermissionsWhole pins the table itself: each action's lowest role.
func TestPermissionsWhole(t *testing.T) {
	lowest := map[Action]Role{
		WorkspaceRead: RoleViewer, MemberRead: RoleViewer, MemberManage: RoleAdmin, PasswordChange: RoleViewer,
		APIKeyRead: RoleViewer, APIKeyCreate: RoleViewer, APIKeyRevoke: RoleViewer, APIKeyManage: RoleAdmin,
		AgentRead: RoleViewer, AgentManage: RoleAdmin, AgentConnect: RoleAgent,
		JobRead: RoleViewer, JobCreate: RoleEditor, JobUpdate: RoleEditor, JobDelete: RoleEditor,
		RunRead: RoleViewer, RunStart: RoleEditor, RunCancel: RoleEditor, RunRepair: RoleEditor,
		ComputeRead: RoleViewer, ComputeCreate: RoleEditor, ComputeUpdate: RoleEditor, ComputeStart: RoleEditor, ComputeStop: RoleEditor, ComputeDelete: RoleEditor,
		WarehouseRead: RoleViewer, WarehouseCreate: RoleEditor, WarehouseUpdate: RoleEditor, WarehouseStart: RoleEditor, WarehouseStop: RoleEditor,
		WarehouseDelete: RoleEditor, SettingsRead: RoleViewer, ProviderUpdate: RoleAdmin, StorageUpdate: RoleAdmin,
		StatementRead: RoleViewer, StatementRun: RoleViewer, StatementCancel: RoleEditor, CatalogRead: RoleViewer, CatalogWrite: RoleEditor,
		DatabaseCreate: RoleEditor, DatabaseDelete: RoleAdmin, LineageShow: RoleViewer, LineageReport: RoleEditor,
		MaintenanceRead: RoleViewer, MaintenanceUpdate: RoleEditor, MaintenanceStart: RoleEditor, MaintenanceDefault: RoleAdmin,
		ExperimentRead: RoleViewer, ExperimentCreate: RoleEditor, ExperimentUpdate: RoleEditor, ExperimentTag: RoleEditor, ExperimentDelete: RoleEditor, ExperimentRestore: RoleEditor,
		TrackingRunRead: RoleViewer, TrackingRunCreate: RoleEditor, TrackingRunUpdate: RoleEditor, TrackingRunLog: RoleEditor, TrackingRunDelete: RoleEditor, TrackingRunRestore: RoleEditor,
		QuotaRead: RoleViewer, QuotaUpdate: RoleAdmin, SampleRemove: RoleAdmin,
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(Permissions)), slices.Collect(maps.Keys(lowest)), "each action has its lowest role here")
	for action, from := range lowest {
		for _, role := range Roles {
			want := from != RoleAgent && roleRank(role) >= roleRank(from)
			require.Equal(t, want, role.Allows(action), "%s as %s", action, role)
		}
		require.Equal(t, from == RoleAgent, RoleAgent.Allows(action), "%s as an agent", action)
		require.Equal(t, from != RoleAgent, RoleSystem.Allows(action), "%s as the platform", action)
		require.False(t, Role("").Allows(action))
		require.False(t, Role("owner").Allows(action))
	}
	require.False(t, RoleSystem.Allows("no.such.action"))
}

func TestRolesRise(t *testing.T) {
	for i, low := range Roles {
		for j, high := range Roles {
			require.Equal(t, i <= j, low.AtMost(high), "%s and %s", low, high)
		}
		require.False(t, RoleAgent.AtMost(low), "a role of machines is not one of people's")
		require.False(t, RoleSystem.AtMost(low))
		parsed, err := ParseRole(string(low))
		require.NoError(t, err)
		require.Equal(t, low, parsed)
	}
	for _, s := range []string{"", "agent", "system", "Admin", "owner", "admin\x00"} {
		_, err := ParseRole(s)
		require.True(t, IsCode(err, CodeInvalid), "%q", s)
	}
}
