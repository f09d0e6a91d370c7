package enginetest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"github.com/twmb/avro/ocf"
)

// TestEquality reads tables with equality deletes that DuckDB's own reader does not apply.
func TestEquality(t *testing.T) {
	base := newLakeRig(t)
	for name, test := range map[string]func(r *lakeRig){
		"null in a key":               func(r *lakeRig) { nullInKey(r, 2) },
		"null in a key, with vectors": func(r *lakeRig) { nullInKey(r, 3) },
		"promoted keys":               promotedKeys,
		"nested keys":                 nestedKeys,
		"floating-point keys":         floatKeys,
		"many keys":                   manyKeys,
		"rows of the same commit":     sameCommit,
		"partitions outside the key":  partitionsOutside,
		"partitions of null":          partitionsOfNull,
		"across specs":                acrossSpecs,
		"void partitions":             voidPartitions,
		"dropped keys":                droppedKeys,
		"a dropped field":             droppedField,
		"awkward names":               awkwardNames,
		"nested columns evolved":      nestedEvolved,
		"time travel":                 equalityTravel,
		"views and other statements":  equalityElsewhere,
		"hidden by no filter":         equalityFiltered,
	} {
		t.Run(name, func(t *testing.T) { test(base.of(t)) })
	}
}

func nullInKey(r *lakeRig, version int) {
	w := r.create(fmt.Sprint("eq_null", version), version, columns("id long", "k string", "n long"))
	w.append(`[{"id": 1, "k": null, "n": 1}, {"id": 2, "k": "", "n": 2}, {"id": 3, "k": "null", "n": null}, {"id": 4, "k": "x", "n": null}, {"id": 5, "k": null, "n": 5}]`)
	w.deleteEqual("k", `[{"k": "x"}]`).is("1|(null)|1", "2||2", "3|null|(null)", "5|(null)|5")
	w.delete(iceberg.EqualTo(reference("id"), int64(2))).is("1|(null)|1", "3|null|(null)", "5|(null)|5")
	w.append(`[{"id": 6, "k": "x", "n": null}, {"id": 7, "k": null, "n": null}]`)
	w.is("1|(null)|1", "3|null|(null)", "5|(null)|5", "6|x|(null)", "7|(null)|(null)")
	w.deleteEqual("k,n", `[{"k": null, "n": 1}, {"k": "x", "n": 1}]`).is("3|null|(null)", "5|(null)|5", "6|x|(null)", "7|(null)|(null)")
	w.deleteEqual("n", `[{"n": null}]`).is("5|(null)|5")
	w.append(`[{"id": 8, "k": null, "n": null}]`).is("5|(null)|5", "8|(null)|(null)")
	w.delete(iceberg.EqualTo(reference("id"), int64(8))).is("5|(null)|5")
	w.deleteEqual("k", `[{"k": null}]`).is()
	r.answers("SELECT count(*) FROM "+w.name, "0")
	w.append(`[{"id": 9, "k": null, "n": 1}]`).is("9|(null)|1")
	r.answers("SELECT count(*), count(k), max(id) FROM "+w.name, "1|0|9")
}

