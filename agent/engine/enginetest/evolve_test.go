package enginetest

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

func kind(t iceberg.Type) table.ColumnUpdate {
	return table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: t, Valid: true}}
}

// TestEvolution reads files that were written with earlier schemas of the table.
func TestEvolution(t *testing.T) {
	base := newLakeRig(t)
	for name, test := range map[string]func(r *lakeRig){
		"added":                 added,
		"added with a default":  addedWithDefault,
		"renamed":               renamed,
		"dropped, added again":  droppedAndAdded,
		"swapped names":         swapped,
		"reordered":             reordered,
		"promoted":              promoted,
		"promoted, then pruned": promotedPruned,
		"nested fields":         nestedFields,
		"elements":              elements,
		"by the engine":         evolvedByEngine,
	} {
		t.Run(name, func(t *testing.T) { test(base.of(t)) })
	}
}

func added(r *lakeRig) {
	w := r.create("added", 2, columns("id long")).append(`[{"id": 1}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"s"}, iceberg.PrimitiveTypes.String, "", false, nil)
		u.AddColumn([]string{"l"}, &iceberg.ListType{ElementID: 99, Element: iceberg.PrimitiveTypes.Int64}, "", false, nil)
	})
	w.is("1|(null)|(null)").append(`[{"id": 2, "s": "x", "l": [1, null]}]`).is("1|(null)|(null)", "2|x|[1,null]")
	r.answers("SELECT id FROM added WHERE s IS NULL", "1")
	r.answers("SELECT id FROM added WHERE s IS NOT NULL OR l IS NOT NULL", "2")
	r.answers("SELECT count(s), count(l), count(*) FROM added", "1|1|2")
}

func addedWithDefault(r *lakeRig) {
	w := r.create("defaulted", 3, columns("id long")).append(`[{"id": 1}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"s"}, iceberg.PrimitiveTypes.String, "", false, iceberg.NewLiteral("old"))
		u.AddColumn([]string{"n"}, iceberg.PrimitiveTypes.Int64, "", true, iceberg.NewLiteral(int64(-7)))
		u.AddColumn([]string{"b"}, iceberg.PrimitiveTypes.Bool, "", false, iceberg.NewLiteral(true))
		u.AddColumn([]string{"f"}, iceberg.PrimitiveTypes.Float64, "", false, iceberg.NewLiteral(0.5))
	})
	w.is("1|old|-7|true|0.5")
	w.append(`[{"id": 2, "s": null, "n": 3, "b": false, "f": null}]`).is("1|old|-7|true|0.5", "2|(null)|3|false|(null)")
	r.answers("SELECT id FROM defaulted WHERE s = 'old'", "1")
	r.answers("SELECT id FROM defaulted WHERE n < 0", "1")
	r.answers("SELECT id FROM defaulted WHERE s IS NULL", "2")
	r.answers("SELECT id FROM defaulted WHERE f BETWEEN 0 AND 1", "1")
	r.answers("SELECT n, count(*) FROM defaulted GROUP BY n", "-7|1", "3|1")
}

func renamed(r *lakeRig) {
	w := r.create("renamed", 2, columns("id long", "a string")).append(`[{"id": 1, "a": "x"}]`)
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"a"}, "b") })
	w.is("1|x").append(`[{"id": 2, "b": "y"}]`).is("1|x", "2|y")
	r.answers("SELECT id FROM renamed WHERE b = 'x'", "1")
	r.answers("SELECT b FROM renamed WHERE b >= 'x' ORDER BY b", "x", "y")
}

func droppedAndAdded(r *lakeRig) {
	w := r.create("dropped", 2, columns("id long", "a string")).append(`[{"id": 1, "a": "x"}]`)
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"a"}) }).is("1")
	w.evolve(func(u *table.UpdateSchema) { u.AddColumn([]string{"a"}, iceberg.PrimitiveTypes.String, "", false, nil) })
	w.is("1|(null)").append(`[{"id": 2, "a": "y"}]`).is("1|(null)", "2|y")
	r.answers("SELECT id FROM dropped WHERE a = 'x'")
	r.answers("SELECT id FROM dropped WHERE a IS NULL", "1")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"a"}) })
	w.evolve(func(u *table.UpdateSchema) { u.AddColumn([]string{"a"}, iceberg.PrimitiveTypes.Int64, "", false, nil) })
	w.append(`[{"id": 3, "a": 5}]`).is("1|(null)", "2|(null)", "3|5")
	r.answers("SELECT id FROM dropped WHERE a > 0", "3")
}

