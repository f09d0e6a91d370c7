package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

func reference(name string) iceberg.Reference { return iceberg.Reference(name) }

// numbered returns rows {"id": i, "k": "k<i mod 3>"} from one number up to, but without, another.
func numbered(from, to int) string {
	var rows []string
	for i := range to - from {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "k": "k%d"}`, from+i, (from+i)%3))
	}
	return "[" + strings.Join(rows, ",") + "]"
}

// left returns those rows in the engine's form, without some of them.
func left(from, to int, without ...int) (rows []string) {
	for i := from; i < to; i++ {
		gone := false
		for _, w := range without {
			gone = gone || w == i
		}
		if !gone {
			rows = append(rows, fmt.Sprintf("%d|k%d", i, i%3))
		}
	}
	return rows
}

// TestDeletes reads tables with each of Iceberg's kinds of deletes.
func TestDeletes(t *testing.T) {
	base := newLakeRig(t)
	for name, test := range map[string]func(r *lakeRig){
		"positions in two rounds":      func(r *lakeRig) { twoRounds(r, 2) },
		"deletion vectors, two rounds": func(r *lakeRig) { twoRounds(r, 3) },
		"of a whole file":              wholeFiles,
		"in partitions":                func(r *lakeRig) { deletesInPartitions(r, 2) },
		"vectors in partitions":        func(r *lakeRig) { deletesInPartitions(r, 3) },
		"equality":                     func(r *lakeRig) { equality(r, 2) },
		"equality in the third format": func(r *lakeRig) { equality(r, 3) },
		"equality of several columns":  equalityOfColumns,
		"equality of every type":       equalityOfTypes,
		"equality after evolution":     equalityAfterEvolution,
		"equality in partitions":       equalityInPartitions,
		"equality across specs":        equalityAcrossSpecs,
		"all on one table":             func(r *lakeRig) { allDeletes(r, 2) },
		"all with vectors":             func(r *lakeRig) { allDeletes(r, 3) },
		"positions, then vectors":      upgraded,
		"by the engine on others'":     engineOnOthers,
	} {
		t.Run(name, func(t *testing.T) { test(base.of(t)) })
	}
}

func twoRounds(r *lakeRig, version int) {
	w := r.create(fmt.Sprint("rounds", version), version, columns("id long", "k string"))
	w.append(numbered(0, 100)).append(numbered(100, 200))
	w.delete(iceberg.IsIn(reference("id"), int64(0), int64(7), int64(50), int64(99), int64(100), int64(150)))
	w.is(left(0, 200, 0, 7, 50, 99, 100, 150)...)
	w.delete(iceberg.IsIn(reference("id"), int64(8), int64(98), int64(199)))
	w.append(numbered(200, 210))
	w.is(left(0, 210, 0, 7, 8, 50, 98, 99, 100, 150, 199)...)
	w.append(numbered(7, 9)).is(append(left(7, 9), left(0, 210, 0, 7, 8, 50, 98, 99, 100, 150, 199)...)...)
	r.answers("SELECT count(*), min(id), max(id) FROM "+w.name+" WHERE id < 100", "96|1|97")
	r.answers("SELECT id FROM "+w.name+" WHERE id IN (7, 8, 50)", "7", "8")
}

func wholeFiles(r *lakeRig) {
	for version := 1; version <= 3; version++ {
		w := r.create(fmt.Sprint("whole", version), version, columns("id long", "k string")).append(numbered(0, 10)).append(numbered(10, 20))
		w.delete(iceberg.LessThan(reference("id"), int64(10))).is(left(10, 20)...)
		w.delete(iceberg.GreaterThanEqual(reference("id"), int64(10))).is()
		r.answers("SELECT count(*) FROM "+w.name, "0")
		w.append(numbered(3, 5)).is(left(3, 5)...)
	}
}

func deletesInPartitions(r *lakeRig, version int) {
	w := r.create(fmt.Sprint("parts", version), version, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{}))
	w.append(numbered(0, 30)).delete(iceberg.IsIn(reference("id"), int64(3), int64(4), int64(5), int64(9)))
	w.append(numbered(30, 40)).delete(iceberg.EqualTo(reference("k"), "k2"))
	var rows []string
	for _, row := range left(0, 40, 3, 4, 5, 9) {
		if !strings.HasSuffix(row, "k2") {
			rows = append(rows, row)
		}
	}
	w.is(rows...)
	r.answers("SELECT id FROM "+w.name+" WHERE k = 'k0' AND id < 15", "0", "6", "12")
}

func equality(r *lakeRig, version int) {
	w := r.create(fmt.Sprint("equal", version), version, columns("id long", "k string"))
	w.append(numbered(0, 20)).append(numbered(10, 30)).deleteEqual("id", `[{"id": 3}, {"id": 15}, {"id": 999}]`)
	w.append(numbered(14, 17)) // later rows are not deleted
	w.is(append(append(left(0, 20, 3, 15), left(10, 30, 15)...), left(14, 17)...)...)
	w.deleteEqual("k", `[{"k": "k1"}]`).deleteEqual("id", `[{"id": 0}]`)
	var rows []string
	for _, row := range append(append(left(0, 20, 3, 15, 0), left(10, 30, 15)...), left(14, 17)...) {
		if !strings.HasSuffix(row, "k1") {
			rows = append(rows, row)
		}
	}
	w.is(rows...)
	r.answers("SELECT count(*) FROM "+w.name, fmt.Sprint(len(rows)))
	r.answers("SELECT k FROM "+w.name+" WHERE id = 15", "k0")
	r.answers("SELECT count(*) FROM "+w.name+" WHERE k = 'k1'", "0")
}

func equalityOfColumns(r *lakeRig) {
	w := r.create("equal_several", 2, columns("a long", "b string", "c date", "d double"))
	w.append(`[{"a": 1, "b": "x", "c": "2020-01-01", "d": 1}, {"a": 1, "b": "y", "c": "2020-01-01", "d": null}, {"a": 2, "b": "x", "c": "2020-01-02", "d": 3}, {"a": 2, "b": "y", "c": "2020-01-03", "d": null}]`)
	w.deleteEqual("a,b", `[{"a": 1, "b": "y"}, {"a": 2, "b": "z"}, {"a": 2, "b": null}]`)
	w.is("1|x|2020-01-01|1", "2|x|2020-01-02|3", "2|y|2020-01-03|(null)")
	w.deleteEqual("b,c", `[{"b": "y", "c": "2020-01-03"}, {"b": "x", "c": null}]`)
	w.is("1|x|2020-01-01|1", "2|x|2020-01-02|3")
	r.answers("SELECT d FROM "+w.name, "1", "3")
	r.answers("SELECT a FROM "+w.name+" WHERE d > 1", "2")
}

func equalityOfTypes(r *lakeRig) {
	for i, c := range []struct{ kind, gone, stays string }{
		{"boolean", `true`, `false`},
		{"int", `-5`, `5`},
		{"long", `9223372036854775807`, `-9223372036854775808`},
		{"decimal(9,2)", `"-1.10"`, `"1.10"`},
		{"decimal(18,4)", `"12345678901234.5678"`, `"-12345678901234.5678"`},
		{"decimal(38,10)", `"-1234567890123456789012345678.0123456789"`, `"1234567890123456789012345678.0123456789"`},
		{"date", `"1969-12-31"`, `"1970-01-01"`},
		{"time", `"23:59:59.999999"`, `"00:00:00"`},
		{"timestamp", `"1969-12-31 23:59:59.999999"`, `"9999-12-31 23:59:59.999999"`},
		{"timestamptz", `"1969-12-31 23:59:59.999999Z"`, `"1970-01-01 00:00:00Z"`},
		{"string", `"é'\"\u0000x"`, `"é"`},
		{"binary", `"AAEC/w=="`, `"AAEC"`},
		{"uuid", `"00000000-0000-0000-0000-00000000000a"`, `"ffffffff-ffff-ffff-ffff-fffffffffff0"`},
		{"fixed[4]", `"AAEC/w=="`, `"/wIBAA=="`},
	} {
		w := r.create(fmt.Sprint("equal_type", i), 2, columns("id long", "v "+c.kind))
		w.append(fmt.Sprintf(`[{"id": 1, "v": %s}, {"id": 2, "v": %s}]`, c.gone, c.stays))
		w.deleteEqual("v", fmt.Sprintf(`[{"v": %s}]`, c.gone))
		require.ElementsMatch(r.t, []string{"2"}, r.ok("SELECT id FROM "+w.name), c.kind)
	}
}

func equalityAfterEvolution(r *lakeRig) {
	w := r.create("equal_evolved", 2, columns("id int", "k string", "f float"))
	w.append(`[{"id": 1, "k": "a", "f": 0.5}, {"id": 2, "k": "b", "f": 1.5}, {"id": 3, "k": "c", "f": 2.5}, {"id": 4, "k": "d", "f": 3.5}]`)
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"id"}, "number") })
	w.deleteEqual("number", `[{"number": 1}]`).is("2|b|1.5", "3|c|2.5", "4|d|3.5")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"f"}).MoveFirst([]string{"k"}) })
	w.is("b|2", "c|3", "d|4")
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"number"}, "n") })
	w.append(`[{"k": "e", "n": 1}]`).deleteEqual("n", `[{"n": 3}]`).is("b|2", "d|4", "e|1")
	w.evolve(func(u *table.UpdateSchema) { u.UpdateColumn([]string{"n"}, kind(iceberg.PrimitiveTypes.Int64)) })
	w.is("b|2", "d|4", "e|1").append(`[{"k": "f", "n": 9000000000}]`).deleteEqual("n", `[{"n": 4}]`).is("b|2", "e|1", "f|9000000000")
}

func equalityInPartitions(r *lakeRig) {
	w := r.create("equal_parts", 2, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{}))
	w.append(numbered(0, 9)).append(`[{"id": 1, "k": "k2"}]`)
	w.deleteEqual("id,k", `[{"id": 1, "k": "k1"}, {"id": 4, "k": "k0"}]`)
	w.is(append(left(0, 9, 1), "1|k2")...)
	w.append(`[{"id": 100, "k": null}]`)
	w.is(append(left(0, 9, 1), "1|k2", "100|(null)")...)

	w = r.create("equal_part", 2, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{})).append(numbered(0, 9))
	w.deleteEqual("id/k", `[{"id": 4, "k": "k0"}]`).is(left(0, 9)...) // 4 is not in k0
}

func equalityAcrossSpecs(r *lakeRig) {
	w := r.create("equal_specs", 2, columns("id long", "k string")).append(numbered(0, 9)).deleteEqual("id,k", `[{"id": 2, "k": "k2"}, {"id": 10, "k": "k1"}]`)
	w.respec(func(u *table.UpdateSpec) { u.AddIdentity("k") })
	w.append(numbered(9, 15)).deleteEqual("id,k", `[{"id": 10, "k": "k1"}, {"id": 3, "k": "k0"}]`)
	w.is(left(0, 15, 2, 10)...) // the second delete is of another spec than 3's file
}

func allDeletes(r *lakeRig, version int) {
	w := r.create(fmt.Sprint("mixed", version), version, columns("id long", "k string"))
	w.append(numbered(0, 30)).delete(iceberg.IsIn(reference("id"), int64(0), int64(1)))
	w.deleteEqual("id", `[{"id": 2}]`).append(numbered(30, 40))
	w.delete(iceberg.IsIn(reference("id"), int64(10), int64(31)))
	w.deleteEqual("id", `[{"id": 11}, {"id": 32}]`)
	w.is(left(0, 40, 0, 1, 2, 10, 11, 31, 32)...)
	require.EqualValues(r.t, 2, r.changes("DELETE FROM "+w.name+" WHERE id IN (12, 33)"))
	w.is(left(0, 40, 0, 1, 2, 10, 11, 12, 31, 32, 33)...)
	require.EqualValues(r.t, 1, r.changes("UPDATE "+w.name+" SET id = 1000 WHERE id = 13"))
	w.is(append(left(0, 40, 0, 1, 2, 10, 11, 12, 13, 31, 32, 33), "1000|k1")...)
	w.reload().deleteEqual("id", `[{"id": 14}]`)
	w.is(append(left(0, 40, 0, 1, 2, 10, 11, 12, 13, 14, 31, 32, 33), "1000|k1")...)
}

func upgraded(r *lakeRig) {
	w := r.create("upgraded", 2, columns("id long", "k string")).append(numbered(0, 20)).delete(iceberg.EqualTo(reference("id"), int64(3)))
	w.commit(func(tx *table.Transaction) error { return tx.UpgradeFormatVersion(3) })
	w.is(left(0, 20, 3)...)
	w.append(numbered(20, 30))
	require.EqualValues(r.t, 2, r.changes("DELETE FROM upgraded WHERE id IN (3, 5, 26)"))
	w.is(left(0, 30, 3, 5, 26)...)
}

// engineOnOthers deletes and changes rows that other clients wrote.
func engineOnOthers(r *lakeRig) {
	for version := 2; version <= 3; version++ {
		w := r.create(fmt.Sprint("theirs", version), version, columns("id long", "k string")).append(numbered(0, 20)).delete(iceberg.EqualTo(reference("id"), int64(3)))
		require.EqualValues(r.t, 1, r.changes("DELETE FROM "+w.name+" WHERE id IN (3, 4)"))
		require.EqualValues(r.t, 18, r.changes("UPDATE "+w.name+" SET k = 'new'"))
		require.EqualValues(r.t, 2, r.changes("MERGE INTO "+w.name+" t USING (VALUES (4, 'm'), (5, 'm')) s(id, k) ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k)"))
		r.answers("SELECT k, count(*) FROM "+w.name+" GROUP BY k", "new|17", "m|2")
	}
}

// The engine reads tables of format version 1 and refuses to write them.
func TestFirstFormat(t *testing.T) {
	r := newLakeRig(t)
	r.create("first", 1, columns("id long", "k string")).append(numbered(0, 5)).is(left(0, 5)...)
	for _, q := range []string{"INSERT INTO first VALUES (9, 'x')", "DELETE FROM first WHERE id = 1", "UPDATE first SET k = 'x'"} {
		require.Contains(t, r.fails(q).Message, "format version 1", q)
	}
}

// The engine refuses changes for which DuckDB would not find all rows.
func TestChangesByHazards(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("hazards", 2, columns("id long", "f double", "ts timestamp"), partition(3, "m", iceberg.MonthTransform{}))
	w.append(`[{"id": 1, "f": 1, "ts": "2024-01-01 00:00:00"}, {"id": 2, "f": 2, "ts": "2024-03-01 00:00:00"}]`)
	require.EqualValues(t, 1, r.changes("UPDATE hazards SET id = 7 WHERE f > 1.5 AND ts > '2024-02-01'"))
	require.Contains(t, r.fails("DELETE FROM hazards WHERE id IS DISTINCT FROM 7").Message, "IS DISTINCT FROM")
	w.reload().append(`[{"id": 3, "f": "NaN", "ts": "1969-12-31 12:00:00"}]`)
	require.Contains(t, r.fails("DELETE FROM hazards WHERE f > 5").Message, "NaN")
	require.Contains(t, r.fails("DELETE FROM hazards WHERE ts < '1970-01-01'").Message, "partitioned by it")
	r.answers("SELECT id FROM hazards WHERE f > 5", "3")
	r.answers("SELECT id FROM hazards WHERE ts >= '1969-12-31 00:00:00' AND ts < '1970-01-01'", "3")
	require.EqualValues(t, 1, r.changes("DELETE FROM hazards WHERE id = 3"))
}
