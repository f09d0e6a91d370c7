package objects_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store/objects"
)

func openLake(t *testing.T, o objects.LakeOptions) (*objects.Lake, string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	l, err := objects.OpenLake(t.Context(), "file://"+dir+"/lake", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, dir + "/lake"
}

// TestLakeFiles are written whole, read whole and in parts, listed and removed, under the same
// paths that engines use.
func TestLakeFiles(t *testing.T) {
	l, _ := openLake(t, objects.LakeOptions{Shared: true})
	ctx := t.Context()
	prefix := l.Prefix("ws_1")
	own := strings.TrimPrefix(prefix, "file://")
	uri := prefix + "db/t/metadata/a b%2F=ä.json"
	require.NoError(t, l.Write(ctx, uri, []byte("hello")))
	info, err := os.Stat(filepath.Join(own, "db/t/metadata/a b%2F=ä.json"))
	require.NoError(t, err)
	open := fs.FileMode(0o777) // to the workspace's group, where there is one
	if os.Geteuid() == 0 {
		open = 0o770
	}
	require.Equal(t, open&0o666, info.Mode().Perm())
	info, err = os.Stat(filepath.Join(own, "db/t/metadata"))
	require.NoError(t, err)
	require.Equal(t, open, info.Mode().Perm())
	require.True(t, domain.IsCode(l.Write(ctx, uri, []byte("other")), domain.CodeConflict))
	data, err := l.Read(ctx, uri)
	require.NoError(t, err)
	require.Equal(t, "hello", string(data))
	f, err := l.Open(ctx, uri)
	require.NoError(t, err)
	part := make([]byte, 3)
	_, err = f.ReadAt(part, 2)
	require.NoError(t, err)
	require.Equal(t, "llo", string(part))
	require.Equal(t, int64(5), f.Size())
	all, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "hello", string(all))
	require.NoError(t, f.Close())
	require.NoError(t, l.MakeDirs(ctx, prefix+"db/t/data/", prefix+"db/t/metadata/"))
	var found []string
	require.NoError(t, l.List(ctx, prefix+"db/", func(f lake.FileInfo) error { found = append(found, f.URI); return nil }))
	require.Equal(t, []string{uri}, found)
	require.NoError(t, l.RemoveDirs(ctx, prefix+"db/t/"))
	require.FileExists(t, filepath.Join(own, "db/t/metadata/a b%2F=ä.json"), "what is not empty stays")
	require.NoDirExists(t, filepath.Join(own, "db/t/data"))
	require.NoError(t, l.Delete(ctx, uri))
	require.NoError(t, l.Delete(ctx, uri), "twice is no harm")
	_, err = l.Read(ctx, uri)
	require.True(t, domain.IsCode(err, domain.CodeNotFound))
	_, err = l.Open(ctx, l.Prefix("ws_none")+"x/y")
	require.True(t, domain.IsCode(err, domain.CodeNotFound))
	require.NoError(t, l.List(ctx, l.Prefix("ws_none")+"x/", func(lake.FileInfo) error { return nil }))
	require.NoError(t, l.RemoveDirs(ctx, prefix+"db/t/"))
	require.NoDirExists(t, filepath.Join(own, "db/t"))
}

