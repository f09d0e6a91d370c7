package expiry_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/expiry"
)

// now is day 100 of the histories below.
var now = day(100)

func day(n float64) time.Time {
	return time.UnixMilli(0).Add(time.Duration(n * 24 * float64(time.Hour)))
}

// made is a snapshot from a day, with its parent; 0 for none.
type made struct {
	id, parent int64
	at         float64
}

// entry says that main moved to a snapshot.
type entry struct {
	id int64
	at float64
}

type history struct {
	snapshots  []made
	log        []entry
	refs       map[string]string // JSON
	properties map[string]string
}

func branch(id int64) string { return fmt.Sprintf(`{"type":"branch","snapshot-id":%d}`, id) }
func tag(id int64) string    { return fmt.Sprintf(`{"type":"tag","snapshot-id":%d}`, id) }

func (h history) metadata(t *testing.T) table.Metadata {
	type object = map[string]any
	at := func(days float64) int64 { return day(days).UnixMilli() }
	var snapshots, log []object
	for i, m := range h.snapshots {
		s := object{"snapshot-id": m.id, "sequence-number": i + 1, "timestamp-ms": at(m.at), "manifest-list": fmt.Sprintf("file:///t/%d", m.id), "summary": object{"operation": "append"}, "schema-id": 0}
		if m.parent != 0 {
			s["parent-snapshot-id"] = m.parent
		}
		snapshots = append(snapshots, s)
	}
	for _, e := range h.log {
		log = append(log, object{"snapshot-id": e.id, "timestamp-ms": at(e.at)})
	}
	refs := map[string]json.RawMessage{}
	whole := object{
		"format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "file:///t", "last-sequence-number": len(snapshots), "last-updated-ms": at(100),
		"last-column-id": 1, "schemas": []object{{"type": "struct", "schema-id": 0, "fields": []object{{"id": 1, "name": "a", "required": false, "type": "long"}}}}, "current-schema-id": 0,
		"partition-specs": []object{{"spec-id": 0, "fields": []object{}}}, "default-spec-id": 0, "last-partition-id": 999, "sort-orders": []object{{"order-id": 0, "fields": []object{}}}, "default-sort-order-id": 0,
		"snapshots": snapshots, "snapshot-log": log, "refs": refs, "properties": h.properties,
	}
	for name, ref := range h.refs {
		refs[name] = json.RawMessage(ref)
		if name == table.MainBranch {
			var main struct {
				ID int64 `json:"snapshot-id"`
			}
			require.NoError(t, json.Unmarshal([]byte(ref), &main))
			whole["current-snapshot-id"] = main.ID
		}
	}
	b, err := json.Marshal(whole)
	require.NoError(t, err)
	meta, err := table.ParseMetadataBytes(b)
	require.NoError(t, err)
	return meta
}

