package lake

import (
	"container/list"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// state is one state of a table. The location alone does not identify it: a foreign file may be
// rewritten and registered again.
type state struct {
	table    domain.TableID
	version  int
	location string // of the metadata file
}

func stateOf(row Table) state { return state{row.ID, row.Version, row.MetadataLocation} }

// tag is the form of the state that catalog clients store.
func (s state) tag() string { return fmt.Sprintf("%s@%d %s", s.table, s.version, s.location) }

// document is a metadata file with its derived forms. It is immutable.
type document struct {
	state
	json   []byte
	before state // the state before it in this process, or zero
	head   int   // bytes before the snapshots, if they are the file's last field and written has them; else 0

	parseOnce sync.Once
	parsed    table.Metadata
	parseErr  error

	writtenOnce sync.Once
	written     []writtenSnapshot
	writtenErr  error

	refsOnce sync.Once
	refs     []byte
	refsErr  error
}

// metadata parses the file once.
func (d *document) metadata() (table.Metadata, error) {
	d.parseOnce.Do(func() {
		if d.parsed == nil {
			d.parsed, d.parseErr = table.ParseMetadataBytes(d.json)
		}
	})
	return d.parsed, d.parseErr
}

// snapshots returns the file's snapshots as written in it.
func (d *document) snapshots() ([]writtenSnapshot, error) {
	d.writtenOnce.Do(func() {
		if d.written == nil {
			d.written, d.writtenErr = readSnapshots(d.json)
		}
	})
	return d.written, d.writtenErr
}

// refsOnly returns the file with only the snapshots that branches and tags name. It is computed
// once. A file made by this process is not parsed for it.
func (d *document) refsOnly() ([]byte, error) {
	d.refsOnce.Do(func() {
		if d.head == 0 {
			d.refs, d.refsErr = onlyRefs(d.json)
			return
		}
		named := map[int64]bool{}
		for _, ref := range d.parsed.Refs() {
			named[ref.SnapshotID] = true
		}
		kept := slices.DeleteFunc(slices.Clone(d.written), func(s writtenSnapshot) bool { return !named[s.id] })
		d.refs, _ = spliced(append(slices.Clone(d.json[:d.head]), '}'), kept)
	})
	return d.refs, d.refsErr
}

// weight is the approximate size in bytes of the document and its derived forms.
func (d *document) weight() int64 { return 6*int64(len(d.json)) + 1024 }

// cache stores metadata by state, up to a limit in bytes. A state never changes, so an entry never
// goes stale.
type cache struct {
	mu      sync.Mutex
	limit   int64
	bytes   int64
	recent  *list.List // of *document, the most recently used first
	byState map[state]*list.Element
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, recent: list.New(), byState: map[state]*list.Element{}}
}

func (c *cache) get(of state) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byState[of]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*document)
}

// put stores the document, unless it needs more than half of the limit.
func (c *cache) put(d *document) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.weight() > c.limit/2 || c.byState[d.state] != nil {
		return
	}
	c.byState[d.state] = c.recent.PushFront(d)
	c.bytes += d.weight()
	for c.bytes > c.limit {
		c.remove(c.recent.Back())
	}
}

// supersede stores the document that follows old. The old document stays, since clients may just
// have received its tag. The one before it is removed.
func (c *cache) supersede(d *document, old state) {
	d.before = old
	c.put(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byState[old]
	if e == nil {
		return
	}
	if gone := c.byState[e.Value.(*document).before]; gone != nil {
		c.remove(gone)
	}
}

func (c *cache) remove(e *list.Element) {
	gone := e.Value.(*document)
	c.recent.Remove(e)
	delete(c.byState, gone.state)
	c.bytes -= gone.weight()
}
