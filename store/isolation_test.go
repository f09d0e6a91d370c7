package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// changed is 1 when a row changed, and done when an insert into the catalog created one.
func changed(yes bool, err error) (int, error) {
	if yes {
		return 1, err
	}
	return 0, err
}

func done(i lake.Inserted, err error) (int, error) {
	return changed(err == nil && i == lake.InsertedNow, err)
}

var (
	now     = time.Now().UTC()
	noError = func(err error) bool { return err == nil }
	missing = func(err error) bool { return domain.IsCode(err, domain.CodeNotFound) }
)

// trespass calls a method in another workspace's transaction with the ids of b. The error must
// satisfy want, and the result must be empty.
type trespass struct {
	want func(error) bool
	call func(ctx context.Context, tx *store.Tx, b belongings) (found int, err error)
}

func nobody[T any](v []T, err error) (int, error)                    { return len(v), err }
func nothing[K comparable, T any](v map[K]T, err error) (int, error) { return len(v), err }
func none(err error) (int, error)                                    { return 0, err }
func one[T any](_ T, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// trespasses has every method of *store.Tx. The test fails for a missing one.
var trespasses = map[string]trespass{
	"Member": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) { return one(tx.Member(ctx, b.user)) }},
	"Users": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Users(ctx, []domain.UserID{b.user}))
	}},
	"UpdateMember": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateMember(ctx, b.user, domain.RoleViewer))
	}},
	"DeleteMember": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.DeleteMember(ctx, b.user))
	}},
	"APIKey": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) { return one(tx.APIKey(ctx, b.key)) }},
	"APIKeys": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.APIKeys(ctx, b.user, "", 100))
	}},
	"RevokeAPIKey": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.RevokeAPIKey(ctx, b.key, now))
	}},
	"Agent": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) { return one(tx.Agent(ctx, b.agent)) }},
	"AgentsByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.AgentsByID(ctx, []domain.AgentID{b.agent}))
	}},
	"LockAgent": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockAgent(ctx, b.agent))
	}},
	"LockSession": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockSession(ctx, b.agent))
	}},
	"UpdateAgent": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateAgent(ctx, machine.Agent{ID: b.agent, Name: "mine"}))
	}},
	"UpdateAgentToken": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateAgentToken(ctx, b.agent, []byte("x")))
	}},
	"LiveAttempts": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LiveAttempts(ctx, b.agent))
	}},
	"Job": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) { return one(tx.Job(ctx, b.job)) }},
	"JobsByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.JobsByID(ctx, []domain.JobID{b.job}))
	}},
	"JobSpecs": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.JobSpecs(ctx, []domain.JobID{b.job}))
	}},
	"UpdateJob": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.UpdateJob(ctx, b.job, func(j *job.Job) error { j.Name = "mine"; return nil }))
	}},
	"LockJob": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) { return one(tx.LockJob(ctx, b.job)) }},
	"DeleteJob": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.DeleteJob(ctx, b.job))
	}},
	"InsertFiles": {func(err error) bool { return domain.IsCode(err, domain.CodeInvalid) }, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertFiles(ctx, []job.File{{Path: "f", SHA256: b.file, Size: 6}}))
	}},
	"FileContents": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.FileContents(ctx, []string{b.file}))
	}},
	"Run": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) { return one(tx.Run(ctx, b.run)) }},
	"Runs": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Runs(ctx, job.RunFilter{JobID: b.job}, "", 100))
	}},
	"RunsByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.RunsByID(ctx, []domain.RunID{b.run}))
	}},
	"RunSpecs": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.RunSpecs(ctx, []domain.RunID{b.run}))
	}},
	"RunParameters": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.RunParameters(ctx, []domain.RunID{b.run}))
	}},
	"AttemptCount": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return tx.AttemptCount(ctx, []domain.RunID{b.run})
	}},
	"LatestRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LatestRuns(ctx, []domain.JobID{b.job}))
	}},
	"Tasks": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Tasks(ctx, []domain.RunID{b.run}))
	}},
	"UpdateRun": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.UpdateRun(ctx, b.run, func(r *job.Run) error { r.Message = "mine"; return nil }))
	}},
	"RecentRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.RecentRuns(ctx, []domain.JobID{b.job}, nil, 100))
	}},
	"ActiveRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.ActiveRuns(ctx, b.job))
	}},
	"Attempt": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.Attempt(ctx, b.attempt))
	}},
	"Attempts": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Attempts(ctx, []domain.RunID{b.run}))
	}},
	"UpdateAttempt": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.UpdateAttempt(ctx, b.attempt, func(a *job.Attempt) error { a.Status = job.AttemptSuccess; return nil }))
	}},
	"RequestCancel": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.RequestCancel(ctx, []domain.AttemptID{b.attempt}, now))
	}},
	"FenceSession": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		current, live, err := tx.FenceSession(ctx, b.agent, "s1")
		if current {
			return 1, err
		}
		return len(live), err
	}},
	"LogEnds": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		ends, err := tx.LogEnds(ctx, []domain.AttemptID{b.attempt, b.sealed})
		return int(ends[b.attempt].Offset + ends[b.sealed].Offset), err
	}},
	"LogChunks": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LogChunks(ctx, b.attempt, 0, 1000))
	}},
	"LogNews": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		news, err := tx.LogNews(ctx, []job.LogWant{{Attempt: b.attempt}}, 1000)
		return len(news), err
	}},
	"LogSegmentAt": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		s, err := tx.LogSegmentAt(ctx, b.sealed, 0)
		if s != nil {
			return 1, err
		}
		return 0, err
	}},
	"LockSealing": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		sealed, _, err := tx.LockSealing(ctx, b.sealed)
		return int(sealed.Offset), err
	}},
	"SetSealed": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetSealed(ctx, b.attempt))
	}},
	"ClaimKey": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		claimed, hash, resource, err := tx.ClaimKey(ctx, "user:me", "key", []byte("other"))
		if !claimed {
			return 1, fmt.Errorf("found %q %q: %w", hash, resource, err)
		}
		return 0, err
	}},
	"BindKey": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return none(tx.BindKey(ctx, "user:me", "key", "mine"))
	}},
	"Evict": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Evict(ctx, []domain.AttemptID{b.attempt}, "mine", now))
	}},
	"Machine": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.Machine(ctx, b.machine))
	}},
	"LockMachine": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		_, _, err := tx.LockMachine(ctx, b.machine)
		return 0, err
	}},
	"MachineByName": {missing, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return one(tx.MachineByName(ctx, machine.KindCompute, "m"))
	}},
	"Machines": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return nobody(tx.Machines(ctx, machine.KindCompute, "", 100))
	}},
	"MachinesByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.MachinesByID(ctx, []domain.MachineID{b.machine}))
	}},
	"UpdateMachine": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateMachine(ctx, machine.Machine{
			ID: b.machine, Name: "mine", AutoStop: machine.AutoStop1h, State: machine.Failed, Desired: machine.Stopped, Nodes: 1,
		}))
	}},
	"DeleteMachine": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.DeleteMachine(ctx, b.machine))
	}},
	"SetBootstrap": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetBootstrap(ctx, b.machineAgent, []byte("mine"), now))
	}},
	"TakeBootstrap": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		taken, err := tx.TakeBootstrap(ctx, b.machineAgent, []byte("boot"+b.machine), now)
		if taken {
			return 1, err
		}
		return 0, err
	}},
	"SetEngines": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetEngines(ctx, b.machineAgent, []machine.Engine{{Name: "mine"}}))
	}},
	"Busy": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		busy, err := tx.Busy(ctx, b.machine)
		if busy.Waiting {
			busy.Attempts++
		}
		return busy.Attempts + busy.Statements, err
	}},
	"WaitingRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.WaitingRuns(ctx, b.machine))
	}},
	"Metrics": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Metrics(ctx, b.machine, time.Time{}, now.Add(time.Hour)))
	}},
	"SaveMetrics": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SaveMetrics(ctx, b.machine, machine.Metrics{At: now}))
	}},
	// Inserts that refer to another workspace's row, which does not exist here.
	"InsertAttempt": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertAttempt(ctx, job.Attempt{ID: "att_new", RunID: b.run, Number: 9, AgentID: b.agent, Status: job.AttemptLost, CreatedAt: now}))
	}},
	"InsertAPIKey": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertAPIKey(ctx, identity.APIKey{ID: "key_new", Role: domain.RoleViewer, CreatedBy: b.user, CreatedAt: now}, []byte("h")))
	}},
	"InsertLogSegment": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertLogSegment(ctx, b.attempt, job.LogSegment{End: 1, Key: "mine"}))
	}},
}

