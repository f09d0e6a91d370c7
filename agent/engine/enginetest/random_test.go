package enginetest

import (
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"
)

var (
	randomCases = flag.Int("random.cases", 10, "how many random tables are compared")
	randomSeed  = flag.Uint64("random.seed", 5000, "the first case's seed; 0 takes another each time")
)

// firstSeed is the seed of a test's first case. Each further case has the next seed.
func firstSeed() uint64 {
	if *randomSeed == 0 {
		return rand.Uint64N(1 << 40)
	}
	return *randomSeed
}

// TestRandomTables changes random tables at random, with the engine and with others. It compares
// the engine's answers with DuckDB's over the same rows in a local table. A failure names its seed:
// -random.seed=… -random.cases=1 repeats that case.
func TestRandomTables(t *testing.T) {
	base, first := newLakeRig(t), firstSeed()
	for i := range *randomCases {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newCase(base.of(t), seed).run() })
	}
}

// randomCase is a table and its model in memory.
type randomCase struct {
	*written
	random  *rand.Rand
	version int
	model   *sql.DB
	columns []randomColumn // after id
	next    int            // id
	names   int            // number of column names so far
	foreign bool           // the engine has written deletes, which iceberg-go cannot read
	log     []string
}

type randomColumn struct{ name, kind string }

// kindsOf returns the types with their DuckDB names and some values.
var kindsOf = map[string]struct {
	duck   string
	of     iceberg.Type
	values []string
}{
	"long":          {"BIGINT", iceberg.PrimitiveTypes.Int64, []string{"-9223372036854775808", "-11", "-1", "0", "7", "9223372036854775807"}},
	"string":        {"VARCHAR", iceberg.PrimitiveTypes.String, []string{"", "a", "ab", "b", "zz"}},
	"double":        {"DOUBLE", iceberg.PrimitiveTypes.Float64, []string{"-1.5", "-0", "0.1", "3e300"}},
	"decimal(38,2)": {"DECIMAL(38,2)", iceberg.DecimalTypeOf(38, 2), []string{"-999999999999999999999999999999999999.99", "-0.01", "0.00", "12.50"}},
	"date":          {"DATE", iceberg.PrimitiveTypes.Date, []string{"1969-12-31", "1970-01-01", "2024-02-29"}},
	"timestamp":     {"TIMESTAMP", iceberg.PrimitiveTypes.Timestamp, []string{"1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2024-02-29 12:00:00"}},
}

func newCase(r *lakeRig, seed uint64) *randomCase {
	c := &randomCase{random: rand.New(rand.NewPCG(seed, 1))}
	var err error
	c.model, err = sql.Open("duckdb", "")
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.model.Close() })
	c.version = 1 + c.random.IntN(3)
	of := []string{"id long"}
	duck := []string{"id BIGINT"}
	for range 2 + c.random.IntN(3) {
		column := c.fresh()
		of = append(of, column.name+" "+column.kind)
		duck = append(duck, column.name+" "+kindsOf[column.kind].duck)
		c.columns = append(c.columns, column)
	}
	var by []iceberg.PartitionField
	if c.random.IntN(2) == 0 {
		by = append(by, partition(1, "part", iceberg.BucketTransform{NumBuckets: 2}))
	} else if c.random.IntN(2) == 0 && c.columns[0].kind != "double" {
		by = append(by, partition(2, "part", c.transform(c.columns[0].kind)))
	}
	c.written = r.create(fmt.Sprint("r", seed), c.version, columns(of...), by...)
	c.note("version %d, %v, %v", c.version, of, by)
	c.both("CREATE TABLE %s ("+strings.Join(duck, ", ")+")", true)
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("seed %d:\n%s", seed, strings.Join(c.log, "\n"))
		}
	})
	return c
}

func (c *randomCase) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *randomCase) transform(kind string) iceberg.Transform {
	all := []iceberg.Transform{iceberg.BucketTransform{NumBuckets: 3}, iceberg.VoidTransform{}}
	switch kind {
	case "long", "string":
		all = append(all, iceberg.TruncateTransform{Width: 2}, iceberg.IdentityTransform{})
	case "date":
		all = append(all, iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.IdentityTransform{})
	case "timestamp":
		all = append(all, iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.HourTransform{})
	case "decimal(38,2)":
		all = all[1:]
	}
	return all[c.random.IntN(len(all))]
}