func promotedKeys(r *lakeRig) {
	w := r.create("eq_promoted", 2, columns("id long", "i int", "d decimal(9,2)"))
	w.append(`[{"id": 1, "i": -2147483648, "d": "-1234567.89"}, {"id": 2, "i": 2147483647, "d": "1.10"}, {"id": 3, "i": null, "d": null}, {"id": 4, "i": 7, "d": "0.00"}, {"id": 5, "i": 8, "d": "9.99"}]`)
	w.deleteEqual("i", `[{"i": 7}, {"i": 9}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.UpdateColumn([]string{"i"}, kind(iceberg.PrimitiveTypes.Int64)).UpdateColumn([]string{"d"}, kind(iceberg.DecimalTypeOf(38, 2)))
	})
	w.is("1|-2147483648|-1234567.89", "2|2147483647|1.1", "3|(null)|(null)", "5|8|9.99")
	w.append(`[{"id": 6, "i": 9000000000, "d": "123456789012345678901234567890123456.78"}, {"id": 7, "i": 7, "d": "0.00"}]`)
	w.deleteEqual("i", `[{"i": -2147483648}, {"i": 9000000000}]`).is("2|2147483647|1.1", "3|(null)|(null)", "5|8|9.99", "7|7|0")
	w.deleteEqual("d", `[{"d": "1.10"}, {"d": "123456789012345678901234567890123456.78"}]`).is("3|(null)|(null)", "5|8|9.99", "7|7|0")
	w.deleteEqual("i,d", `[{"i": 8, "d": "9.99"}, {"i": 7, "d": "0.01"}, {"i": null, "d": null}]`).is("7|7|0")
	r.answers("SELECT id FROM eq_promoted WHERE i = 7 AND d < 1", "7")
}

const structOfTwo = `{"type": "struct", "fields": [{"id": 10, "name": "x", "type": "int", "required": false}, {"id": 11, "name": "y", "type": "string", "required": false}]}`

func nestedKeys(r *lakeRig) {
	w := r.create("eq_nested", 2, columns("id long", "s "+structOfTwo))
	w.append(`[{"id": 1, "s": {"x": 1, "y": "a"}}, {"id": 2, "s": {"x": 2, "y": null}}, {"id": 3, "s": {"x": null, "y": "c"}}, {"id": 4, "s": null}, {"id": 5, "s": {"x": 3, "y": "c"}}]`)
	w.deleteEqual("s.x", `[{"s": {"x": 2}}]`)
	w.is(`1|{"x":1,"y":"a"}`, `3|{"x":null,"y":"c"}`, `4|(null)`, `5|{"x":3,"y":"c"}`)
	w.evolve(func(u *table.UpdateSchema) {
		u.UpdateColumn([]string{"s", "x"}, kind(iceberg.PrimitiveTypes.Int64)).RenameColumn([]string{"s", "y"}, "z")
	})
	w.deleteEqual("s.z", `[{"s": {"z": "c"}}]`).is(`1|{"x":1,"z":"a"}`, `4|(null)`)
	w.deleteEqual("s.x", `[{"s": {"x": 1}}]`).is(`4|(null)`)
	w.append(`[{"id": 6, "s": {"x": 2, "z": "c"}}]`).is(`4|(null)`, `6|{"x":2,"z":"c"}`)
}

// floatKeys has keys that Iceberg forbids and some engines write.
func floatKeys(r *lakeRig) {
	w := r.create("eq_float", 2, columns("id long", "f float"))
	w.append(`[{"id": 1, "f": 0.1}, {"id": 2, "f": "NaN"}, {"id": 3, "f": -0.0}, {"id": 4, "f": null}, {"id": 5, "f": "-Inf"}, {"id": 6, "f": 1.5}, {"id": 7, "f": 2.5}]`)
	keys := r.create("eq_float_keys", 2, columns("id long", "f float"))
	w.deleteByFile(keys.append(`[{"f": 1.5}, {"f": 3}]`), 2).is("1|0.1", "2|NaN", "3|-0", "4|(null)", "5|-Inf", "7|2.5")
	keys = r.create("eq_float_nan", 2, columns("id long", "f float"))
	w.deleteByFile(keys.append(`[{"f": "NaN"}, {"f": 0}]`), 2).is("1|0.1", "4|(null)", "5|-Inf", "7|2.5")
	w.evolve(func(u *table.UpdateSchema) { u.UpdateColumn([]string{"f"}, kind(iceberg.PrimitiveTypes.Float64)) })
	keys = r.create("eq_double_keys", 2, columns("id long", "f double"))
	w.append(`[{"id": 8, "f": 0.1}, {"id": 9, "f": "NaN"}]`).deleteByFile(keys.append(`[{"f": 0.1}, {"f": 2.5}, {"f": null}]`), 2)
	w.is("1|0.10000000149011612", "5|-Inf", "9|NaN")
}

// deleteByFile deletes the rows that equal, in a column, those of another table's only file. It
// edits the manifest, because iceberg-go cannot write such a delete.
func (w *written) deleteByFile(keys *written, column int) *written {
	w.t.Helper()
	deletes := keys.onlyFile(iceberg.EntryContentEqDeletes)
	w.commit(func(tx *table.Transaction) error {
		return tx.NewRowDelta(nil).AddDeletes(deletes).Commit(w.t.Context())
	})
	for _, path := range files(w.t, strings.TrimPrefix(w.Location(), "file://"), "*-m*.avro") {
		rewrite(w.t, path, func(_, file map[string]any) {
			if file["file_path"] == deletes.FilePath() {
				file["equality_ids"] = []any{int32(column)}
			}
		})
	}
	return w
}

// onlyFile returns the only file of a table, as a file of deletes by its first column, or of data.
func (w *written) onlyFile(content iceberg.ManifestEntryContent) iceberg.DataFile {
	w.t.Helper()
	tasks, err := w.Scan().PlanFiles(w.t.Context())
	require.NoError(w.t, err)
	require.Len(w.t, tasks, 1)
	f := tasks[0].File
	b, err := iceberg.NewDataFileBuilder(w.Spec(), content, f.FilePath(), iceberg.ParquetFile, nil, nil, nil, f.Count(), f.FileSizeBytes())
	require.NoError(w.t, err)
	if content == iceberg.EntryContentEqDeletes {
		b = b.EqualityFieldIDs([]int{1})
	}
	return b.Build()
}

// sameCommit deletes rows and writes their replacements in one commit.
func sameCommit(r *lakeRig) {
	w := r.create("eq_upsert", 2, columns("id long", "k string")).append(`[{"id": 1, "k": "old"}, {"id": null, "k": "old"}, {"id": 3, "k": "stays"}]`)
	keys := r.create("eq_upsert_keys", 2, columns("id long")).append(`[{"id": 1}, {"id": null}, {"id": 7}]`).onlyFile(iceberg.EntryContentEqDeletes)
	rows := r.create("eq_upsert_rows", 2, columns("id long", "k string")).append(`[{"id": 1, "k": "new"}, {"id": null, "k": "new"}, {"id": 7, "k": "new"}]`).onlyFile(iceberg.EntryContentData)
	w.commit(func(tx *table.Transaction) error {
		return tx.NewRowDelta(nil).AddRows(rows).AddDeletes(keys).Commit(w.t.Context())
	})
	w.is("1|new", "(null)|new", "3|stays", "7|new")
}

// manyKeys deletes more keys than DuckDB compares fast, in an otherwise plain table. The table can
// also be changed.
func manyKeys(r *lakeRig) {
	w := r.create("eq_many", 2, columns("id long!", "k string"))
	w.append(numbered(0, 2000)).append(numbered(500, 700))
	w.deleteEqual("id", strings.ReplaceAll(numbered(0, 1000), `"k"`, `"no"`)).append(numbered(3, 5)).is(append(left(1000, 2000), left(3, 5)...)...)
	require.Contains(r.t, r.fails("SELECT nothing FROM eq_many").Message, "nothing")
	require.EqualValues(r.t, 2, r.changes("UPDATE eq_many SET k = 'new' WHERE id < 1001 AND id <> 3"))
	r.answers("SELECT k, count(*) FROM eq_many WHERE id < 1003 GROUP BY k", "k0|2", "new|2", "k2|1")
}

func partitionsOutside(r *lakeRig) {
	w := r.create("eq_part", 2, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{})).append(numbered(0, 9)).append(`[{"id": 4, "k": "k0"}]`)
	w.deleteEqual("id/k", `[{"id": 4, "k": "k0"}, {"id": 5, "k": "k1"}, {"id": 7, "k": "k1"}]`) // 5 is not in k1, and 4 is in both
	w.is(left(0, 9, 7)...)
	w.append(`[{"id": 4, "k": "k0"}]`).is(append(left(0, 9, 7), "4|k0")...)
	w.delete(iceberg.EqualTo(reference("id"), int64(0))).is(append(left(0, 9, 7, 0), "4|k0")...)

	w = r.create("eq_bucket", 2, columns("id long", "k date"), partition(2, "by_k", iceberg.MonthTransform{}))
	w.append(`[{"id": 1, "k": "2024-01-01"}, {"id": 1, "k": "2024-01-31"}, {"id": 1, "k": "2024-02-01"}, {"id": 2, "k": "1969-12-31"}, {"id": 2, "k": "1970-01-01"}]`)
	w.deleteEqual("id/k", `[{"id": 1, "k": "2024-01-15"}, {"id": 2, "k": "1969-12-01"}]`).is("1|2024-02-01", "2|1970-01-01")
}

func partitionsOfNull(r *lakeRig) {
	w := r.create("eq_parts_null", 2, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{}))
	w.append(numbered(0, 9)).append(`[{"id": 100, "k": null}, {"id": 101, "k": null}, {"id": 102, "k": "nil"}]`)
	w.deleteEqual("id,k", `[{"id": 1, "k": "k1"}, {"id": 4, "k": "k0"}, {"id": 100, "k": null}, {"id": 101, "k": "nil"}]`)
	w.is(append(left(0, 9, 1), "101|(null)", "102|nil")...)
	r.answers("SELECT id FROM eq_parts_null WHERE k IS NULL", "101")
	r.answers("SELECT id FROM eq_parts_null WHERE k = 'k1'", "4", "7")
}

func acrossSpecs(r *lakeRig) {
	w := r.create("eq_specs", 2, columns("id int", "k string")).append(`[{"id": 1, "k": "a"}, {"id": 2, "k": "b"}, {"id": null, "k": null}]`)
	w.respec(func(u *table.UpdateSpec) { u.AddIdentity("k") })
	w.append(`[{"id": 1, "k": "a"}, {"id": 2, "k": "b"}, {"id": 3, "k": null}]`)
	w.deleteEqual("id/k", `[{"id": 1, "k": "a"}, {"id": 2, "k": "a"}, {"id": 3, "k": null}]`) // only of files in partitions
	w.is("1|a", "2|b", "2|b", "(null)|(null)")
	w.respec(func(u *table.UpdateSpec) { u.RemoveField("k") })
	w.append(`[{"id": 2, "k": "c"}, {"id": 5, "k": "d"}]`)
	w.evolve(func(u *table.UpdateSchema) { u.UpdateColumn([]string{"id"}, kind(iceberg.PrimitiveTypes.Int64)) })
	w.deleteEqual("id", `[{"id": 2}]`).is("1|a", "(null)|(null)", "5|d") // of all files
	w.append(`[{"id": 2, "k": "e"}]`).is("1|a", "(null)|(null)", "5|d", "2|e")
	w.deleteEqual("id,k", `[{"id": null, "k": null}, {"id": 1, "k": null}]`).is("1|a", "5|d", "2|e")
}

func voidPartitions(r *lakeRig) {
	w := r.create("eq_void", 2, columns("id long", "k string"), partition(2, "none", iceberg.VoidTransform{})).append(numbered(0, 6))
	w.deleteEqual("id/k", `[{"id": 1, "k": "k2"}, {"id": 3, "k": null}]`).is(left(0, 6, 1, 3)...)
	w.respec(func(u *table.UpdateSpec) { u.AddIdentity("k") }).append(numbered(6, 9))
	w.respec(func(u *table.UpdateSpec) { u.RemoveField("k") }).deleteEqual("id/k", `[{"id": 7, "k": "k0"}]`)
	w.is(left(0, 9, 1, 3, 7)...) // an unpartitioned table has no partitions
}

func droppedKeys(r *lakeRig) {
	w := r.create("eq_dropped", 2, columns("id long", "k string", "n int"))
	w.append(`[{"id": 1, "k": "a", "n": 1}, {"id": 2, "k": "b", "n": 2}, {"id": 3, "k": null, "n": 3}, {"id": 4, "k": "d", "n": null}]`)
	w.deleteEqual("k", `[{"k": "a"}, {"k": null}]`).deleteEqual("n,k", `[{"n": 2, "k": "b"}, {"n": null, "k": "x"}]`)
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"k"}) }).is("4|(null)")
	w.append(`[{"id": 5, "n": 2}]`).is("4|(null)", "5|2")
	w.evolve(func(u *table.UpdateSchema) { u.AddColumn([]string{"k"}, iceberg.PrimitiveTypes.Int64, "", false, nil) })
	w.append(`[{"id": 6, "n": 6, "k": 60}]`).is("4|(null)|(null)", "5|2|(null)", "6|6|60")
	w.deleteEqual("k", `[{"k": null}]`).is("6|6|60")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"k"}).DeleteColumn([]string{"n"}) })
	w.is("6")
	require.Equal(r.t, []string{"id|BIGINT|YES|(null)|(null)|(null)"}, r.ok("DESCRIBE eq_dropped"))
}

// droppedField refuses only the table with a key that can no longer be read.
func droppedField(r *lakeRig) {
	w := r.create("eq_field", 2, columns("id long", "s "+structOfTwo, "t "+strings.NewReplacer("10", "20", "11", "21").Replace(structOfTwo)))
	w.append(`[{"id": 1, "s": {"x": 1, "y": "a"}, "t": {"x": 5, "y": "a"}}, {"id": 2, "s": {"x": 2, "y": null}, "t": null}]`)
	w.deleteEqual("t.x", `[{"t": {"x": 5}}]`)
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"t"}) }).is(`2|{"x":2,"y":null}`)
	w.deleteEqual("s.x", `[{"s": {"x": 1}}]`).is(`2|{"x":2,"y":null}`)
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"s", "x"}) })
	require.Contains(r.t, r.fails("FROM eq_field").Message, "in a field of a column that was dropped since, without the column")
}

func awkwardNames(r *lakeRig) {
	w := r.create(`eq "names`, 2, columns("filename string", "file_row_number long", "n long", "sequence string", "scope long"))
	w.append(`[{"filename": "a", "file_row_number": 7, "n": 1, "sequence": null, "scope": 0}, {"filename": null, "file_row_number": 8, "n": 2, "sequence": "it's", "scope": 1}]`)
	w.deleteEqual("filename,sequence", `[{"filename": "a", "sequence": null}, {"filename": null, "sequence": "x"}]`).is("(null)|8|2|it's|1")
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"n"}, "deletes sequence") }).is("(null)|8|2|it's|1")
	r.answers(`SELECT "deletes sequence" FROM `+quoted(w.name)+` WHERE filename IS NULL AND file_row_number = 8`, "2")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"filename"}) }).is("8|2|it's|1")
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"sequence"}, "Filename") }).is("8|2|it's|1")
	r.answers(`SELECT "FILENAME" FROM `+quoted(w.name), "it's")
}