func refused(err error) bool { return pq.As(err) != nil }

// own are the methods without ids. They change only the workspace of the transaction, as the
// comparison at the end shows.
var own = []string{
	"Workspace", "TakeSample", "Overview", "Members", "InsertMember", "LockAdmins", "InsertInvitation", "Agents", "LockWorkspaceAgent", "InsertAgent", "Jobs", "InsertJob",
	"SampleJobs", "InsertRun", "OtherReadyRuns", "InsertLog", "Quotas", "UpdateQuota", "LockQuota", "QuotaLimit", "InsertAudit", "Notify", "InsertMachine", "Prices",
	"Databases", "DatabaseNames", "InsertDatabase", "KeepLakeAnswer", "InsertLineage",
	"Provider", "SaveProvider", "Storage", "SaveStorage", "SaveExternals", "InsertStatement",
	"InsertExperiment", "Experiments",
	"OldestOpen", "ChangedRuns", "ChangedStatements", "ChangedMachines",
}

// TestWorkspacesAreApart calls every method of a transaction in one workspace with the ids of
// another. Those rows are not found, and do not change.
func TestWorkspacesAreApart(t *testing.T) {
	trespasses := maps.Clone(trespasses)
	maps.Copy(trespasses, lakeTrespasses)
	maps.Copy(trespasses, maintenanceTrespasses)
	maps.Copy(trespasses, trackingTrespasses)
	s, dsn := openDSN(t)
	db := superuser(t, dsn)
	victim, intruder := newTenant(t, s, "victim"), newTenant(t, s, "intruder")
	b := victim.furnish()
	before := contents(t, db, b.ws)
	ctx := t.Context()
	for method := range reflect.TypeFor[*store.Tx]().Methods() {
		tp, known := trespasses[method.Name]
		if !known {
			require.Contains(t, own, method.Name, "*store.Tx has a new method: say here how it behaves in another workspace")
			continue
		}
		t.Run(method.Name, func(t *testing.T) {
			for _, rollback := range []bool{true, false} {
				err := s.In(ctx, intruder.admin, func(tx *store.Tx) error {
					found, err := tp.call(ctx, tx, b)
					require.Zero(t, found)
					require.True(t, tp.want(err), "%v", err)
					if rollback {
						return errMine
					}
					return err
				})
				require.True(t, err == nil || rollback || tp.want(domain.AsError(err)) || tp.want(err), "%v", err)
			}
		})
	}
	in(t, s, intruder.admin, func(ctx context.Context, tx *store.Tx) error {
		jobs, err := tx.Jobs(ctx, job.Filter{}, "", 100)
		require.Empty(t, jobs)
		require.NoError(t, err)
		runs, err := tx.Runs(ctx, job.RunFilter{}, "", 100)
		require.Empty(t, runs)
		require.NoError(t, err)
		runs, _, err = tx.ChangedRuns(ctx, domain.Position{})
		require.Empty(t, runs)
		require.NoError(t, err)
		statements, _, err := tx.ChangedStatements(ctx, statement.Filter{}, domain.Position{}, 1000)
		require.Empty(t, statements)
		require.NoError(t, err)
		machines, _, err := tx.ChangedMachines(ctx, machine.KindCompute, domain.Position{})
		require.Empty(t, machines)
		require.NoError(t, err)
		agents, err := tx.Agents(ctx, "", 100)
		require.Len(t, agents, 1)
		require.NoError(t, err)
		members, err := tx.Members(ctx, "", 100)
		require.Len(t, members, 1)
		require.NoError(t, err)
		ready, err := tx.OtherReadyRuns(ctx, "run_0", "", now.Add(time.Hour))
		require.False(t, ready)
		require.NoError(t, err)
		o, err := tx.Overview(ctx, now.Add(-time.Hour))
		require.Equal(t, identity.Overview{Agents: 1}, o)
		return err
	})
	// A log written under another's attempt id is stored in the writer's own workspace, where no
	// attempt has that id.
	in(t, s, intruder.admin, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertLog(ctx, []job.LogAppend{chunkAt(b.attempt, 0, []byte("forged"))})
	})
	require.Equal(t, "secret\n", string(victim.whole(b.attempt, 0, 100)))
	require.Equal(t, before, contents(t, db, b.ws), "another workspace's transaction changed something")
}

