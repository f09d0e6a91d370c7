package lake

import (
	"container/list"
	"sync"
)

// boundedCache stores values that never change, up to a limit in bytes.
type boundedCache[K comparable, V any] struct {
	mu     sync.Mutex
	limit  int
	bytes  int
	recent *list.List // of cached values, the most recently used first
	byKey  map[K]*list.Element
}

type cached[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

func newBoundedCache[K comparable, V any](limit int) *boundedCache[K, V] {
	return &boundedCache[K, V]{limit: limit, recent: list.New(), byKey: map[K]*list.Element{}}
}

func (c *boundedCache[K, V]) get(key K) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return value, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(cached[K, V]).value, true
}

// put stores the value, unless it needs more than half of the limit.
func (c *boundedCache[K, V]) put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.limit/2 || c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.recent.PushFront(cached[K, V]{key, value, bytes})
	for c.bytes += bytes; c.bytes > c.limit; {
		oldest := c.recent.Remove(c.recent.Back()).(cached[K, V])
		delete(c.byKey, oldest.key)
		c.bytes -= oldest.bytes
	}
}

// partitionCache stores the partitions of tables by state.
type partitionCache struct {
	*boundedCache[state, []Partition]
}

// partitionBytes bounds the partitions of tables in memory.
const partitionBytes = 32 << 20

func newPartitionCache(limit int) partitionCache {
	return partitionCache{newBoundedCache[state, []Partition](limit)}
}

func (c partitionCache) put(of state, rows []Partition) {
	bytes := len(of.location) + 256
	for _, p := range rows {
		bytes += len(p.Partition) + 64
	}
	c.boundedCache.put(of, rows, bytes)
}