func nestedEvolved(r *lakeRig) {
	w := r.create("eq_evolved", 2, columns("id long", "s "+structOfTwo, `l {"type": "list", "element-id": 30, "element-required": false, "element": "int"}`,
		`m {"type": "map", "key-id": 40, "key": "string", "value-id": 41, "value-required": false, "value": "int"}`, "k string"))
	w.append(`[{"id": 1, "s": {"x": 1, "y": "a"}, "l": [1, null], "m": [{"key": "p", "value": 1}], "k": null}, {"id": 2, "s": null, "l": null, "m": [], "k": "gone"}]`)
	w.deleteEqual("k", `[{"k": "gone"}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.UpdateColumn([]string{"s", "x"}, kind(iceberg.PrimitiveTypes.Int64)).UpdateColumn([]string{"l", "element"}, kind(iceberg.PrimitiveTypes.Int64)).UpdateColumn([]string{"m", "value"}, kind(iceberg.PrimitiveTypes.Int64))
		u.AddColumn([]string{"s", "z"}, iceberg.PrimitiveTypes.Date, "", false, nil).RenameColumn([]string{"k"}, "kk").MoveFirst([]string{"m"})
	})
	w.is(`[{"key":"p","value":1}]|1|{"x":1,"y":"a","z":null}|[1,null]|(null)`)
	w.append(`[{"m": [{"key": "q", "value": 9000000000}], "id": 3, "s": {"x": 9000000000, "y": null, "z": "2024-01-01"}, "l": [9000000000], "kk": "gone"}]`)
	w.is(`[{"key":"p","value":1}]|1|{"x":1,"y":"a","z":null}|[1,null]|(null)`, `[{"key":"q","value":9000000000}]|3|{"x":9000000000,"y":null,"z":"2024-01-01"}|[9000000000]|gone`)

	w = r.create("eq_default", 3, columns("id long")).append(`[{"id": 1}, {"id": 2}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"n"}, iceberg.PrimitiveTypes.Int64, "", false, iceberg.NewLiteral(int64(-7)))
	})
	w.append(`[{"id": 3, "n": -7}, {"id": 4, "n": null}, {"id": 5, "n": 5}]`).deleteEqual("n,id", `[{"n": -7, "id": 1}, {"n": null, "id": 2}]`).is("2|-7", "3|-7", "4|(null)", "5|5")
	w.deleteEqual("n", `[{"n": -7}]`).is("4|(null)", "5|5")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"n"}) }).is("4", "5")
}