// contents returns all rows of the workspace, by table, as text.
func contents(t testing.TB, db *sql.DB, ws domain.WorkspaceID) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id'
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace`)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, text string
		require.NoError(t, rows.Scan(&name))
		require.NoError(t, db.QueryRow(fmt.Sprintf(`SELECT COALESCE(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM %s x WHERE workspace_id = $1`, name), ws).Scan(&text))
		all[name] = text
	}
	require.NoError(t, rows.Err())
	require.Greater(t, len(all), 10)
	return all
}

// TestPoliciesHoldWithoutTheStore: app gets no rows, even from SQL that names another workspace, or
// none.
func TestPoliciesHoldWithoutTheStore(t *testing.T) {
	s, dsn := openDSN(t)
	db := superuser(t, dsn)
	victim, intruder := newTenant(t, s, "victim"), newTenant(t, s, "intruder")
	b := victim.furnish()
	tables := contents(t, db, b.ws)
	as := func(ws string, check func(*sql.Tx)) {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.Exec(`SELECT set_config('role', 'millpond_app', true)`)
		require.NoError(t, err)
		if ws != "" {
			_, err = tx.Exec(`SELECT set_config('app.workspace', $1, true)`, ws)
			require.NoError(t, err)
		}
		check(tx)
	}
	for _, ws := range []string{"", string(intruder.admin.Workspace())} {
		for name := range tables {
			as(ws, func(tx *sql.Tx) {
				var n int
				err := tx.QueryRow(fmt.Sprintf(`SELECT count(*) FROM %s WHERE workspace_id = $1`, name), b.ws).Scan(&n)
				require.True(t, refused(err) || err == nil && n == 0, "%s as %q: %d rows, %v", name, ws, n, err)
			})
			as(ws, func(tx *sql.Tx) {
				res, err := tx.Exec(fmt.Sprintf(`UPDATE %s SET workspace_id = workspace_id WHERE workspace_id = $1`, name), b.ws)
				if err == nil {
					n, _ := res.RowsAffected()
					require.Zero(t, n, name)
				}
			})
			as(ws, func(tx *sql.Tx) {
				res, err := tx.Exec(fmt.Sprintf(`DELETE FROM %s WHERE workspace_id = $1`, name), b.ws)
				if err == nil {
					n, _ := res.RowsAffected()
					require.Zero(t, n, name)
				}
			})
		}
		as(ws, func(tx *sql.Tx) {
			var n int
			require.NoError(t, tx.QueryRow(`SELECT count(*) FROM users WHERE id = $1`, b.user).Scan(&n))
			require.Zero(t, n, "users are seen by the workspaces they belong to")
		})
		for _, forbidden := range []string{
			`INSERT INTO audit_events SELECT * FROM audit_events`, `UPDATE audit_events SET detail = ''`, `DELETE FROM audit_events`,
			`UPDATE users SET password_hash = ''`, `SELECT password_hash FROM users`, `SELECT * FROM signing_keys`, `SELECT create_log_partition(now()::date, 'a', 'b')`,
			`INSERT INTO workspaces VALUES ('ws_x', 'x', now())`, `DELETE FROM log_chunks`, `TRUNCATE runs`, `CREATE TABLE mine ()`,
		} {
			as(ws, func(tx *sql.Tx) {
				_, err := tx.Exec(forbidden)
				require.ErrorContains(t, err, "permission denied", forbidden)
			})
		}
		as(ws, func(tx *sql.Tx) {
			_, err := tx.Exec(`INSERT INTO quotas VALUES ($1, 'x', 1)`, b.ws)
			require.ErrorContains(t, err, "row-level security")
		})
	}
}
