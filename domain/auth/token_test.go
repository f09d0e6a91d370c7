package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
)

func TestAnAPIKeysLife(t *testing.T) {
	i := newInstance(t)
	ctx := t.Context()
	_, admin, _ := i.workspace("one")
	maker := i.member(admin, "ada", domain.RoleEditor)
	scope := i.scope(maker.Token)
	key, secret, err := i.apiKeys.Create(ctx, scope, identity.NewAPIKey{Name: "ci", Role: scope.Role()})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(secret, "svc_sk_"))
	require.Equal(t, domain.RoleEditor, key.Role)
	require.Zero(t, i.count(`SELECT count(*) FROM api_keys WHERE to_jsonb(api_keys)::text LIKE '%' || $1 || '%'`, secret[11:]), "the secret is not stored")
	by := i.scope(secret)
	require.Equal(t, domain.Actor{Kind: domain.ActorAPIKey, ID: string(key.ID), Name: "ci"}, by.Actor())
	require.Equal(t, domain.RoleEditor, by.Role())
	_, _, err = i.apiKeys.Create(ctx, by, identity.NewAPIKey{Name: "child"})
	require.Equal(t, domain.CodeForbidden, code(err), "a key makes no keys")
	_, err = i.auth.Refresh(ctx, by)
	require.Equal(t, domain.CodeForbidden, code(err), "a key has no session")
	_, _, err = i.apiKeys.Create(ctx, scope, identity.NewAPIKey{Name: "x", Role: domain.RoleAdmin})
	require.Equal(t, domain.CodeForbidden, code(err), "at most its creator's")
	_, _, err = i.apiKeys.Create(ctx, scope, identity.NewAPIKey{Name: "x", Role: domain.RoleAgent})
	require.Equal(t, domain.CodeInvalid, code(err))

	for maker, want := range map[domain.Role]domain.Role{domain.RoleViewer: domain.RoleViewer, domain.RoleEditor: domain.RoleEditor, domain.RoleAdmin: domain.RoleEditor} {
		_, err := i.members.Update(ctx, admin, scope.UserID(), maker)
		require.NoError(t, err)
		require.Equal(t, want, i.scope(secret).Role(), "the lower of its own and of its creator's, who is %s now", maker)
	}
	require.NoError(t, i.members.Remove(ctx, admin, scope.UserID()))
	require.False(t, i.opens(secret), "a key ends with its creator")
}