func swapped(r *lakeRig) {
	w := r.create("swapped", 2, columns("a long", "b long")).append(`[{"a": 1, "b": 2}]`)
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"a"}, "c") })
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"b"}, "a") })
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"c"}, "b") })
	r.answers("SELECT a, b FROM swapped", "2|1")
	w.append(`[{"b": 10, "a": 20}]`)
	r.answers("SELECT a, b FROM swapped", "2|1", "20|10")
	r.answers("SELECT b FROM swapped WHERE a = 2", "1")
	r.answers("SELECT b FROM swapped WHERE a = 1")
}

func reordered(r *lakeRig) {
	w := r.create("reordered", 2, columns("a long", "b string", "c double")).append(`[{"a": 1, "b": "x", "c": 0.5}]`)
	w.evolve(func(u *table.UpdateSchema) { u.MoveFirst([]string{"c"}).MoveAfter([]string{"a"}, []string{"b"}) })
	w.is("0.5|x|1").append(`[{"c": 1.5, "b": "y", "a": 2}]`).is("0.5|x|1", "1.5|y|2")
	r.answers("SELECT b FROM reordered WHERE c < 1 AND a = 1", "x")
}

func promote(r *lakeRig, name string) *written {
	w := r.create(name, 2, columns("id long", "i int", "f float", "d decimal(9,2)", "e decimal(18,3)"))
	w.append(`[{"id": 1, "i": -2147483648, "f": 0.1, "d": "-1234567.89", "e": "123456789012345.678"}, {"id": 2, "i": 2147483647, "f": "-Inf", "d": "1234567.89", "e": "-0.001"}, {"id": 3, "i": null, "f": null, "d": null, "e": null}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.UpdateColumn([]string{"i"}, kind(iceberg.PrimitiveTypes.Int64)).UpdateColumn([]string{"f"}, kind(iceberg.PrimitiveTypes.Float64))
		u.UpdateColumn([]string{"d"}, kind(iceberg.DecimalTypeOf(20, 2))).UpdateColumn([]string{"e"}, kind(iceberg.DecimalTypeOf(38, 3)))
	})
	return w.append(`[{"id": 4, "i": 9223372036854775807, "f": 0.1, "d": "123456789012345678.90", "e": "-12345678901234567890123456789012345.678"}]`)
}

func promoted(r *lakeRig) {
	promote(r, "promoted").is("1|-2147483648|0.10000000149011612|-1234567.89|123456789012345.678", "2|2147483647|-Inf|1234567.89|-0.001", "3|(null)|(null)|(null)|(null)",
		"4|9223372036854775807|0.1|123456789012345678.9|-12345678901234567890123456789012345.678")
}

func promotedPruned(r *lakeRig) {
	promote(r, "pruned")
	for where, ids := range map[string][]string{
		"i = -2147483648": {"1"}, "i < 0": {"1"}, "i > 2147483646": {"2", "4"}, "i > 2147483647": {"4"}, "i IN (2147483647, 5)": {"2"}, "i IS NULL": {"3"},
		"f < 0": {"2"}, "f = 0.1": {"4"}, "f > 0.1": {"1"}, "f = 0.1::FLOAT::DOUBLE": {"1"}, "d = -1234567.89": {"1"}, "d > 1234567.89": {"4"}, "d BETWEEN 1000000 AND 1234567.89": {"2"},
		"e < -1": {"4"}, "e = -0.001": {"2"}, "e = 123456789012345.678": {"1"}, "e >= 0": {"1"}, "d IS NOT NULL AND e < 0": {"2", "4"},
	} {
		r.answers("SELECT id FROM pruned WHERE "+where, ids...)
	}
}

func nestedFields(r *lakeRig) {
	w := r.create("nested", 2, columns("id long", `s {"type": "struct", "fields": [{"id": 10, "name": "x", "type": "int", "required": false}, {"id": 11, "name": "y", "type": {"type": "struct", "fields": [{"id": 12, "name": "p", "type": "string", "required": false}]}, "required": false}]}`))
	w.append(`[{"id": 1, "s": {"x": 1, "y": {"p": "a"}}}, {"id": 2, "s": {"x": null, "y": null}}, {"id": 3, "s": null}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"s", "y", "q"}, iceberg.PrimitiveTypes.Int64, "", false, nil).UpdateColumn([]string{"s", "x"}, kind(iceberg.PrimitiveTypes.Int64))
	})
	w.is(`1|{"x":1,"y":{"p":"a","q":null}}`, `2|{"x":null,"y":null}`, `3|(null)`)
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"s", "y", "p"}, "pp") })
	w.append(`[{"id": 4, "s": {"x": 9000000000, "y": {"pp": "b", "q": 5}}}]`)
	w.is(`1|{"x":1,"y":{"pp":"a","q":null}}`, `2|{"x":null,"y":null}`, `3|(null)`, `4|{"x":9000000000,"y":{"pp":"b","q":5}}`)
	r.answers("SELECT id FROM nested WHERE s.y.pp = 'a'", "1")
	r.answers("SELECT id FROM nested WHERE s.x > 1", "4")
	r.answers("SELECT id FROM nested WHERE s.y.q IS NULL", "1", "2", "3")
	w.evolve(func(u *table.UpdateSchema) { u.DeleteColumn([]string{"s", "x"}) })
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"s", "x"}, iceberg.PrimitiveTypes.Int64, "", false, nil)
	})
	r.answers("SELECT id, s.y.pp, s.x FROM nested", "1|a|(null)", "2|(null)|(null)", "3|(null)|(null)", "4|b|(null)")
	w.evolve(func(u *table.UpdateSchema) { u.MoveFirst([]string{"s", "x"}) })
	w.is(`1|{"x":null,"y":{"pp":"a","q":null}}`, `2|{"x":null,"y":null}`, `3|(null)`, `4|{"x":null,"y":{"pp":"b","q":5}}`)
}

