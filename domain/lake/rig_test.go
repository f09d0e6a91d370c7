package lake_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// clock stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// rig is a catalog on a real database and real files, with one workspace.
type rig struct {
	t         testing.TB
	store     *store.Store
	files     *objects.Lake
	dir       string
	clock     *clock
	catalog   *lake.Catalog
	databases *lake.Databases
	scope     domain.Scope
	db        lake.Database
	reported  []error
	sql       *sql.DB
}

func newRig(t testing.TB) *rig {
	dsn := storetest.Database(t, store.Migrate)
	s, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	files, err := objects.OpenLake(t.Context(), "file://"+dir, objects.LakeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	r := &rig{t: t, store: s, files: files, dir: dir, clock: &clock{at: time.Now().UTC().Truncate(time.Microsecond)}}
	r.sql, err = sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.sql.Close() })
	r.databases = &lake.Databases{Store: store.For[lake.Tx](s), Clock: r.clock}
	r.catalog = r.another(files)
	r.scope = r.workspace("acme")
	r.db, err = r.databases.Find(t.Context(), r.scope, "lake")
	require.NoError(t, err)
	return r
}

// another is the catalog of another replica, with the given files.
func (r *rig) another(files lake.Files) *lake.Catalog {
	var mu sync.Mutex
	return lake.New(lake.Options{Store: store.For[lake.Tx](r.store), Quick: r.store, System: r.store.System(), Files: files, Clock: r.clock, Report: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		r.reported = append(r.reported, err)
	}})
}

func (r *rig) workspace(name string) domain.Scope {
	r.t.Helper()
	instance := &setup.Instance{Store: r.store.System(), Clock: r.clock}
	ws, _, _, err := instance.CreateWorkspace(r.t.Context(), name)
	require.NoError(r.t, err)
	return domain.NewScope(ws.ID, domain.Actor{Kind: domain.ActorUser, ID: "usr_1", Name: "ann@example.com"}, domain.RoleAdmin)
}

// as returns the workspace's scope for another actor or role.
func (r *rig) as(kind domain.ActorKind, id string, role domain.Role) domain.Scope {
	return domain.NewScope(r.scope.Workspace(), domain.Actor{Kind: kind, ID: id, Name: id}, role)
}

func ref(schema, name string) lake.Ref { return lake.Ref{Database: "lake", Schema: schema, Name: name} }

// path is where a file is on the disk.
func (r *rig) path(uri string) string {
	return strings.TrimPrefix(uri, "file://")
}

const twoColumns = `{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"},{"id":2,"name":"what","required":false,"type":"string"}]}`

func (r *rig) create(schema, name string) lake.Loaded {
	r.t.Helper()
	l, err := r.catalog.Create(r.t.Context(), r.scope, "lake", schema, lake.NewTable{Name: name, Schema: json.RawMessage(twoColumns)}, lake.Key{})
	require.NoError(r.t, err)
	return l
}

func (r *rig) load(schema, name string) lake.Loaded {
	r.t.Helper()
	l, err := r.catalog.Load(r.t.Context(), r.scope, ref(schema, name), lake.KindTable, lake.LoadOptions{})
	require.NoError(r.t, err)
	return l
}

func (r *rig) set(name, key, value string) (lake.Loaded, error) {
	return r.catalog.Commit(r.t.Context(), r.scope, lake.Change{
		Ref: ref("public", name), Updates: raw(r.t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{key: value}}}),
	}, lake.Key{})
}

func raw(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// client commits through the catalog what iceberg-go writes, as a client of the REST face does.
type client struct {
	catalog *lake.Catalog
	scope   domain.Scope
	ref     lake.Ref
}

// LoadTable implements table.CatalogIO.
func (c client) LoadTable(ctx context.Context, _ table.Identifier) (*table.Table, error) {
	l, err := c.catalog.Load(ctx, c.scope, c.ref, lake.KindTable, lake.LoadOptions{})
	if err != nil {
		return nil, err
	}
	meta, err := table.ParseMetadataBytes(l.Metadata)
	if err != nil {
		return nil, err
	}
	return table.New(table.Identifier{c.ref.Name}, meta, l.MetadataLocation, func(context.Context) (iceio.IO, error) { return iceio.LocalFS{}, nil }, c), nil
}

// CommitTable implements table.CatalogIO.
func (c client) CommitTable(ctx context.Context, _ table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	requirements, err := json.Marshal(reqs)
	if err != nil {
		return nil, "", err
	}
	changes, err := json.Marshal(updates)
	if err != nil {
		return nil, "", err
	}
	l, err := c.catalog.Commit(ctx, c.scope, lake.Change{Ref: c.ref, Requirements: requirements, Updates: changes}, lake.Key{})
	if lake.ReasonOf(err) == lake.CommitFailed {
		return nil, "", table.ErrCommitFailed
	}
	if err != nil {
		return nil, "", err
	}
	meta, err := table.ParseMetadataBytes(l.Metadata)
	return meta, l.MetadataLocation, err
}

func (r *rig) client(name string) client { return client{r.catalog, r.scope, ref("public", name)} }

func (c client) table(t testing.TB) *table.Table {
	t.Helper()
	found, err := c.LoadTable(t.Context(), nil)
	require.NoError(t, err)
	return found
}

// rowsOf makes an Arrow table of rows with these ids.
func rowsOf(t testing.TB, ids ...int64) arrow.Table {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "what", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.StringBuilder).Append("row")
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	return array.NewTableFromRecords(schema, []arrow.RecordBatch{batch})
}

// tryAppend appends rows once, with no more tries than the catalog's own.
func (c client) tryAppend(t testing.TB, ids ...int64) error {
	rows := rowsOf(t, ids...)
	defer rows.Release()
	_, err := c.table(t).AppendTable(t.Context(), rows, 1024, iceberg.Properties{})
	return err
}

func (c client) append(t testing.TB, ids ...int64) {
	t.Helper()
	require.NoError(t, c.tryAppend(t, ids...))
}

func (c client) ids(t testing.TB) (ids []int64) {
	t.Helper()
	all, err := c.table(t).Scan().ToArrowTable(t.Context())
	require.NoError(t, err)
	defer all.Release()
	for _, chunk := range all.Column(0).Data().Chunks() {
		ids = append(ids, chunk.(*array.Int64).Int64Values()...)
	}
	return ids
}

func reason(t testing.TB, want lake.Reason, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, lake.ReasonOf(err), "%v", err)
}

func code(t testing.TB, want domain.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, domain.AsError(err).Code, "%v", err)
}

// onDisk lists the workspace's files, relative to its directory.
func (r *rig) onDisk() (names []string) {
	root := filepath.Join(r.dir, string(r.scope.Workspace()))
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	require.NoError(r.t, err)
	return names
}
