package lake_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// together runs fn n times concurrently.
func together(n int, fn func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() { <-start; fn(i) })
	}
	close(start)
	all.Wait()
}

// TestParallelWriters: twenty writers append to one table through two replicas. Each row exists
// exactly once, and no failed try leaves a file.
func TestParallelWriters(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	replicas := []*lake.Catalog{r.catalog, r.another(r.files)}
	const writers = 20
	together(writers, func(i int) {
		c := client{replicas[i%2], r.scope, ref("public", "t")}
		for try := 0; ; try++ {
			err := c.tryAppend(t, int64(i))
			if err == nil {
				return
			}
			if !errors.Is(err, table.ErrCommitFailed) || try > 200 {
				t.Errorf("writer %d: %v", i, err)
				return
			}
		}
	})
	ids := r.client("t").ids(t)
	slices.Sort(ids)
	want := make([]int64, writers)
	for i := range want {
		want[i] = int64(i)
	}
	require.Equal(t, want, ids)
	row := r.load("public", "t").Table
	require.Equal(t, writers, row.Version)
	require.Equal(t, int64(writers), *row.RowCount)
	files := 0
	for _, name := range r.onDisk() {
		if strings.HasSuffix(name, ".metadata.json") {
			files++
		}
	}
	require.Equal(t, writers+1, files)
	require.Empty(t, r.reported)
}

// TestRaceIsRepeatedHere: a change that does not depend on the table's state succeeds without
// client retries, however many write at once.
func TestRaceIsRepeatedHere(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	replicas := []*lake.Catalog{r.catalog, r.another(r.files), r.another(r.files)}
	together(24, func(i int) {
		_, err := replicas[i%3].Commit(t.Context(), r.scope, lake.Change{
			Ref:     ref("public", "t"),
			Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{fmt.Sprintf("k%d", i): "v"}}}),
		}, lake.Key{})
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	})
	meta, err := table.ParseMetadataBytes(r.load("public", "t").Metadata)
	require.NoError(t, err)
	for i := range 24 {
		require.Equal(t, "v", meta.Properties()[fmt.Sprintf("k%d", i)])
	}
}

// TestRequirements that do not hold fail the commit, and change nothing.
func TestRequirements(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	c := r.client("t")
	c.append(t, 1)
	before := r.load("public", "t")
	snapshot := before.Table.Snapshot.ID
	set := []any{map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}}
	commit := func(requirements, updates any) error {
		_, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Requirements: raw(t, requirements), Updates: raw(t, updates)}, lake.Key{})
		return err
	}
	for name, requirement := range map[string]map[string]any{
		"uuid":      {"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"},
		"ref":       {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot + 1},
		"no ref":    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": nil},
		"field":     {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 17},
		"schema":    {"type": "assert-current-schema-id", "current-schema-id": 3},
		"partition": {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
		"spec":      {"type": "assert-default-spec-id", "default-spec-id": 4},
		"order":     {"type": "assert-default-sort-order-id", "default-sort-order-id": 5},
	} {
		t.Run(name, func(t *testing.T) { reason(t, lake.CommitFailed, commit([]any{requirement}, set)) })
	}
	reason(t, lake.AlreadyExists, commit([]any{map[string]any{"type": "assert-create"}}, set))
	stale := map[string]any{
		"snapshot-id": 77, "sequence-number": 1, "timestamp-ms": time.Now().UnixMilli(), "manifest-list": made.Table.Location + "/metadata/snap.avro",
		"summary": map[string]string{"operation": "append"}, "schema-id": 0,
	}
	reason(t, lake.CommitFailed, commit([]any{}, []any{map[string]any{"action": "add-snapshot", "snapshot": stale}}))
	stale["sequence-number"], stale["timestamp-ms"] = 2, time.Now().Add(-time.Hour).UnixMilli()
	reason(t, lake.CommitFailed, commit([]any{}, []any{map[string]any{"action": "add-snapshot", "snapshot": stale}}))
	for name, updates := range map[string]any{
		"unknown update": []any{map[string]any{"action": "explode"}}, "no action": []any{map[string]any{}}, "an object": map[string]any{}, "a number": 1,
		"unknown schema": []any{map[string]any{"action": "set-current-schema", "schema-id": 9}},
		"downgrade":      []any{map[string]any{"action": "upgrade-format-version", "format-version": 1}},
		"version 99":     []any{map[string]any{"action": "upgrade-format-version", "format-version": 99}},
		"other uuid":     []any{map[string]any{"action": "assign-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}},
	} {
		t.Run(name, func(t *testing.T) { code(t, domain.CodeInvalid, commit([]any{}, updates)) })
	}
	code(t, domain.CodeInvalid, commit([]any{map[string]any{"type": "assert-luck"}}, set))
	code(t, domain.CodeInvalid, commit("x", set))
	require.Equal(t, before.MetadataLocation, r.load("public", "t").MetadataLocation)
	l, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Requirements: raw(t, []any{}), Updates: raw(t, []any{})}, lake.Key{})
	require.NoError(t, err)
	require.Equal(t, before.MetadataLocation, l.MetadataLocation, "what changes nothing makes no new file")
}

