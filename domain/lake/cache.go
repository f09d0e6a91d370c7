package lake

import (
	"container/list"
	"slices"
	"sync"

	"github.com/apache/iceberg-go/table"
)

// document is a metadata file: immutable, and so is everything made of it.
type document struct {
	location string
	json     []byte
	before   string // location of the one that it followed in this process, if any
	head     int    // bytes before the snapshots, where they are the last of the file and written has them; 0 where that is not so

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

// snapshots are those of the file as they are written in it.
func (d *document) snapshots() ([]writtenSnapshot, error) {
	d.writtenOnce.Do(func() {
		if d.written == nil {
			d.written, d.writtenErr = readSnapshots(d.json)
		}
	})
	return d.written, d.writtenErr
}

// refsOnly is the file with only those snapshots that branches and tags name, made once. Of a file that was made here nothing is parsed for it.
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

// weight is about how many bytes the document and what is made of it hold.
func (d *document) weight() int64 { return 6*int64(len(d.json)) + 1024 }

// cache keeps metadata by location, within a bound of bytes. Files never change, so what it has is always right.
type cache struct {
	mu     sync.Mutex
	limit  int64
	bytes  int64
	recent *list.List // of *document, the most recently used first
	byName map[string]*list.Element
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, recent: list.New(), byName: map[string]*list.Element{}}
}

func (c *cache) get(location string) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[location]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*document)
}

// put keeps the document, unless it alone would take half of the room.
func (c *cache) put(d *document) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.weight() > c.limit/2 || c.byName[d.location] != nil {
		return
	}
	c.byName[d.location] = c.recent.PushFront(d)
	c.bytes += d.weight()
	for c.bytes > c.limit {
		c.remove(c.recent.Back())
	}
}

// supersede keeps the document that followed the one at the location. That one stays for those who have just been told of it, and what was before it goes.
func (c *cache) supersede(d *document, old string) {
	d.before = old
	c.put(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[old]
	if e == nil {
		return
	}
	if gone := c.byName[e.Value.(*document).before]; gone != nil {
		c.remove(gone)
	}
}

func (c *cache) remove(e *list.Element) {
	gone := e.Value.(*document)
	c.recent.Remove(e)
	delete(c.byName, gone.location)
	c.bytes -= gone.weight()
}
