package store_test

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// schemaQueries print the schema from the catalogue, in one form for every version of PostgreSQL.
// pg_dump's form differs between versions, and not every installation has it. Partitions are left
// out: they are days.
var schemaQueries = []string{
	// tables with columns and constraints
	`SELECT format(E'CREATE TABLE %I (\n%s\n)%s;', c.relname, (
			SELECT string_agg('    ' || line, E',\n' ORDER BY kind, n, line) FROM (
				SELECT 1 AS kind, a.attnum AS n, format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
					|| CASE WHEN a.attcollation <> t.typcollation THEN format(' COLLATE %I', co.collname) ELSE '' END
					|| CASE WHEN a.attstorage <> t.typstorage THEN ' STORAGE ' || CASE a.attstorage WHEN 'e' THEN 'external' WHEN 'm' THEN 'main' ELSE a.attstorage::text END ELSE '' END
					|| CASE WHEN a.attgenerated = 's' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
						ELSE COALESCE(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') END
					|| CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END AS line
				FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation co ON co.oid = a.attcollation
				LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
				WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
				UNION ALL
				SELECT 2, 0, format('CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)) FROM pg_constraint k
				WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f', 'c') AND k.conparentid = 0) lines),
			CASE WHEN c.relkind = 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(c.oid) ELSE '' END)
			|| CASE WHEN c.relrowsecurity THEN format(E'\nALTER TABLE %I ENABLE ROW LEVEL SECURITY;', c.relname) ELSE '' END
			|| CASE WHEN c.relforcerowsecurity THEN format(E'\nALTER TABLE %I FORCE ROW LEVEL SECURITY;', c.relname) ELSE '' END
		FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'goose_db_version'
		ORDER BY c.relname`,
	// indexes without a constraint
	`SELECT replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') || ';' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
		WHERE t.relnamespace = 'public'::regnamespace AND NOT t.relispartition AND t.relname <> 'goose_db_version'
			AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u')) ORDER BY c.relname`,
	// policies
	`SELECT format('CREATE POLICY %I ON %I FOR %s TO %s', policyname, tablename, cmd, array_to_string(roles, ', '))
			|| COALESCE(' USING (' || qual || ')', '') || COALESCE(' WITH CHECK (' || with_check || ')', '') || ';'
		FROM pg_policies WHERE schemaname = 'public' ORDER BY tablename, policyname`,
	// triggers
	`SELECT replace(pg_get_triggerdef(t.oid), ' ON public.', ' ON ') || ';' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE NOT t.tgisinternal AND NOT c.relispartition ORDER BY c.relname, t.tgname`,
	// functions
	`SELECT rtrim(pg_get_functiondef(p.oid), E'\n') || ';' FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace ORDER BY p.proname`,
	// grants on tables, on functions, on the schema
	`SELECT format('GRANT %s ON %I TO %s;', string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type), c.relname, g.grantee::regrole)
		FROM pg_class c, aclexplode(c.relacl) g WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition AND c.relkind IN ('r', 'p')
			AND g.grantee <> c.relowner GROUP BY c.relname, g.grantee ORDER BY c.relname, g.grantee::regrole::text`,
	`SELECT format('GRANT %s (%s) ON %I TO %s;', g.privilege_type, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), c.relname, g.grantee::regrole)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) g WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
		GROUP BY c.relname, g.grantee, g.privilege_type ORDER BY c.relname, g.grantee::regrole::text, g.privilege_type`,
	`SELECT format('GRANT EXECUTE ON FUNCTION %I TO %s;', p.proname, CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END)
		FROM pg_proc p, aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) g
		WHERE p.pronamespace = 'public'::regnamespace AND g.grantee <> p.proowner ORDER BY 1`,
	`SELECT format('GRANT %s ON SCHEMA public TO %s;', g.privilege_type, g.grantee::regrole) FROM pg_namespace n, aclexplode(n.nspacl) g
		WHERE n.nspname = 'public' AND g.grantee IN ('millpond_app'::regrole, 'millpond_system'::regrole) ORDER BY 1`,
	`SELECT format('ROLE %s%s%s%s%s;', rolname, CASE WHEN rolcanlogin THEN ' LOGIN' ELSE ' NOLOGIN' END, CASE WHEN rolsuper THEN ' SUPERUSER' ELSE '' END,
			CASE WHEN rolbypassrls THEN ' BYPASSRLS' ELSE '' END, CASE WHEN rolcreaterole OR rolcreatedb THEN ' CREATE' ELSE '' END)
		FROM pg_roles WHERE rolname LIKE 'millpond\_%' ORDER BY 1`,
}