func equalityTravel(r *lakeRig) {
	w := r.create("eq_travel", 2, columns("id long", "k string"))
	type version struct {
		snapshot int64
		rows     []string
	}
	var versions []version
	note := func(rows ...string) {
		versions = append(versions, version{w.CurrentSnapshot().SnapshotID, rows})
	}
	w.append(`[{"id": 1, "k": null}, {"id": 2, "k": "x"}, {"id": 3, "k": "y"}]`)
	note("1|(null)", "2|x", "3|y")
	w.deleteEqual("k", `[{"k": "x"}]`)
	note("1|(null)", "3|y")
	w.delete(iceberg.EqualTo(reference("id"), int64(3)))
	note("1|(null)")
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"n"}, iceberg.PrimitiveTypes.Int64, "", false, nil).RenameColumn([]string{"k"}, "kk")
	})
	w.append(`[{"id": 4, "kk": "x", "n": 4}]`)
	note("1|(null)|(null)", "4|x|4")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"kk"}) })
	w.append(`[{"id": 5, "n": 5}]`)
	note("1|(null)", "4|4", "5|5")
	tagged := versions[1].snapshot
	_, _, err := r.others.CommitTable(r.t.Context(), table.Identifier{"public", w.name}, nil, []table.Update{table.NewSetSnapshotRefUpdate("first", tagged, table.TagRef, 0, 0, 0)})
	require.NoError(r.t, err)
	w.reload().is("1|(null)", "4|4", "5|5")
	for _, v := range versions {
		r.answers(fmt.Sprintf("FROM eq_travel AT (VERSION /* of it */ => %d)", v.snapshot), v.rows...)
		r.answers(fmt.Sprintf("SELECT count(*) FROM eq_travel AS old AT (VERSION => %d -- then\n)", v.snapshot), fmt.Sprint(len(v.rows)))
		at := time.UnixMilli(w.SnapshotByID(v.snapshot).TimestampMs).UTC()
		r.answers(fmt.Sprintf("FROM eq_travel AT (TIMESTAMP => TIMESTAMP '%s')", at.Format("2006-01-02 15:04:05.000")), v.rows...)
		r.answers(fmt.Sprintf("FROM eq_travel AT (TIMESTAMP => TIMESTAMP '%s' + INTERVAL 1 HOUR)", at.Add(-time.Hour).Format("2006-01-02 15:04:05.000")), v.rows...)
	}
	r.answers("FROM eq_travel AT (VERSION => 'first')", versions[1].rows...)
	r.answers(fmt.Sprintf("SELECT a.id, b.id, c.id FROM eq_travel a AT (VERSION => %d) FULL JOIN eq_travel b AT (VERSION => %d) USING (id) FULL JOIN eq_travel c USING (id)", versions[0].snapshot, versions[2].snapshot),
		"1|1|1", "2|(null)|(null)", "3|(null)|(null)", "(null)|(null)|4", "(null)|(null)|5")
	first := time.UnixMilli(w.SnapshotByID(versions[0].snapshot).TimestampMs - 1).UTC()
	require.Contains(r.t, r.fails(fmt.Sprintf("FROM eq_travel AT (TIMESTAMP => TIMESTAMP '%s')", first.Format("2006-01-02 15:04:05.000"))).Message, "no version of that time")
	require.NotNil(r.t, r.fails("FROM eq_travel AT (VERSION => 12345)"))
	require.NotNil(r.t, r.fails("FROM eq_travel AT (VERSION => 'nothing')"))
	require.NotNil(r.t, r.fails("FROM eq_travel AT (VERSION => $1)", tagged))
	require.NotNil(r.t, r.fails("FROM eq_travel AT (TIMESTAMP => NULL)"))
}