// stagedCommit is the commit by which a client creates a staged table.
func stagedCommit(t *testing.T, staged lake.Loaded) lake.Change {
	meta, err := table.ParseMetadataBytes(staged.Metadata)
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(staged.Metadata, &fields))
	return lake.Change{
		Ref:          ref("public", "t"),
		Requirements: raw(t, []any{map[string]any{"type": "assert-create"}}),
		Updates: raw(t, []any{
			map[string]any{"action": "assign-uuid", "uuid": meta.TableUUID()},
			map[string]any{"action": "upgrade-format-version", "format-version": meta.Version()},
			map[string]any{"action": "add-schema", "schema": meta.CurrentSchema(), "last-column-id": meta.LastColumnID()},
			map[string]any{"action": "set-current-schema", "schema-id": -1},
			map[string]any{"action": "add-spec", "spec": map[string]any{"spec-id": 0, "fields": []any{}}},
			map[string]any{"action": "set-default-spec", "spec-id": -1},
			map[string]any{"action": "add-sort-order", "sort-order": map[string]any{"order-id": 0, "fields": []any{}}},
			map[string]any{"action": "set-default-sort-order", "sort-order-id": -1},
			map[string]any{"action": "set-location", "location": staged.Table.Location},
			map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}},
		}),
	}
}

// TestStageCreate: staging stores no table, and one of two commits wins.
func TestStageCreate(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	stage := func() lake.Loaded {
		l, err := r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(twoColumns), Stage: true, Properties: map[string]string{"format-version": "3"}}, lake.Key{})
		require.NoError(t, err)
		return l
	}
	one, two := stage(), stage()
	require.Empty(t, one.MetadataLocation)
	require.NotEqual(t, one.Table.Location, two.Table.Location)
	require.DirExists(t, r.path(one.Table.Location)+"/data")
	require.DirExists(t, r.path(one.Table.Location)+"/metadata")
	_, err := r.catalog.Load(ctx, r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	reason(t, lake.NoSuchTable, err)
	l, err := r.catalog.Commit(ctx, r.scope, stagedCommit(t, one), lake.Key{})
	require.NoError(t, err)
	require.Equal(t, one.Table.Location, l.Table.Location)
	require.Equal(t, one.Table.UUID, l.Table.UUID)
	require.Equal(t, 3, l.Table.FormatVersion)
	_, err = r.catalog.Commit(ctx, r.scope, stagedCommit(t, two), lake.Key{})
	reason(t, lake.AlreadyExists, err)
	r.client("t").append(t, 1, 2)
	require.ElementsMatch(t, []int64{1, 2}, r.client("t").ids(t))
	change := stagedCommit(t, two)
	change.Ref.Name, change.Requirements = "u", nil
	_, err = r.catalog.Commit(ctx, r.scope, change, lake.Key{})
	reason(t, lake.NoSuchTable, err)
	change.Ref, change.Requirements = ref("nowhere", "u"), raw(t, []any{map[string]any{"type": "assert-create"}})
	_, err = r.catalog.Commit(ctx, r.scope, change, lake.Key{})
	reason(t, lake.NoSuchNamespace, err)
}

