package enginetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// TestRandomEquality deletes rows by equality and by position from random tables with NULL keys. It
// changes their schemas and partitions in between. It compares the engine's current and earlier
// snapshots with rows in memory.
func TestRandomEquality(t *testing.T) {
	base, first := newLakeRig(t), firstSeed()
	for i := range *equalityCases {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := &equalityCase{lakeRig: base.of(t), random: rand.New(rand.NewPCG(seed, 2)), names: map[string]string{"a": "a", "b": "b", "c": "c"}}
			c.run(fmt.Sprint("eq_random", seed))
		})
	}
}

var equalityCases = flag.Int("equality.cases", 6, "how many random tables with deletes by equality are compared")

type equalityRow struct {
	id     int
	of     map[string]*int // values by the columns' first names; nil for NULL
	part   string
	inPart string // partition of its file
}

// equalityCase is a table and its rows, with the columns id, a, b, c of numbers and p of text.
// Columns are identified by their first names.
type equalityCase struct {
	*lakeRig
	w       *written
	random  *rand.Rand
	names   map[string]string // of existing columns
	rows    []equalityRow
	next    int
	renamed int
	by      bool // currently partitioned by p
	wide    bool
	log     []string
	before  []equalityVersion
}

type equalityVersion struct {
	snapshot int64
	rows     []string
}

func (c *equalityCase) run(name string) {
	var by []iceberg.PartitionField
	if c.by = c.random.IntN(2) == 0; c.by {
		by = append(by, partition(5, "by_p", iceberg.IdentityTransform{}))
	}
	version := 2 + c.random.IntN(2)
	c.w = c.create(name, version, columns("id long", "a int", "b int", "c int", "p string"), by...)
	c.note("version %d, partitioned %t", version, c.by)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Log(strings.Join(c.log, "\n"))
		}
	})
	c.appendRows()
	for range 9 {
		c.step()
		c.w.is(c.rendered()...)
	}
	for range 3 {
		v := c.before[c.random.IntN(len(c.before))]
		c.answers(fmt.Sprintf("FROM %s AT (VERSION => %d)", name, v.snapshot), v.rows...)
	}
	c.answers("SELECT count(*) FROM "+name, fmt.Sprint(len(c.rows)))
}

func (c *equalityCase) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *equalityCase) committed() {
	c.before = append(c.before, equalityVersion{c.w.CurrentSnapshot().SnapshotID, c.rendered()})
}

// columns returns the first names of the existing columns, in order.
func (c *equalityCase) columns() (all []string) {
	for _, name := range []string{"a", "b", "c"} {
		if c.names[name] != "" {
			all = append(all, name)
		}
	}
	return all
}

func shown(v *int) string {
	if v == nil {
		return "(null)"
	}
	return fmt.Sprint(*v)
}

func (c *equalityCase) rendered() (all []string) {
	for _, row := range c.rows {
		values := []string{fmt.Sprint(row.id)}
		for _, name := range c.columns() {
			values = append(values, shown(row.of[name]))
		}
		all = append(all, strings.Join(append(values, strings.ReplaceAll(row.part, "null", "(null)")), "|"))
	}
	return all
}

func (c *equalityCase) value() *int {
	if n := c.random.IntN(5); n > 0 {
		return &n
	}
	return nil
}

func (c *equalityCase) part() string { return []string{"u", "v", "null"}[c.random.IntN(3)] }

// inPart returns the partition to which rows with a value of p are written now.
func (c *equalityCase) inPart(part string) string {
	if c.by {
		spec := c.w.Spec()
		return fmt.Sprint(spec.ID(), part)
	}
	return ""
}

func textOrNull(part string) string {
	if part == "null" {
		return part
	}
	return jsonOf(part)
}

