package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// TestValues reads each value of every type as it was written.
func TestValues(t *testing.T) {
	base := newLakeRig(t)
	for i, s := range samples {
		t.Run(s.kind, func(t *testing.T) {
			r := base.of(t)
			for version := 1; version <= 3; version++ {
				w := r.create(fmt.Sprintf("v%d_%d", i, version), version, columns("id long", "v "+s.kind))
				var rows, model []string
				for n, v := range s.values {
					rows = append(rows, fmt.Sprintf(`{"id": %d, "v": %s}`, n, v[0]))
					model = append(model, fmt.Sprintf("(%d, %s)", n, v[1]))
				}
				w.append("[" + strings.Join(rows, ",") + `, {"id": 100, "v": null}]`)
				w.is(r.ok("FROM (VALUES " + strings.Join(model, ",") + ", (100, NULL)) AS m(id, v)")...)
			}
		})
	}
}

// TestNestedValues reads values three levels deep, with nulls at each.
func TestNestedValues(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("deep", 2, columns("id long", `v {"type": "list", "element-id": 10, "element-required": false, "element": {"type": "struct", "fields": [{"id": 11, "name": "m", "required": false, "type": {"type": "map", "key-id": 12, "key": "string", "value-id": 13, "value-required": false, "value": {"type": "list", "element-id": 14, "element-required": false, "element": "decimal(38,2)"}}}, {"id": 15, "name": "t", "required": false, "type": "timestamptz"}]}}`))
	w.append(`[{"id": 1, "v": null}, {"id": 2, "v": []}, {"id": 3, "v": [null]}, {"id": 4, "v": [{"m": null, "t": null}, {"m": [], "t": "1969-12-31 23:59:59.999999Z"}]},
		{"id": 5, "v": [{"m": [{"key": "a", "value": null}, {"key": "b", "value": []}, {"key": "", "value": [null, "-999999999999999999999999999999999999.99"]}], "t": "9999-12-31 23:59:59Z"}, null]}]`)
	r.answers("SELECT id, v IS NULL, len(v), v[1] IS NULL, v[1].m IS NULL, v[1].t IS NULL, cardinality(v[1].m), v[1].m['b'] IS NULL, len(v[1].m['']), v[1].m[''][2]::VARCHAR, v[2].t::VARCHAR, v[1].t::VARCHAR FROM deep",
		"1|true|(null)|true|true|true|(null)|true|(null)|(null)|(null)|(null)", "2|false|0|true|true|true|(null)|true|(null)|(null)|(null)|(null)", "3|false|1|true|true|true|(null)|true|(null)|(null)|(null)|(null)",
		"4|false|2|false|true|true|(null)|true|(null)|(null)|1969-12-31 23:59:59.999999+00|(null)", "5|false|2|false|false|false|3|false|2|-999999999999999999999999999999999999.99|(null)|9999-12-31 23:59:59+00")
	r.answers("SELECT id FROM deep WHERE v[1].m IS NOT NULL", "5")
	r.answers("SELECT id, unnest(v, max_depth := 1) IS NULL FROM deep WHERE id IN (3, 4, 5)", "3|true", "4|false", "4|false", "5|false", "5|true")
}

// TestNoRows reads tables without rows, and without snapshots.
func TestNoRows(t *testing.T) {
	r := newLakeRig(t)
	for version := 1; version <= 3; version++ {
		w := r.create(fmt.Sprint("none", version), version, columns("id long", "k string"), partition(2, "p", iceberg.IdentityTransform{})).is()
		r.answers("SELECT count(*), max(id), min(k) FROM "+w.name, "0|(null)|(null)")
		w.append("[]").is().append(numbered(0, 4)).is(left(0, 4)...)
		w.delete(iceberg.AlwaysTrue{}).is()
		r.answers("SELECT count(*), max(id), min(k) FROM "+w.name+" WHERE k = 'k1'", "0|(null)|(null)")
	}
}