func TestKeysThatHaveEnded(t *testing.T) {
	i := newInstance(t)
	ctx := t.Context()
	_, admin, _ := i.workspace("one")
	past, soon := i.clock.Now(), i.clock.Now().Add(time.Hour)
	_, _, err := i.apiKeys.Create(ctx, admin, identity.NewAPIKey{Name: "x", ExpiresAt: &past})
	require.Equal(t, "expires_at", domain.AsError(err).Field)
	_, expiring, err := i.apiKeys.Create(ctx, admin, identity.NewAPIKey{Name: "x", ExpiresAt: &soon, Role: admin.Role()})
	require.NoError(t, err)
	key, revoked, err := i.apiKeys.Create(ctx, admin, identity.NewAPIKey{Name: "x", Role: admin.Role()})
	require.NoError(t, err)
	require.True(t, i.opens(expiring) && i.opens(revoked))
	i.clock.move(time.Hour)
	require.False(t, i.opens(expiring))
	_, err = i.apiKeys.Revoke(ctx, admin, key.ID)
	require.NoError(t, err)
	require.False(t, i.opens(revoked))
	_, err = i.apiKeys.Revoke(ctx, admin, key.ID)
	require.Equal(t, domain.CodeConflict, code(err))
	list, err := i.apiKeys.List(ctx, admin, domain.Page{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2, "both are listed on")
	require.NoError(t, i.store.System().Housekeep(ctx, soon.Add(identity.APIKeyRetention+time.Second)))
	list, err = i.apiKeys.List(ctx, admin, domain.Page{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1, "the expired one for 30 days")
}

func TestKeysOfOthers(t *testing.T) {
	i := newInstance(t)
	ctx := t.Context()
	_, admin, _ := i.workspace("one")
	ada, bob := i.scope(i.member(admin, "ada", domain.RoleViewer).Token), i.scope(i.member(admin, "bob", domain.RoleEditor).Token)
	key, secret, err := i.apiKeys.Create(ctx, ada, identity.NewAPIKey{Name: "ada's", Role: ada.Role()})
	require.NoError(t, err)
	for who, n := range map[domain.Scope]int{ada: 1, bob: 0, admin: 1, i.scope(secret): 0} {
		list, err := i.apiKeys.List(ctx, who, domain.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, n, who.Actor().Name)
	}
	_, err = i.apiKeys.Revoke(ctx, bob, key.ID)
	require.Equal(t, domain.CodeNotFound, code(err))
	_, err = i.apiKeys.Revoke(ctx, admin, key.ID)
	require.NoError(t, err)
}

// TestLastUseIsKeptToTheMinute checks that not every request writes it.
func TestLastUseIsKeptToTheMinute(t *testing.T) {
	i := newInstance(t)
	_, admin, _ := i.workspace("one")
	_, secret, err := i.apiKeys.Create(t.Context(), admin, identity.NewAPIKey{Name: "x", Role: admin.Role()})
	require.NoError(t, err)
	used := func() time.Time {
		require.True(t, i.opens(secret))
		list, err := i.apiKeys.List(t.Context(), admin, domain.Page{})
		require.NoError(t, err)
		return *list.Items[0].LastUsedAt
	}
	first := i.clock.Now()
	require.Equal(t, first, used())
	i.clock.move(59 * time.Second)
	require.Equal(t, first, used())
	i.clock.move(time.Second)
	require.Equal(t, first.Add(time.Minute), used())
}

// TestAnAgentsTokenOpensItsConnection checks that it opens nothing else, and that other tokens do
// not open the connection.
func TestAnAgentsTokenOpensItsConnection(t *testing.T) {
	i := newInstance(t)
	in, admin, token := i.workspace("one")
	for bearer, agent := range map[string]bool{token: true, in.Token: false} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+bearer)
		var asAgent error
		_, _, err := i.serve(r, true, func(ctx context.Context) { _, asAgent = auth.FromAgent(ctx) })
		if agent {
			require.Equal(t, domain.CodeForbidden, code(err))
			require.NoError(t, asAgent)
		} else {
			require.NoError(t, err)
			require.Equal(t, domain.CodeForbidden, code(asAgent))
		}
	}
	scope := i.scope(token)
	_, err := i.members.List(t.Context(), scope, domain.Page{})
	require.Equal(t, domain.CodeForbidden, code(err), "the domain says so too")
	require.Equal(t, 1, i.count(`SELECT count(*) FROM audit_events WHERE outcome = 'denied' AND actor_kind = 'agent'`))
	_, fresh, err := i.agents.RotateToken(t.Context(), admin, domain.AgentID(scope.Actor().ID))
	require.NoError(t, err)
	require.False(t, i.opens(token))
	require.True(t, i.opens(fresh))
}

