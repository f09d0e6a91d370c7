package loader

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/graph-gophers/dataloader/v7"

	"github.com/millpond/millpond/domain"
)

// wait is how long a look-up waits for others to join it. Parallel look-ups come within
// microseconds of each other.
const wait = time.Millisecond

// maxBatch bounds the number of keys in one read.
const maxBatch = domain.MaxLimit

// family is a loader that knows which keys belong together: the first look-up of any of them reads
// all. On a busy machine, batching by time alone would split them.
type family[K comparable, V any] struct {
	loader *dataloader.Loader[K, V]
	read   func(context.Context, []K) (map[K]V, error)

	mu       sync.Mutex
	siblings map[K]*siblings[K]
}

type siblings[K comparable] struct {
	once sync.Once
	keys []K
	err  error // why the read failed
}

// newFamily returns a loader that calls read for each batch. Keys that read does not find get the
// zero value.
func newFamily[K comparable, V any](read func(context.Context, []K) (map[K]V, error)) *family[K, V] {
	batch := func(ctx context.Context, keys []K) []*dataloader.Result[V] {
		found, err := read(ctx, keys)
		results := make([]*dataloader.Result[V], len(keys))
		for i, k := range keys {
			results[i] = &dataloader.Result[V]{Data: found[k], Error: err}
		}
		return results
	}
	loader := dataloader.NewBatchedLoader(batch, dataloader.WithWait[K, V](wait), dataloader.WithBatchCapacity[K, V](maxBatch))
	return &family[K, V]{loader: loader, read: read, siblings: map[K]*siblings[K]{}}
}

// expect records that the keys belong together.
func (f *family[K, V]) expect(keys []K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &siblings[K]{keys: keys}
	for _, k := range keys {
		f.siblings[k] = s
	}
}

// expectOnce is expect with keys that are only computed at the first look-up.
func (f *family[K, V]) expectOnce(key K, together func() []K) {
	f.mu.Lock()
	known := f.siblings[key] != nil
	f.mu.Unlock()
	if !known {
		f.expect(together())
	}
}

// load returns the key's value, and reads its siblings with it.
func (f *family[K, V]) load(ctx context.Context, key K) (V, error) {
	f.mu.Lock()
	s := f.siblings[key]
	f.mu.Unlock()
	if s != nil {
		s.once.Do(func() { s.err = f.readAll(ctx, s.keys) })
		if s.err != nil {
			var none V
			return none, s.err
		}
	}
	return f.loader.Load(ctx, key)()
}

// readAll reads the keys together, in as few reads as maxBatch allows.
func (f *family[K, V]) readAll(ctx context.Context, keys []K) error {
	known := map[K]bool{}
	keys = slices.DeleteFunc(slices.Clone(keys), func(k K) bool {
		defer func() { known[k] = true }()
		return known[k]
	})
	for together := range slices.Chunk(keys, maxBatch) {
		found, err := f.read(ctx, together)
		if err != nil {
			return err
		}
		for _, k := range together {
			f.loader.Prime(ctx, k, found[k])
		}
	}
	return nil
}