// TestNames reads and filters columns with unusual names.
func TestNames(t *testing.T) {
	r := newLakeRig(t)
	names := []string{`a.b`, `quo"te`, `it's`, `select`, `ünïcödé`, `日本`, `with-dash`, `1st`, `%41`, `_file`, `_row_id`, `file_name`, `a/b`, `back\slash`, `file_row_number`, `rowid`}
	var columnsOf, fields, model []string
	for i, n := range names {
		columnsOf = append(columnsOf, n+" long")
		fields = append(fields, jsonOf(n)+fmt.Sprintf(": %d", i))
		model = append(model, fmt.Sprint(i))
	}
	for version := 1; version <= 3; version++ {
		w := r.create(fmt.Sprint("names", version), version, columns(columnsOf...)).append("[{" + strings.Join(fields, ",") + "}]").is(strings.Join(model, "|"))
		for i, n := range names {
			r.answers(fmt.Sprintf("SELECT %s FROM %s WHERE %s = %d", quoted(n), w.name, quoted(n), i), fmt.Sprint(i))
			r.answers(fmt.Sprintf("SELECT %s FROM %s WHERE %s < %d", quoted(n), w.name, quoted(n), i))
		}
	}
	for _, table := range []string{`quo"te`, `it's`, `select`, `日本`, `with-dash`, `1st`, `UPPER`, `with space`} {
		r.create(table, 2, columns("id long")).append(`[{"id": 1}]`).is("1")
	}
}

// Columns with names that differ only by case are read exactly or refused.
func TestCases(t *testing.T) {
	r := newLakeRig(t)
	r.create("cases", 2, columns("a long", "A long")).append(`[{"a": 1, "A": 2}]`)
	require.Contains(t, r.fails("FROM cases").Message, "Column with name A already exists")
	require.Contains(t, r.fails(`SELECT "a" FROM cases`).Message, "Column with name A already exists")
}

// TestManyColumns reads a table with 200 columns.
func TestManyColumns(t *testing.T) {
	r := newLakeRig(t)
	var of, fields, row []string
	for i := range 200 {
		of = append(of, fmt.Sprintf("c%d long", i))
		fields = append(fields, fmt.Sprintf(`"c%d": %d`, i, i))
		row = append(row, fmt.Sprint(i))
	}
	r.create("wide", 2, columns(of...)).append("[{" + strings.Join(fields, ",") + "}]").is(strings.Join(row, "|"))
	r.answers("SELECT c199, c0 FROM wide WHERE c150 = 150 AND c7 < 8", "199|0")
	r.answers("SELECT c199 FROM wide WHERE c150 > 150") // beyond the columns that have statistics
}

// TestSpecs reads a table with files of several partition specs.
func TestSpecs(t *testing.T) {
	r := newLakeRig(t)
	for version := 1; version <= 3; version++ {
		w := r.create(fmt.Sprint("specs", version), version, columns("id long", "k string", "ts timestamp"))
		n := 0
		add := func() {
			var rows []string
			for range 4 {
				rows = append(rows, fmt.Sprintf(`{"id": %d, "k": %s, "ts": %s}`, n, []string{`"k0"`, `"k1"`, `null`}[n%3], []string{`"1969-12-31 23:30:00"`, `null`, `"2024-02-29 12:00:00"`, `"2024-02-29 13:00:00"`}[n%4]))
				n++
			}
			w.append("[" + strings.Join(rows, ",") + "]")
		}
		for i, change := range []func(u *table.UpdateSpec){
			func(*table.UpdateSpec) {}, func(u *table.UpdateSpec) { u.AddIdentity("k") }, func(u *table.UpdateSpec) { u.AddField("id", iceberg.BucketTransform{NumBuckets: 4}, "b") },
			func(u *table.UpdateSpec) { u.RemoveField("k") }, func(u *table.UpdateSpec) { u.AddField("ts", iceberg.DayTransform{}, "day") },
			func(u *table.UpdateSpec) { u.RemoveField("day").AddField("ts", iceberg.HourTransform{}, "hour") }, func(u *table.UpdateSpec) { u.AddField("k", iceberg.TruncateTransform{Width: 1}, "t") },
			func(u *table.UpdateSpec) { u.RemoveField("b").RemoveField("hour").RemoveField("t") },
		} {
			if i > 0 {
				w.respec(change)
			}
			add()
			r.skipsRight(w.name, []string{"true", "k = 'k0'", "k IS NULL", "id = 5", "id > 9", "ts < '1970-01-01'", "ts IS NULL", "ts >= '2024-02-29 13:00:00'", "ts::DATE = '2024-02-29' AND k <> 'k1'", "k IN ('k1', 'x')"})
			require.Equal(t, []string{fmt.Sprintf("%d|%d", n, n*(n-1)/2)}, r.ok("SELECT count(*), sum(id) FROM "+w.name))
		}
	}
}