func refs(pairs ...string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

// TestDecide checks that age begins when a snapshot was last replaced.
func TestDecide(t *testing.T) {
	const week = 7 * 24 * time.Hour
	line := []made{{1, 0, 10}, {2, 1, 70}, {3, 2, 99}}
	logged := []entry{{1, 10}, {2, 70}, {3, 99}}
	for _, c := range []struct {
		name string
		of   history
		rule expiry.Rule
		goes []int64
		refs []string
	}{
		{"a state that was replaced yesterday stays, however old it is", history{snapshots: []made{{1, 0, 10}, {2, 1, 99}}, log: []entry{{1, 10}, {2, 99}}, refs: refs("main", branch(2))}, expiry.Rule{Age: week}, nil, nil},
		{"a state that was replaced long ago goes", history{snapshots: line, log: logged, refs: refs("main", branch(3))}, expiry.Rule{Age: week}, []int64{1}, nil},
		{"exactly at its age", history{snapshots: []made{{1, 0, 10}, {2, 1, 93}}, log: []entry{{1, 10}, {2, 93}}, refs: refs("main", branch(2))}, expiry.Rule{Age: week}, []int64{1}, nil},
		{"without a log the successor counts", history{snapshots: line, refs: refs("main", branch(3))}, expiry.Rule{Age: week}, []int64{1}, nil},
		{"main came to the successor later than that was made", history{snapshots: line, log: []entry{{1, 10}, {2, 98}, {3, 99}}, refs: refs("main", branch(3))}, expiry.Rule{Age: week}, nil, nil},
		{"main was led forward over several at once", history{snapshots: line, log: []entry{{1, 10}, {3, 99}}, refs: refs("main", branch(3))}, expiry.Rule{Age: week}, nil, nil},
		{"main came back to a snapshot, and left it again", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 1, 30}}, log: []entry{{1, 10}, {2, 20}, {1, 25}, {3, 30}}, refs: refs("main", branch(3))}, expiry.Rule{Age: week}, []int64{1, 2}, nil},
		{"what was rolled back counts from the roll-back", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}}, log: []entry{{1, 10}, {2, 20}, {1, 99}}, refs: refs("main", branch(1))}, expiry.Rule{Age: week}, nil, nil},
		{"what was rolled back long ago goes", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}}, log: []entry{{1, 10}, {2, 20}, {1, 30}}, refs: refs("main", branch(1))}, expiry.Rule{Age: week}, []int64{2}, nil},
		{"what no ref reaches and no log knows counts from its own time", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 1, 99}}, log: []entry{{1, 10}}, refs: refs("main", branch(1))}, expiry.Rule{Age: week}, []int64{2}, nil},
		{"each branch has a chain of its own", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 1, 99}}, log: []entry{{1, 10}, {2, 20}}, refs: refs("main", branch(2), "side", branch(3))}, expiry.Rule{Age: week}, nil, nil},
		{"the log is main's alone", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 1, 30}, {4, 2, 99}}, log: []entry{{1, 10}, {2, 20}, {4, 99}}, refs: refs("main", branch(4), "side", branch(3))}, expiry.Rule{Age: week}, []int64{1}, nil},
		{"a tag keeps what it names, and nothing before it", history{snapshots: line, log: logged, refs: refs("main", branch(3), "v1", tag(1))}, expiry.Rule{Age: week}, nil, nil},
		{"a tag does not keep the parents of what it names", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 0, 99}}, log: []entry{{3, 99}}, refs: refs("main", branch(3), "v2", tag(2))}, expiry.Rule{Age: week}, []int64{1}, nil},
		{"the statement keeps so many of each branch", history{snapshots: line, log: logged, refs: refs("main", branch(3))}, expiry.Rule{Age: week, Keep: 3}, nil, nil},
		{"the table keeps so many", history{snapshots: line, log: logged, refs: refs("main", branch(3)), properties: map[string]string{"history.expire.min-snapshots-to-keep": "3"}}, expiry.Rule{Age: week}, nil, nil},
		{"a branch keeps so many", history{snapshots: line, log: logged, refs: refs("main", `{"type":"branch","snapshot-id":3,"min-snapshots-to-keep":3}`)}, expiry.Rule{Age: week}, nil, nil},
		{"the table keeps longer", history{snapshots: line, log: logged, refs: refs("main", branch(3)), properties: map[string]string{"history.expire.max-snapshot-age-ms": "9999999999"}}, expiry.Rule{Age: week}, nil, nil},
		{"the table cannot keep shorter", history{snapshots: line, log: logged, refs: refs("main", branch(3)), properties: map[string]string{"history.expire.max-snapshot-age-ms": "1"}}, expiry.Rule{Age: 31 * 24 * time.Hour}, nil, nil},
		{"a branch keeps longer", history{snapshots: line, log: logged, refs: refs("main", `{"type":"branch","snapshot-id":3,"max-snapshot-age-ms":9999999999}`)}, expiry.Rule{Age: week}, nil, nil},
		{"a branch that is too old goes, and what it alone reached", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 1, 99}}, log: []entry{{1, 10}, {3, 99}}, refs: refs("main", branch(3), "old", `{"type":"branch","snapshot-id":2,"max-ref-age-ms":1}`)}, expiry.Rule{Age: week}, []int64{2}, []string{"old"}},
		{"main is never too old", history{snapshots: []made{{1, 0, 10}}, log: []entry{{1, 10}}, refs: refs("main", `{"type":"branch","snapshot-id":1,"max-ref-age-ms":1}`)}, expiry.Rule{Age: week}, nil, nil},
		{"beyond the most, the oldest go although younger", history{snapshots: line, log: logged, refs: refs("main", branch(3))}, expiry.Rule{Age: 90 * 24 * time.Hour, Max: 2}, []int64{1}, nil},
		{"beyond the most, what a ref names stays", history{snapshots: line, log: logged, refs: refs("main", branch(3), "v1", tag(1))}, expiry.Rule{Age: 90 * 24 * time.Hour, Max: 2}, []int64{2}, nil},
		{"beyond the most, what was replaced within the hour stays", history{snapshots: []made{{1, 0, 10}, {2, 1, 20}, {3, 2, 99.99}}, log: []entry{{1, 10}, {2, 20}, {3, 99.99}}, refs: refs("main", branch(3))}, expiry.Rule{Age: 90 * 24 * time.Hour, Max: 1}, []int64{1}, nil},
		{"beyond the most, so many stay as the table says", history{snapshots: line, log: logged, refs: refs("main", branch(3)), properties: map[string]string{"history.expire.min-snapshots-to-keep": "3"}}, expiry.Rule{Age: week, Max: 1}, nil, nil},
		{"parents that lead in a circle", history{snapshots: []made{{1, 2, 10}, {2, 1, 20}}, log: []entry{{1, 10}, {2, 20}}, refs: refs("main", branch(2))}, expiry.Rule{Age: week}, []int64{1}, nil},
		{"an empty table", history{}, expiry.Rule{Age: week, Max: 1}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := expiry.Decide(c.of.metadata(t), c.rule, now)
			require.ElementsMatch(t, c.goes, p.Snapshots)
			require.Equal(t, c.refs, p.Refs)
		})
	}
}

// TestOldest checks the time by which the catalog knows that a table is due.
func TestOldest(t *testing.T) {
	of := history{snapshots: []made{{1, 0, 10}, {2, 1, 70}, {3, 2, 99}}, log: []entry{{1, 10}, {2, 70}, {3, 99}}, refs: refs("main", branch(3))}
	require.Equal(t, day(70).UTC(), *expiry.Oldest(of.metadata(t)))
	of.refs["v1"] = tag(1)
	require.Equal(t, day(99).UTC(), *expiry.Oldest(of.metadata(t)))
	of.refs["v2"] = tag(2)
	require.Nil(t, expiry.Oldest(of.metadata(t)))
}
