package store_test

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// global are the tables outside of workspaces. Every other table is a tenant table and must be
// fenced.
var global = map[string]bool{"users": true, "signing_keys": true, "replicas": true, "prices": true, "lineage_receiver": true, "goose_db_version": true}

// TestEveryTenantTableIsFenced reads the database's catalogue. A table of a workspace has
// workspace_id NOT NULL as the first column of its primary key and of its foreign keys to other
// tenant tables. It has row-level security, and the policy that binds app to one workspace.
func TestEveryTenantTableIsFenced(t *testing.T) {
	_, dsn := openDSN(t)
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT c.oid, c.relname, c.relrowsecurity,
			EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'workspace_id' AND a.attnotnull),
			COALESCE((SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] WHERE i.indrelid = c.oid AND i.indisprimary), ''),
			EXISTS (SELECT FROM pg_policies p WHERE p.tablename = c.relname AND p.roles = '{millpond_app}' AND p.qual LIKE '%workspace_id = current_workspace()%' AND p.with_check LIKE '%workspace_id = current_workspace()%'),
			(SELECT count(*) FROM pg_constraint k JOIN pg_class f ON f.oid = k.confrelid WHERE k.conrelid = c.oid AND k.contype = 'f' AND f.relname <> 'users'
				AND (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = k.conkey[1]) <> 'workspace_id')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition`)
	require.NoError(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var oid, loose int
		var name, key string
		var secured, column, policy bool
		require.NoError(t, rows.Scan(&oid, &name, &secured, &column, &key, &policy, &loose))
		if global[name] {
			continue
		}
		seen++
		require.True(t, secured, "%s has no row-level security", name)
		require.True(t, column, "%s has no workspace_id NOT NULL", name)
		require.Equal(t, "workspace_id", key, "primary key of %s", name)
		require.True(t, policy, "%s has no policy that binds app to its workspace", name)
		require.Zero(t, loose, "%s has a foreign key without workspace_id", name)
	}
	require.Greater(t, seen, 10)
}

// TestAppOwnsNothing: the role of tenant SQL owns no table, bypasses nothing, and reaches no
// partition directly.
func TestAppOwnsNothing(t *testing.T) {
	_, dsn := openDSN(t)
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	defer db.Close()
	var owned, super, direct int
	require.NoError(t, db.QueryRow(`SELECT (SELECT count(*) FROM pg_class WHERE relowner IN ('millpond_app'::regrole, 'millpond_system'::regrole)),
		(SELECT count(*) FROM pg_roles WHERE rolname IN ('millpond_app', 'millpond_system') AND (rolsuper OR rolbypassrls)),
		(SELECT count(*) FROM pg_class c WHERE c.relispartition AND has_table_privilege('millpond_app', c.oid, 'SELECT'))`).Scan(&owned, &super, &direct))
	require.Zero(t, owned)
	require.Zero(t, super)
	require.Zero(t, direct)
}

// TestAnotherWorkspaceIsNotThere: a workspace can neither find, list, change nor delete what
// another one has.
func TestAnotherWorkspaceIsNotThere(t *testing.T) {
	s := open(t)
	one, two := workspace(t, s, "one"), workspace(t, s, "two")
	jobs := &job.Jobs{Store: store.For[job.Tx](s), Clock: domain.SystemClock{}}
	j, err := jobs.Create(t.Context(), one, job.NewJob{Name: "mine", Spec: job.Spec{Command: "true"}}, domain.Idempotency{})
	require.NoError(t, err)

	_, err = jobs.Get(t.Context(), two, j.ID)
	require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
	name := "theirs"
	_, err = jobs.Update(t.Context(), two, j.ID, job.Change{Name: &name})
	require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
	require.True(t, domain.IsCode(jobs.Delete(t.Context(), two, j.ID), domain.CodeNotFound))
	list, err := jobs.List(t.Context(), two, job.Filter{}, domain.Page{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
	found, err := jobs.ByID(t.Context(), two, []domain.JobID{j.ID})
	require.NoError(t, err)
	require.Empty(t, found)
}

// TestAZeroScopeIsRefused before any SQL runs.
func TestAZeroScopeIsRefused(t *testing.T) {
	s := open(t)
	err := s.In(t.Context(), domain.Scope{}, func(*store.Tx) error { t.Fatal("ran"); return nil })
	require.ErrorIs(t, err, domain.ErrNoScope)
}

// TestMigrateTwiceAtOnce: several servers may start with one empty database.
func TestMigrateTwiceAtOnce(t *testing.T) {
	dsn := storetest.Database(t, func(context.Context, string) error { return nil })
	errs := make(chan error)
	for range 3 {
		go func() { errs <- store.Migrate(t.Context(), dsn) }()
	}
	for range 3 {
		require.NoError(t, <-errs)
	}
}