func equalityElsewhere(r *lakeRig) {
	w := r.create("eq_source", 2, columns("id long", "k string"))
	w.append(`[{"id": 1, "k": null}, {"id": 2, "k": "x"}, {"id": 3, "k": "y"}]`).deleteEqual("k", `[{"k": "x"}]`)
	r.changes("CREATE VIEW eq_view AS SELECT id, k FROM eq_source")
	r.changes("CREATE VIEW eq_views AS SELECT a.id, b.k FROM eq_view a JOIN eq_source b ON a.id = b.id")
	r.answers("FROM eq_view", "1|(null)", "3|y")
	r.answers("FROM eq_views", "1|(null)", "3|y")
	r.answers("SELECT id FROM eq_source WHERE k IS NOT DISTINCT FROM NULL", "1")
	r.answers("SELECT id FROM eq_source WHERE k IS DISTINCT FROM 'y' OR id = 3", "1", "3")
	r.answers("WITH s AS (FROM eq_source) SELECT count(*) FROM s, eq_source", "4")
	require.Equal(r.t, []string{"3|seven"}, r.ok("SELECT id, $1 FROM eq_source WHERE id > 1", "seven"))
	require.NotEmpty(r.t, r.ok("EXPLAIN SELECT id FROM eq_source"))

	r.changes("CREATE TABLE eq_copied AS FROM eq_source")
	require.EqualValues(r.t, 2, r.changes("INSERT INTO eq_copied SELECT id + 10, k FROM eq_source"))
	require.EqualValues(r.t, 1, r.changes("MERGE INTO eq_copied t USING eq_source s ON t.id = s.id AND s.k IS NULL WHEN MATCHED THEN UPDATE SET k = 'was null'"))
	require.EqualValues(r.t, 1, r.changes("UPDATE eq_copied SET k = 'same' WHERE id IN (SELECT id FROM eq_source WHERE k = 'y')"))
	require.EqualValues(r.t, 1, r.changes("DELETE FROM eq_copied WHERE id - 10 IN (SELECT id FROM eq_source WHERE k IS NULL)"))
	r.answers("FROM eq_copied", "1|was null", "3|same", "13|y")

	for _, q := range []string{"UPDATE eq_source SET id = 7", "DELETE FROM eq_source WHERE id = 1", "MERGE INTO eq_source t USING eq_copied s ON t.id = s.id WHEN MATCHED THEN DELETE"} {
		require.Contains(r.t, r.fails(q).Message, `deleted by equality in the column "k", which holds NULL: DuckDB would not find exactly the rows to change`, q)
	}
	require.EqualValues(r.t, 1, r.changes("INSERT INTO eq_source VALUES (9, 'x')"))
	w.reload().is("1|(null)", "3|y", "9|x")
	for _, q := range []string{"FROM iceberg_scan('x')", "FROM read_blob('x')", "FROM read_avro('x')", "FROM read_json('x')", `FROM "millpond views".joined."x files"`, "SELECT id FROM eq_source, read_parquet('x')"} {
		require.NotNil(r.t, r.fails(q), q)
	}
}