// TestARunsTokenLivesAsLongAsItsAttempt also checks that its process is an editor, whoever started
// the run.
func TestARunsTokenLivesAsLongAsItsAttempt(t *testing.T) {
	i := newInstance(t)
	_, admin, agentToken := i.workspace("one")
	agent := i.scope(agentToken)
	attempts := map[job.AttemptStatus]string{}
	for _, status := range []job.AttemptStatus{
		job.AttemptStarting, job.AttemptRunning, job.AttemptSuccess, job.AttemptFailed, job.AttemptCancelled, job.AttemptLost,
	} {
		_, err := i.db.Exec(`WITH r AS (INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name, admitted, created_at)
				VALUES ($1, 'run_' || $3, 'job_1', 'nightly', '{}', '[]', 'running', 'manual', 'user', 'u', 'u', true, now())),
			t AS (INSERT INTO tasks (workspace_id, run_id, key, position, status) VALUES ($1, 'run_' || $3, '', 0, 'running'))
			INSERT INTO attempts (workspace_id, id, run_id, task_key, number, agent_id, status, created_at) VALUES ($1, 'att_' || $3, 'run_' || $3, '', 1, $2, $3, now())`,
			admin.Workspace(), agent.Actor().ID, string(status))
		require.NoError(t, err)
		attempts[status] = i.keys.RunToken(admin.Workspace(), domain.AttemptID("att_"+status))
	}
	for status, token := range attempts {
		require.Equal(t, !status.Final(), i.opens(token), status)
	}
	scope := i.scope(attempts[job.AttemptRunning])
	require.Equal(t, domain.RoleEditor, scope.Role())
	require.Equal(t, domain.Actor{Kind: domain.ActorRun, ID: "att_running", Name: "nightly"}, scope.Actor())
	require.Equal(t, admin.Workspace(), scope.Workspace())
	_, _, err := i.members.Add(t.Context(), scope, "eve@example.com", "", domain.RoleAdmin)
	require.Equal(t, domain.CodeForbidden, code(err), "an admin's run does not administer")
	token := attempts[job.AttemptRunning]
	parts := strings.SplitN(strings.TrimPrefix(token, auth.RunTokenPrefix), ".", 3)
	for _, forged := range []string{
		auth.RunTokenPrefix + "att_starting." + parts[1] + "." + parts[2], token + "x", token[:len(token)-1], auth.RunTokenPrefix + parts[0] + ".0123456789abcdef." + parts[2],
		auth.RunTokenPrefix + parts[0] + ".." + parts[2], token + ".x",
	} {
		require.False(t, i.opens(forged), forged)
	}
	_, err = i.db.Exec(`UPDATE attempts SET status = 'lost' WHERE id = 'att_running'`)
	require.NoError(t, err)
	require.False(t, i.opens(token), "declared lost, at once")
}

// TestSigningKeysRotateWithOverlap on two replicas checks that both use one new key, and that
// tokens of the old one stay valid.
func TestSigningKeysRotateWithOverlap(t *testing.T) {
	i := newInstance(t)
	ctx := t.Context()
	in, scope, _ := i.workspace("one")
	there := replica(t, i.dsn, i.db, i.clock)
	require.Equal(t, 1, i.count(`SELECT count(*) FROM signing_keys`))
	require.True(t, there.opens(in.Token))
	replicaToken, runToken := i.keys.ReplicaToken(), i.keys.RunToken(scope.Workspace(), "att_1")
	i.clock.move(30*24*time.Hour - time.Hour/2)
	late, err := i.login("one@example.com", password)
	require.NoError(t, err)
	i.clock.move(time.Hour/2 + time.Second)
	errs := make(chan error, 4)
	for _, at := range []*instance{i, i, there, there} {
		go func() { errs <- at.keys.Rotate(ctx) }()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 2, i.count(`SELECT count(*) FROM signing_keys`), "all replicas together made one")
	require.True(t, i.opens(late.Token), "what the old key signed holds until it expires")
	require.NotEqual(t, replicaToken, i.keys.ReplicaToken())
	require.Equal(t, i.keys.ReplicaToken(), there.keys.ReplicaToken())
	require.True(t, there.keys.IsReplicaToken(ctx, replicaToken))
	require.NotEqual(t, runToken, i.keys.RunToken(scope.Workspace(), "att_1"))
	for _, forged := range []string{"", ".", "x.y", replicaToken + "x", i.keys.ReplicaToken()[:17], runToken} {
		require.False(t, i.keys.IsReplicaToken(ctx, forged), forged)
	}
}

// TestAKeyThatAnotherReplicaJustMade checks that the key is loaded at its first token.
func TestAKeyThatAnotherReplicaJustMade(t *testing.T) {
	i := newInstance(t)
	_, _, _ = i.workspace("one")
	there := replica(t, i.dsn, i.db, i.clock)
	i.clock.move(30*24*time.Hour + time.Second)
	require.NoError(t, i.keys.Rotate(t.Context()))
	in, err := i.login("one@example.com", password)
	require.NoError(t, err)
	require.True(t, there.opens(in.Token))
	require.True(t, there.keys.IsReplicaToken(t.Context(), i.keys.ReplicaToken()))
}