func elements(r *lakeRig) {
	w := r.create("elements", 2, columns("id long", `l {"type": "list", "element-id": 10, "element-required": false, "element": {"type": "struct", "fields": [{"id": 11, "name": "a", "type": "int", "required": false}]}}`,
		`m {"type": "map", "key-id": 20, "key": "string", "value-id": 21, "value-required": false, "value": {"type": "struct", "fields": [{"id": 22, "name": "v", "type": "int", "required": false}]}}`,
		`n {"type": "list", "element-id": 30, "element-required": false, "element": "int"}`))
	w.append(`[{"id": 1, "l": [{"a": 1}, null, {"a": null}], "m": [{"key": "k", "value": {"v": 1}}, {"key": "z", "value": null}], "n": [1, null]}, {"id": 2, "l": [], "m": [], "n": null}]`)
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"l", "b"}, iceberg.PrimitiveTypes.String, "", false, nil).AddColumn([]string{"m", "w"}, iceberg.PrimitiveTypes.String, "", false, nil)
		u.UpdateColumn([]string{"l", "element", "a"}, kind(iceberg.PrimitiveTypes.Int64)).UpdateColumn([]string{"n", "element"}, kind(iceberg.PrimitiveTypes.Int64))
	})
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"m", "value", "v"}, "vv") })
	w.append(`[{"id": 3, "l": [{"a": 9000000000, "b": "x"}], "m": [{"key": "k", "value": {"vv": 5, "w": "y"}}], "n": [9000000000]}]`)
	w.is(`1|[{"a":1,"b":null},null,{"a":null,"b":null}]|[{"key":"k","value":{"vv":1,"w":null}},{"key":"z","value":null}]|[1,null]`, `2|[]|[]|(null)`,
		`3|[{"a":9000000000,"b":"x"}]|[{"key":"k","value":{"vv":5,"w":"y"}}]|[9000000000]`)
	r.answers("SELECT id, m['k'].vv, l[1].b FROM elements WHERE len(l) > 0", "1|1|(null)", "3|5|x")
}

func evolvedByEngine(r *lakeRig) {
	w := r.create("byengine", 2, columns("id int", "a string")).append(`[{"id": 1, "a": "x"}]`)
	for _, s := range []string{"ADD COLUMN b DOUBLE", "RENAME COLUMN a TO c", "ALTER COLUMN id TYPE BIGINT"} {
		r.changes("ALTER TABLE byengine " + s)
	}
	w.is("1|x|(null)").reload().append(`[{"id": 9000000000, "c": "y", "b": 1.5}]`).is("1|x|(null)", "9000000000|y|1.5")
	r.changes("ALTER TABLE byengine DROP COLUMN b")
	r.changes("ALTER TABLE byengine ADD COLUMN b VARCHAR")
	w.is("1|x|(null)", "9000000000|y|(null)")
}