func (c *equalityCase) appendRows() {
	var rows []string
	for range 2 + c.random.IntN(6) {
		c.next++
		row := equalityRow{id: c.next, of: map[string]*int{}, part: c.part()}
		row.inPart = c.inPart(row.part)
		fields := []string{fmt.Sprintf(`"id": %d`, row.id)}
		for _, name := range c.columns() {
			row.of[name] = c.value()
			fields = append(fields, fmt.Sprintf("%q: %s", c.names[name], strings.Trim(shown(row.of[name]), "()")))
		}
		c.rows = append(c.rows, row)
		rows = append(rows, "{"+strings.Join(append(fields, `"p": `+textOrNull(row.part)), ", ")+"}")
	}
	c.note("append %v", rows)
	c.w.append("[" + strings.Join(rows, ",") + "]")
	c.committed()
}

func (c *equalityCase) step() {
	switch c.random.IntN(9) {
	case 0, 1:
		c.appendRows()
	case 2, 3, 4, 5:
		c.deleteRows()
	case 6:
		if len(c.rows) > 0 {
			at := c.random.IntN(len(c.rows))
			c.note("delete %d", c.rows[at].id)
			c.w.delete(iceberg.EqualTo(reference("id"), int64(c.rows[at].id)))
			c.rows = slices.Delete(slices.Clone(c.rows), at, at+1)
			c.committed()
		}
	case 7:
		c.changeSchema()
	case 8:
		c.note("partitioned %t", !c.by)
		if c.by {
			c.w.respec(func(u *table.UpdateSpec) { u.RemoveField("by_p") })
		} else {
			c.w.respec(func(u *table.UpdateSpec) { u.AddField("p", iceberg.IdentityTransform{}, "by_p") })
		}
		c.by = !c.by
	}
}

// deleteRows deletes rows by one or more columns, which may include p.
func (c *equalityCase) deleteRows() {
	all := append(c.columns(), "p")
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:1+c.random.IntN(2)]
	named := make([]string, len(all))
	for i, name := range all {
		if named[i] = c.names[name]; name == "p" {
			named[i] = name
		}
	}
	keys := strings.Join(named, ",")
	if c.by && !slices.Contains(all, "p") {
		keys += "/p"
	}
	var rows []string
	for range 1 + c.random.IntN(3) {
		gone := equalityRow{of: map[string]*int{}, part: c.part()}
		var fields []string
		for i, name := range all {
			if name != "p" {
				gone.of[name] = c.value()
				fields = append(fields, fmt.Sprintf("%q: %s", named[i], strings.Trim(shown(gone.of[name]), "()")))
			}
		}
		if c.by || slices.Contains(all, "p") {
			fields = append(fields, `"p": `+textOrNull(gone.part))
		}
		rows = append(rows, "{"+strings.Join(fields, ", ")+"}")
		c.rows = slices.DeleteFunc(slices.Clone(c.rows), func(row equalityRow) bool {
			if c.by && row.inPart != c.inPart(gone.part) {
				return false
			}
			return !slices.ContainsFunc(all, func(name string) bool {
				if name == "p" {
					return row.part != gone.part
				}
				return shown(row.of[name]) != shown(gone.of[name])
			})
		})
	}
	c.note("delete by %s: %v", keys, rows)
	c.w.deleteEqual(keys, "["+strings.Join(rows, ",")+"]")
	c.committed()
}

func (c *equalityCase) changeSchema() {
	all := c.columns()
	if len(all) == 0 {
		return
	}
	name := all[c.random.IntN(len(all))]
	switch c.random.IntN(3) {
	case 0:
		c.renamed++
		to := fmt.Sprint(name, c.renamed)
		c.note("rename %s to %s", c.names[name], to)
		c.w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{c.names[name]}, to) })
		c.names[name] = to
	case 1:
		c.note("widen")
		if !c.wide {
			c.w.evolve(func(u *table.UpdateSchema) {
				for _, name := range all {
					u.UpdateColumn([]string{c.names[name]}, kind(iceberg.PrimitiveTypes.Int64))
				}
			})
		}
		c.wide = true
	case 2:
		c.note("drop %s", c.names[name])
		c.w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{c.names[name]}) })
		delete(c.names, name)
	}
}