// TestTransactions change all of their tables or none.
func TestTransactions(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	a, b := r.create("public", "a"), r.create("public", "b")
	set := func(name, uuid string) lake.Change {
		ch := lake.Change{Ref: ref("public", name), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"k": "v"}}})}
		if uuid != "" {
			ch.Requirements = raw(t, []any{map[string]any{"type": "assert-table-uuid", "uuid": uuid}})
		}
		return ch
	}
	files := len(r.onDisk())
	err := r.catalog.CommitAll(ctx, r.scope, "lake", []lake.Change{set("a", a.Table.UUID), set("b", a.Table.UUID)}, lake.Key{})
	reason(t, lake.CommitFailed, err)
	reason(t, lake.NoSuchTable, r.catalog.CommitAll(ctx, r.scope, "lake", []lake.Change{set("a", ""), set("c", "")}, lake.Key{}))
	code(t, domain.CodeInvalid, r.catalog.CommitAll(ctx, r.scope, "lake", []lake.Change{set("a", ""), set("A", "")}, lake.Key{}))
	require.Equal(t, a.MetadataLocation, r.load("public", "a").MetadataLocation)
	require.Len(t, r.onDisk(), files)
	require.NoError(t, r.catalog.CommitAll(ctx, r.scope, "lake", []lake.Change{set("b", b.Table.UUID), set("a", a.Table.UUID)}, lake.Key{}))
	require.Equal(t, 1, r.load("public", "a").Table.Version)
	require.Equal(t, 1, r.load("public", "b").Table.Version)
	replicas := []*lake.Catalog{r.catalog, r.another(r.files)}
	together(12, func(i int) {
		changes := []lake.Change{set("a", ""), set("b", "")}
		for j := range changes {
			changes[j].Updates = raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{fmt.Sprintf("k%d", i): "v"}}})
		}
		if i%2 == 0 {
			slices.Reverse(changes)
		}
		if err := replicas[i%2].CommitAll(ctx, r.scope, "lake", changes, lake.Key{}); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	})
	require.Equal(t, 13, r.load("public", "a").Table.Version)
	require.Equal(t, 13, r.load("public", "b").Table.Version)
}

// TestDeleteAfterCommit removes metadata files that fell off the log, unless the table disables
// that.
func TestDeleteAfterCommit(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	set := func(key, value string) map[string]string {
		t.Helper()
		l, err := r.set("t", key, value)
		require.NoError(t, err)
		var meta struct {
			Properties map[string]string `json:"properties"`
		}
		require.NoError(t, json.Unmarshal(l.Metadata, &meta))
		return meta.Properties
	}
	set("write.metadata.previous-versions-max", "2")
	for i := range 6 {
		require.NotContains(t, set("k", fmt.Sprint(i)), "write.metadata.delete-after-commit.enabled")
	}
	require.Len(t, r.onDisk(), 3)
	for _, name := range r.onDisk() {
		require.Regexp(t, `/metadata/0000[567]-`, name)
	}
	set("write.metadata.delete-after-commit.enabled", "false")
	set("k", "x")
	require.Len(t, r.onDisk(), 5)
}

// TestAHundredMetadataFilesStay if the table sets no number.
func TestAHundredMetadataFilesStay(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	for i := range 110 {
		_, err := r.set("t", "k", fmt.Sprint(i))
		require.NoError(t, err)
	}
	require.Len(t, r.onDisk(), 101)
}

