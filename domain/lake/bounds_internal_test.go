package lake

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// Bound sets what one request may read of a table's files.
func (c *Catalog) Bound(d time.Duration, entries, partitions int) {
	c.bounds = bounds{time: d, entries: entries, partitions: partitions}
}

// sized is a storage of one file with a given size.
type sized struct {
	Files
	size int64
	read int
}

// Open implements Files.
func (s *sized) Open(context.Context, string) (File, error) { return sizedFile{size: s.size}, nil }

// Read implements Files.
func (s *sized) Read(context.Context, string) ([]byte, error) {
	s.read++
	return []byte("{}"), nil
}

type sizedFile struct {
	File
	size int64
}

func (f sizedFile) Size() int64  { return f.size }
func (f sizedFile) Close() error { return nil }

// TestRegisteredMetadataIsBounded: a file that is too large is refused before it is read.
func TestRegisteredMetadataIsBounded(t *testing.T) {
	files := &sized{size: maxRegistered + 1}
	c := New(Options{Files: files})
	_, err := c.registrable(t.Context(), state{location: "file:///ws/a/b.metadata.json"})
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	require.ErrorContains(t, err, "67108864")
	require.Zero(t, files.read)
	files.size = maxRegistered
	d, err := c.registrable(t.Context(), state{location: "file:///ws/a/b.metadata.json"})
	require.NoError(t, err)
	require.Equal(t, "{}", string(d.json))
}

// TestPartitionsInMemory are bounded in bytes, and the least recently used are evicted.
func TestPartitionsInMemory(t *testing.T) {
	rows := []Partition{{Partition: "p=1"}}
	one := len("0") + 256 + len("p=1") + 64
	c := newPartitionCache(4 * one)
	at := func(name string) state { return state{location: name} }
	for i := range 4 {
		c.put(at(fmt.Sprint(i)), rows)
	}
	_, ok := c.get(at("0"))
	require.True(t, ok)
	c.put(at("4"), rows)
	c.put(at("4"), rows)
	_, ok = c.get(at("1"))
	require.False(t, ok)
	for _, name := range []string{"0", "2", "3", "4"} {
		found, ok := c.get(at(name))
		require.True(t, ok, name)
		require.Equal(t, rows, found)
	}
	require.Equal(t, 4*one, c.bytes)
	c.put(at("huge"), make([]Partition, 100))
	_, ok = c.get(at("huge"))
	require.False(t, ok)
}