// equalityFiltered compares filters over the remaining rows with the same filters over all of them.
func equalityFiltered(r *lakeRig) {
	w := r.create("eq_filtered", 2, columns("id long", "v int", "f double", "ts timestamp"), partition(4, "by_ts", iceberg.DayTransform{}))
	w.append(`[{"id": 1, "v": 5, "f": "NaN", "ts": "1969-12-31 23:00:00"}, {"id": 2, "v": null, "f": 1, "ts": "1970-01-01 01:00:00"}, {"id": 3, "v": -5, "f": null, "ts": null}]`)
	w.deleteEqual("v/ts", `[{"v": 5, "ts": "1970-01-01 00:00:00"}, {"v": 7, "ts": null}]`)
	w.evolve(func(u *table.UpdateSchema) { u.UpdateColumn([]string{"v"}, kind(iceberg.PrimitiveTypes.Int64)) })
	w.append(`[{"id": 4, "v": 9000000000, "f": -1, "ts": "1960-02-29 12:00:00"}, {"id": 5, "v": 5, "f": "Inf", "ts": "1969-12-31 00:00:00"}]`)
	w.deleteEqual("v/ts", `[{"v": null, "ts": "1970-01-01 00:00:00"}, {"v": 5, "ts": null}]`)
	r.skipsRight(w.name, []string{"v = 5", "v > 5", "v IS NULL", "v IS NOT NULL", "v < 0", "v IS DISTINCT FROM 5", "f > 5", "f < 0", "isnan(f)", "f IS NULL", "ts IS NULL", "ts < '1970-01-01'", "ts >= '1969-12-31 12:00:00'", "ts::DATE = DATE '1969-12-31'", "id IN (2, 3, 4)"})
	r.answers("SELECT id FROM eq_filtered", "1", "3", "4", "5")
}