// TestIdempotency: the same key returns the same answer for half an hour. Another request under it
// is refused.
func TestIdempotency(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	key := lake.Key{Key: "019a0000-0000-7000-8000-000000000001", Hash: []byte("create t")}
	create := func(k lake.Key) (lake.Loaded, error) {
		return r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(twoColumns)}, k)
	}
	first, err := create(key)
	require.NoError(t, err)
	second, err := create(key)
	require.NoError(t, err)
	require.Equal(t, first.MetadataLocation, second.MetadataLocation)
	require.JSONEq(t, string(first.Metadata), string(second.Metadata))
	_, err = create(lake.Key{Key: key.Key, Hash: []byte("create u")})
	code(t, domain.CodeConflict, err)
	other := lake.Key{Key: "other", Hash: []byte("create t")}
	_, err = create(other)
	reason(t, lake.AlreadyExists, err)
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "t"), lake.KindTable, false, lake.Key{Key: "drop", Hash: []byte("d")}))
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "t"), lake.KindTable, false, lake.Key{Key: "drop", Hash: []byte("d")}), "again")
	_, err = create(other)
	reason(t, lake.AlreadyExists, err)
	r.clock.move(lake.AnswerTime + time.Second)
	_, err = create(other)
	require.NoError(t, err)
	l, err := r.catalog.CreateSchema(ctx, r.scope, "lake", "s", map[string]string{"a": "b"}, lake.Key{Key: "s", Hash: []byte("s")})
	require.NoError(t, err)
	again, err := r.catalog.CreateSchema(ctx, r.scope, "lake", "s", map[string]string{"a": "b"}, lake.Key{Key: "s", Hash: []byte("s")})
	require.NoError(t, err)
	require.Equal(t, l, again)
}

// TestLineage: loads and commits of statements and runs are recorded as reads and writes. People
// leave only audit rows.
func TestLineage(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	r.client("t").append(t, 1)
	task, st := r.as(domain.ActorRun, "att_1", domain.RoleEditor), r.as(domain.ActorStatement, "stm_1", domain.RoleEditor)
	require.NoError(t, r.store.In(t.Context(), r.scope, func(tx *store.Tx) error {
		return tx.InsertStatement(t.Context(), statement.Statement{
			ID: "stm_1", Query: "INSERT", Database: "lake", Schema: "public", CreatedBy: r.scope.Actor(), Role: domain.RoleEditor, CreatedAt: r.clock.Now(),
			State: statement.Running, Replica: "r1",
		})
	}))
	client{r.catalog, st, ref("public", "t")}.append(t, 2)
	written := r.load("public", "t").Table.Snapshot.ID
	require.Error(t, client{r.catalog, task, ref("public", "t")}.tryAppend(t, 3), "there is no such task any more")
	_, err := r.catalog.Load(t.Context(), st, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	require.NoError(t, err)
	_, err = r.catalog.Load(t.Context(), task, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	require.NoError(t, err)
	of := func(s domain.Scope) (found lake.Lineage) {
		require.NoError(t, r.store.In(t.Context(), r.scope, func(tx *store.Tx) (err error) {
			found, err = tx.LineageOf(t.Context(), s.Actor())
			return err
		}))
		return found
	}
	row := r.load("public", "t").Table
	l := of(st)
	require.Len(t, l.Written, 1)
	require.Equal(t, written, l.Written[0].SnapshotID)
	require.Equal(t, [3]string{"lake", "public", "t"}, [3]string{l.Written[0].Database, l.Written[0].Schema, l.Written[0].Name})
	require.NotEmpty(t, l.Read)
	l = of(task)
	require.NotEmpty(t, l.Read)
	require.Empty(t, l.Written)
	require.Empty(t, of(r.scope))

	// A write to a branch is recorded, though the table's current snapshot stays.
	at := time.Now().UnixMilli()
	added := snapshotAt(row.Location, 77, at)
	added["sequence-number"] = 3
	_, err = r.catalog.Commit(t.Context(), st, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{
		map[string]any{"action": "add-snapshot", "snapshot": added},
		map[string]any{"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 77},
	})}, lake.Key{})
	require.NoError(t, err)
	require.Equal(t, written, r.load("public", "t").Table.Snapshot.ID)
	l = of(st)
	require.Len(t, l.Written, 2)
	require.Contains(t, []int64{l.Written[0].SnapshotID, l.Written[1].SnapshotID}, int64(77))

	// So is altering or renaming a table, without a snapshot.
	unsnapshot := func(name string) bool {
		return slices.ContainsFunc(of(st).Written, func(e lake.LineageEntry) bool { return e.SnapshotID == 0 && e.Name == name })
	}
	require.False(t, unsnapshot("t"))
	_, err = r.catalog.Commit(t.Context(), st, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{
		map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}},
	})}, lake.Key{})
	require.NoError(t, err)
	require.True(t, unsnapshot("t"))
	r.create("public", "before")
	require.NoError(t, r.catalog.Rename(t.Context(), st, lake.KindTable, ref("public", "before"), ref("public", "after"), lake.Key{}))
	require.True(t, unsnapshot("before"))
}