// TestLakeFence: no name or symbolic link reaches outside a workspace's directory, and a pipe does
// not block the server.
func TestLakeFence(t *testing.T) {
	l, dir := openLake(t, objects.LakeOptions{})
	ctx := t.Context()
	require.NoError(t, l.Write(ctx, l.Prefix("ws_2")+"secret", []byte("theirs")))
	require.NoError(t, l.Write(ctx, l.Prefix("ws_1")+"mine", []byte("mine")))
	info, err := os.Stat(filepath.Join(dir, "ws_1"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	ws := filepath.Join(dir, "ws_1")
	require.NoError(t, os.Symlink("../ws_2", filepath.Join(ws, "theirs")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(ws, "etc")))
	require.NoError(t, os.Symlink("../ws_2/secret", filepath.Join(ws, "file")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(ws, "pipe"), 0o600))
	prefix := l.Prefix("ws_1")
	for _, uri := range []string{
		prefix + "theirs/secret", prefix + "etc/passwd", prefix + "file", prefix + "pipe", prefix + "../ws_2/secret", prefix + "theirs", l.Prefix("ws_1"),
		"file:///etc/passwd", prefix + "/mine", prefix + "./mine", "mine",
	} {
		_, err := l.Read(ctx, uri)
		require.Error(t, err, uri)
		_, err = l.Open(ctx, uri)
		require.Error(t, err, uri)
	}
	for _, link := range []string{"file", "etc/passwd"} {
		_, err = l.Read(ctx, prefix+link)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
		require.ErrorContains(t, err, "is a symbolic link, which is not followed")
	}
	require.Error(t, l.Write(ctx, prefix+"theirs/new", []byte("x")))
	require.Error(t, l.Write(ctx, prefix+"etc/new", []byte("x")))
	require.Error(t, l.MakeDirs(ctx, prefix+"theirs/new/"))
	require.Error(t, l.Delete(ctx, prefix+"theirs/secret"))
	require.NoError(t, l.Delete(ctx, prefix+"file"), "the link goes, not what it leads to")
	require.FileExists(t, filepath.Join(dir, "ws_2/secret"))
	var found []string
	require.NoError(t, l.List(ctx, prefix+"theirs/", func(f lake.FileInfo) error { found = append(found, f.URI); return nil }), "a link is not followed")
	require.Empty(t, found)
	require.NoError(t, os.MkdirAll(filepath.Join(ws, "a/b"), 0o700))
	require.NoError(t, os.Symlink("a", filepath.Join(ws, "c")))
	require.NoError(t, l.Write(ctx, prefix+"a/b/x", nil))
	require.Error(t, l.Delete(ctx, prefix+"c/b/x"))
	require.FileExists(t, filepath.Join(ws, "a/b/x"))
	_, err = objects.OpenLake(ctx, "ftp://host/x", objects.LakeOptions{})
	require.Error(t, err)
	_, err = objects.OpenLake(ctx, "file:relative", objects.LakeOptions{})
	require.Error(t, err)
}

// TestLakeWrites create a file once, under its own name only. A failed write leaves nothing.
func TestLakeWrites(t *testing.T) {
	l, dir := openLake(t, objects.LakeOptions{})
	ctx := t.Context()
	uri := l.Prefix("ws_1") + "t/metadata/a.json"
	require.NoError(t, l.Write(ctx, uri, []byte("one")))
	require.True(t, domain.IsCode(l.Write(ctx, uri, []byte("two")), domain.CodeConflict))
	data, err := l.Read(ctx, uri)
	require.NoError(t, err)
	require.Equal(t, "one", string(data))
	metadata := filepath.Join(dir, "ws_1/t/metadata")

	// Partial files of a power cut, under the final name or an earlier version's, do no harm.
	require.NoError(t, os.WriteFile(filepath.Join(metadata, ".b.json.part"), []byte("on"), 0o600))
	require.NoError(t, os.Symlink("a.json", filepath.Join(metadata, "link.json")))
	require.NoError(t, l.Write(ctx, l.Prefix("ws_1")+"t/metadata/b.json", []byte("two")))
	require.True(t, domain.IsCode(l.Write(ctx, l.Prefix("ws_1")+"t/metadata/link.json", []byte("two")), domain.CodeConflict), "a link is not written through")
	require.NoError(t, l.Delete(ctx, uri))
	require.NoError(t, l.Write(ctx, uri, []byte("three")), "a name that is free again is taken again")

	var group sync.WaitGroup
	var made atomic.Int32
	for i := range 8 {
		group.Go(func() {
			if err := l.Write(ctx, l.Prefix("ws_1")+"t/metadata/c.json", []byte{byte(i)}); err == nil {
				made.Add(1)
			} else if !domain.IsCode(err, domain.CodeConflict) {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	require.Equal(t, int32(1), made.Load())
	entries, err := os.ReadDir(metadata)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{".b.json.part", "a.json", "b.json", "c.json", "link.json"}, names)
}