// The engine does not open files of another workspace that manifests name.
func TestForeignFiles(t *testing.T) {
	r := newLakeRig(t)
	theirs := strings.TrimPrefix(r.other.Prefix, "file://")
	require.NoError(t, os.MkdirAll(theirs, 0o755))
	for i, c := range []struct{ of, in string }{{"/data/", "data"}, {"/metadata/", "metadata"}} {
		w := r.create(fmt.Sprint("eq_foreign", i), 2, columns("id long", "k string"))
		w.append(`[{"id": 1, "k": null}, {"id": 2, "k": "x"}]`).deleteEqual("k", `[{"k": "x"}]`).is("1|(null)")
		root := strings.TrimPrefix(w.Location(), "file://")
		secret := filepath.Join(theirs, filepath.Base(root))
		require.NoError(t, os.CopyFS(filepath.Join(secret, c.in), os.DirFS(filepath.Join(root, c.in))))
		for _, f := range files(t, root, "*.avro") {
			rewrite(t, f, func(record, file map[string]any) {
				for of, key := range map[*map[string]any]string{&record: "manifest_path", &file: "file_path"} {
					if path, ok := (*of)[key].(string); ok {
						(*of)[key] = strings.Replace(path, w.Location()+c.of, "file://"+secret+c.of, 1)
					}
				}
			})
		}
		failed := r.fails("FROM " + w.name)
		require.Contains(t, failed.Message, "is not in the workspace's storage", "%+v", failed)
	}
}

// rewrite changes the records of a manifest, with their file entries, or of a manifest list.
func rewrite(t testing.TB, path string, change func(record, file map[string]any)) {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	in, err := ocf.NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	var b bytes.Buffer
	header := in.Metadata()
	schema := string(header["avro.schema"])
	maps.DeleteFunc(header, func(name string, _ []byte) bool { return strings.HasPrefix(name, "avro.") })
	out, err := ocf.NewWriter(&b, in.Schema(), ocf.WithSchema(schema), ocf.WithMetadata(header))
	require.NoError(t, err)
	for {
		var record map[string]any
		if err := in.Decode(&record); err == io.EOF {
			break
		}
		file, _ := record["data_file"].(map[string]any)
		change(record, file)
		require.NoError(t, out.Encode(record))
	}
	require.NoError(t, out.Close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}