// TestWriterThatIsOver: a writer that has ended changes nothing more.
func TestWriterThatIsOver(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	made := r.create("public", "t")
	id := r.create("public", "gone").Table.ID
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "gone"), lake.KindTable, false, lake.Key{}))
	over := r.as(domain.ActorRun, "att_1", domain.RoleEditor) // no such attempt exists
	set := raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}})
	refused := map[string]error{}
	_, refused["create"] = r.catalog.Create(ctx, over, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns)}, lake.Key{})
	_, refused["properties"] = r.catalog.Commit(ctx, over, lake.Change{Ref: ref("public", "t"), Updates: set}, lake.Key{})
	refused["commit all"] = r.catalog.CommitAll(ctx, over, "lake", []lake.Change{{Ref: ref("public", "t"), Updates: set}}, lake.Key{})
	refused["drop"] = r.catalog.Drop(ctx, over, ref("public", "t"), lake.KindTable, false, lake.Key{})
	refused["rename"] = r.catalog.Rename(ctx, over, lake.KindTable, ref("public", "t"), ref("public", "u"), lake.Key{})
	_, refused["register"] = r.catalog.Register(ctx, over, "lake", "public", lake.Registration{Name: "t", MetadataLocation: made.MetadataLocation, Overwrite: true}, lake.KindTable, lake.Key{})
	_, refused["undrop"] = r.catalog.Undrop(ctx, over, id)
	_, refused["create schema"] = r.catalog.CreateSchema(ctx, over, "lake", "s", nil, lake.Key{})
	_, refused["update schema"] = r.catalog.UpdateSchema(ctx, over, "lake", "public", map[string]string{"a": "b"}, nil, lake.Key{})
	refused["drop schema"] = r.catalog.DropSchema(ctx, over, "lake", "public", lake.Key{})
	for what, err := range refused {
		require.True(t, domain.IsCode(err, domain.CodeConflict), "%s: %v", what, err)
		require.ErrorContains(t, err, "has ended", what)
	}
	require.Equal(t, made.MetadataLocation, r.load("public", "t").MetadataLocation)
}

// TestSnapshotOfTomorrow is refused: every commit after it would be too old.
func TestSnapshotOfTomorrow(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	commit := func(ahead time.Duration) error {
		added := snapshotAt(made.Table.Location, 1, r.clock.Now().Add(ahead).UnixMilli())
		_, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{
			map[string]any{"action": "add-snapshot", "snapshot": added}, map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
		})}, lake.Key{})
		return err
	}
	code(t, domain.CodeInvalid, commit(11*time.Minute))
	require.Nil(t, r.load("public", "t").Table.Snapshot)
	require.NoError(t, commit(9*time.Minute))
}
