package lake

import (
	"container/list"
	"sync"
)

// partitionCache keeps the partitions of tables by metadata location, within a bound of bytes. Metadata never changes, so what it has is always right.
type partitionCache struct {
	mu     sync.Mutex
	limit  int
	bytes  int
	recent *list.List // of partitionsAt, the most recently used first
	byName map[string]*list.Element
}

type partitionsAt struct {
	location string
	rows     []Partition
	bytes    int
}

// partitionBytes bounds the partitions of tables that are kept in memory.
const partitionBytes = 32 << 20

func newPartitionCache(limit int) *partitionCache {
	return &partitionCache{limit: limit, recent: list.New(), byName: map[string]*list.Element{}}
}

func (c *partitionCache) get(location string) ([]Partition, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[location]
	if e == nil {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(partitionsAt).rows, true
}

// put keeps the partitions, unless they alone would take half of the room.
func (c *partitionCache) put(location string, rows []Partition) {
	bytes := len(location) + 256
	for _, p := range rows {
		bytes += len(p.Partition) + 64
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.limit/2 || c.byName[location] != nil {
		return
	}
	c.byName[location] = c.recent.PushFront(partitionsAt{location, rows, bytes})
	for c.bytes += bytes; c.bytes > c.limit; {
		oldest := c.recent.Remove(c.recent.Back()).(partitionsAt)
		delete(c.byName, oldest.location)
		c.bytes -= oldest.bytes
	}
}