func (c *randomCase) fresh() randomColumn {
	var kinds []string
	for k := range kindsOf {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	c.names++
	return randomColumn{fmt.Sprint("c", c.names), kinds[c.random.IntN(len(kinds))]}
}

func (c *randomCase) column() randomColumn { return c.columns[c.random.IntN(len(c.columns))] }

// literal returns a value of a column in SQL, rarely NULL.
func (c *randomCase) literal(of randomColumn) string {
	k := kindsOf[of.kind]
	if c.random.IntN(6) == 0 {
		return "NULL"
	}
	return fmt.Sprintf("CAST('%s' AS %s)", k.values[c.random.IntN(len(k.values))], k.duck)
}

// both runs a statement in the model, and in the engine unless others have done the same. %s stands
// for the table's name.
func (c *randomCase) both(statement string, modelOnly bool) {
	c.t.Helper()
	c.note("%s", statement)
	_, err := c.model.Exec(strings.ReplaceAll(statement, "%s", "m"))
	require.NoError(c.t, err, statement)
	if !modelOnly {
		c.foreign = c.foreign || !strings.HasPrefix(statement, "INSERT")
		c.changes(strings.ReplaceAll(statement, "%s", c.name))
		c.reload()
	}
}

func (c *randomCase) run() {
	for range 6 + c.random.IntN(8) {
		c.step()
		for range 2 {
			c.compare(c.query())
		}
	}
	c.compare("SELECT * FROM %s")
}

func (c *randomCase) step() {
	deletes := c.version > 1
	switch c.random.IntN(12) {
	case 0, 1, 2, 3:
		c.appendRows()
	case 4:
		if deletes {
			c.both("INSERT INTO %s VALUES "+c.tuple(), false)
		}
	case 5:
		if !c.foreign {
			id := int64(c.random.IntN(c.next + 1))
			c.delete(iceberg.LessThan(reference("id"), id/3))
			c.both(fmt.Sprintf("DELETE FROM %%s WHERE id < %d", id/3), true)
		}
	case 6:
		if deletes {
			var rows, ids []string
			for range 1 + c.random.IntN(3) {
				id := c.random.IntN(c.next + 1)
				rows, ids = append(rows, fmt.Sprintf(`{"id": %d}`, id)), append(ids, fmt.Sprint(id))
			}
			if specs := c.Metadata().PartitionSpecs(); len(specs) == 1 && specs[0].NumFields() == 0 {
				c.deleteEqual("id", "["+strings.Join(rows, ",")+"]")
				c.both("DELETE FROM %s WHERE id IN ("+strings.Join(ids, ", ")+")", true)
			}
		}
	case 7:
		if column := c.column(); deletes && c.noHazard() {
			c.both("UPDATE %s SET "+column.name+" = "+c.literal(column)+" WHERE "+c.filterToChange(), false)
		}
	case 8:
		if deletes && c.noHazard() {
			c.both("DELETE FROM %s WHERE id % 5 = "+fmt.Sprint(c.random.IntN(5))+" AND "+c.filterToChange(), false)
		}
	case 9:
		if column := c.column(); deletes && c.noHazard() {
			c.both("MERGE INTO %s t USING (SELECT "+fmt.Sprint(c.random.IntN(c.next+1))+" AS id, "+c.literal(column)+" AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "+column.name+" = s.v", false)
		}
	case 10:
		c.evolveSchema()
	case 11:
		c.evolveSpec()
	}
}

// noHazard reports whether the engine can change rows of the table by all its columns.
func (c *randomCase) noHazard() bool {
	return len(c.Metadata().PartitionSpecs()) == 1 && !slices.ContainsFunc(c.Metadata().PartitionSpecs(), func(s iceberg.PartitionSpec) bool {
		for _, f := range s.Fields() {
			if f.SourceID() != 1 {
				return true
			}
		}
		return false
	})
}

func (c *randomCase) tuple() string {
	values := []string{fmt.Sprint(c.next)}
	c.next++
	for _, column := range c.columns {
		values = append(values, c.literal(column))
	}
	return "(" + strings.Join(values, ", ") + ")"
}

// appendRows writes rows with iceberg-go and adds them to the model.
func (c *randomCase) appendRows() {
	var tuples, rows []string
	for range 1 + c.random.IntN(8) {
		fields, values := []string{fmt.Sprintf(`"id": %d`, c.next)}, []string{fmt.Sprint(c.next)}
		c.next++
		for _, column := range c.columns {
			k := kindsOf[column.kind]
			text, value := jsonOf(k.values[c.random.IntN(len(k.values))]), "NULL"
			if c.random.IntN(6) == 0 {
				text = "null"
			} else {
				value = "CAST('" + strings.Trim(text, `"`) + "' AS " + k.duck + ")"
			}
			if column.kind == "long" || column.kind == "double" {
				text = strings.Trim(text, `"`)
			}
			fields, values = append(fields, fmt.Sprintf("%q: %s", column.name, text)), append(values, value)
		}
		rows, tuples = append(rows, "{"+strings.Join(fields, ", ")+"}"), append(tuples, "("+strings.Join(values, ", ")+")")
	}
	c.append("[" + strings.Join(rows, ",") + "]")
	c.both("INSERT INTO %s VALUES "+strings.Join(tuples, ", "), true)
}

func (c *randomCase) evolveSchema() {
	switch at := c.random.IntN(len(c.columns)); c.random.IntN(3) {
	case 0:
		column := c.fresh()
		c.evolve(func(u *table.UpdateSchema) {
			u.AddColumn([]string{column.name}, kindsOf[column.kind].of, "", false, nil)
		})
		c.columns = append(c.columns, column)
		c.both("ALTER TABLE %s ADD COLUMN "+column.name+" "+kindsOf[column.kind].duck, true)
	case 1:
		old := c.columns[at].name
		c.columns[at].name = c.fresh().name
		c.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{old}, c.columns[at].name) })
		c.both("ALTER TABLE %s RENAME COLUMN "+old+" TO "+c.columns[at].name, true)
	case 2:
		if len(c.columns) > 1 && c.noHazard() {
			old := c.columns[at].name
			c.columns = slices.Delete(c.columns, at, at+1)
			c.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{old}) })
			c.both("ALTER TABLE %s DROP COLUMN "+old, true)
		}
	}
}