func schema(t testing.TB, db *sql.DB) string {
	t.Helper()
	text := "-- The schema after all migrations, read from the catalogue. UPDATE_GOLDEN=1 go test ./store writes it.\n"
	for _, query := range schemaQueries {
		rows, err := db.QueryContext(t.Context(), query)
		require.NoError(t, err)
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			text += "\n" + strings.TrimSpace(line) + "\n"
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	return text
}

// TestSchemaGolden stores the migrated schema in one readable file, the same for every version of
// PostgreSQL.
func TestSchemaGolden(t *testing.T) {
	got := schema(t, superuser(t, storetest.Database(t, store.Migrate)))
	const path = "schema.sql"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644)) //nolint:gosec // a source file
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n"))
	require.Empty(t, diff, "the schema has changed: UPDATE_GOLDEN=1 go test ./store")
}

// TestMigrationsGoDownAndUp: each step down leaves nothing behind, and migrating up again gives the
// same schema.
func TestMigrationsGoDownAndUp(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	db := superuser(t, dsn)
	before := schema(t, db)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	require.NoError(t, err)
	_, err = provider.DownTo(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, count(t, db, `SELECT count(*) FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
		AND relname NOT LIKE 'goose%'`), "a table is left")
	require.Zero(t, count(t, db, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace`), "a function is left")
	require.NoError(t, store.Migrate(t.Context(), dsn))
	require.Equal(t, before, schema(t, db))
	require.NoError(t, store.Migrate(t.Context(), dsn), "twice is no harm")
}

// TestAnOwnerWhoIsNoSuperuser can migrate and serve with the right to create roles. Managed
// databases give no more.
func TestAnOwnerWhoIsNoSuperuser(t *testing.T) {
	storetest.Database(t, store.Migrate) // the roles belong to the cluster, and exist
	dsn := storetest.Database(t, nil)
	db := superuser(t, dsn)
	execute(t, db, `CREATE ROLE plain LOGIN CREATEROLE PASSWORD 'plain'`)
	execute(t, db, `GRANT millpond_app, millpond_system TO plain WITH ADMIN OPTION`)
	execute(t, db, `ALTER SCHEMA public OWNER TO plain`)
	t.Cleanup(func() {
		_, err := db.Exec(`ALTER SCHEMA public OWNER TO CURRENT_USER; DROP OWNED BY plain CASCADE; DROP ROLE plain`)
		require.NoError(t, err)
	})
	address, err := url.Parse(dsn)
	require.NoError(t, err)
	address.User = url.UserPassword("plain", "plain")
	require.NoError(t, store.Migrate(t.Context(), address.String()))
	s, err := store.Open(t.Context(), address.String(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	w := newTenant(t, s, "one")
	w.connect("s1", 4)
	id := w.attempt()
	w.write(w.services.Logs.Writer(w.agent, "s1"), id, 0, []byte("hello"))
	require.NoError(t, w.exit(id, 0))
	w.seal()
	require.NoError(t, w.system.Housekeep(t.Context(), w.clock.Now().AddDate(0, 0, 5)))
	require.Zero(t, count(t, db, `SELECT count(*) FROM log_chunks`))
	require.Equal(t, "hello", string(w.whole(id, 0, 100)))
	require.NotEmpty(t, w.member("viewer", domain.RoleViewer))
}