func (c *randomCase) evolveSpec() {
	if spec := c.Spec(); spec.NumFields() > 0 {
		c.note("spec: none")
		name := spec.Field(0).Name
		c.respec(func(u *table.UpdateSpec) { u.RemoveField(name) })
		return
	}
	if c.CurrentSnapshot() != nil && c.CurrentSnapshot().Summary.Properties["total-equality-deletes"] != "0" {
		return
	}
	n := c.random.IntN(1 << 20)
	c.note("spec: bucket of id, p%d", n)
	c.respec(func(u *table.UpdateSpec) {
		u.AddField("id", iceberg.BucketTransform{NumBuckets: 2 + n%7}, fmt.Sprint("p", n))
	})
}

// filterToChange returns a filter that changes may use: without IS DISTINCT FROM and NULL.
func (c *randomCase) filterToChange() string {
	for {
		if f := c.filter(); !strings.Contains(f, "DISTINCT") && !strings.Contains(strings.ReplaceAll(f, "IS NULL", ""), "NULL") {
			return f
		}
	}
}

func (c *randomCase) filter() string {
	column := c.column()
	switch c.random.IntN(6) {
	case 0:
		return column.name + " IS NULL"
	case 1:
		return fmt.Sprintf("id BETWEEN %d AND %d", c.random.IntN(c.next+1), c.random.IntN(c.next+9))
	case 2:
		return column.name + " IN (" + c.literal(column) + ", " + c.literal(column) + ")"
	case 3:
		return "(" + c.filterOf(column) + " OR " + c.filterOf(c.column()) + ")"
	case 4:
		return c.filterOf(column) + " AND id > " + fmt.Sprint(c.random.IntN(c.next+1)/2)
	}
	return c.filterOf(column)
}

func (c *randomCase) filterOf(column randomColumn) string {
	op := []string{"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"}[c.random.IntN(7)]
	return column.name + " " + op + " " + c.literal(column)
}

// query returns a query with a deterministic set of rows.
func (c *randomCase) query() string {
	a, b := c.column().name, c.column().name
	switch c.random.IntN(6) {
	case 0:
		return "SELECT id, " + a + " FROM %s WHERE " + c.filter()
	case 1:
		return "SELECT " + a + ", count(*), count(" + b + "), min(" + b + "), max(" + b + "), sum(id) FROM %s WHERE " + c.filter() + " GROUP BY " + a
	case 2:
		return "SELECT x.id, y.id, y." + b + " FROM %s x JOIN %s y ON x." + a + " = y." + a + " WHERE x.id % 4 = 1 AND y.id < 20"
	case 3:
		return "SELECT " + a + ", id FROM %s WHERE " + c.filter() + " ORDER BY " + a + " DESC NULLS FIRST, id LIMIT " + fmt.Sprint(c.random.IntN(9))
	case 4:
		return "SELECT count(*), count(DISTINCT " + a + "), min(id), max(id) FROM %s"
	}
	return "SELECT x.id FROM %s x WHERE x.id NOT IN (SELECT id FROM %s WHERE " + c.filter() + ")"
}

// compare compares the rows of the engine and the model.
func (c *randomCase) compare(query string) {
	c.t.Helper()
	c.note("%s", query)
	wrapped := "SELECT concat_ws('|', row(q)::VARCHAR) FROM (" + query + ") AS q"
	found := c.ok(strings.ReplaceAll(wrapped, "%s", c.name))
	in, err := c.model.Query(strings.ReplaceAll(wrapped, "%s", "m"))
	require.NoError(c.t, err, query)
	defer func() { require.NoError(c.t, in.Close()) }()
	var wanted []string
	for in.Next() {
		var row string
		require.NoError(c.t, in.Scan(&row))
		wanted = append(wanted, row)
	}
	require.NoError(c.t, in.Err())
	slices.Sort(found)
	slices.Sort(wanted)
	require.Equal(c.t, wanted, found, query)
}
