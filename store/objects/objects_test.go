package objects_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store/objects"
)

// TestArchiveGivesBackWhatItTook: packed and unpacked chunks are equal to the byte and the
// nanosecond.
func TestArchiveGivesBackWhatItTook(t *testing.T) {
	a, err := objects.NewArchive()
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		var chunks []job.LogChunk
		var offset int64
		for range rapid.IntRange(0, 20).Draw(t, "chunks") {
			data := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
			chunks = append(chunks, job.LogChunk{
				Offset: offset, Stream: rapid.SampledFrom([]job.LogStream{job.Stdout, job.Stderr}).Draw(t, "stream"),
				FirstLine: rapid.Int64Range(1, 1<<50).Draw(t, "line"), EmittedAt: time.Unix(0, rapid.Int64().Draw(t, "time")).UTC(), Data: data,
			})
			offset += int64(len(data))
		}
		got, err := a.Unpack(a.Pack(chunks))
		require.NoError(t, err)
		require.Equal(t, chunks, got)
	})
}

// TestArchiveRefusesWhatIsBroken: a flipped bit or a cut is an error, never other bytes.
func TestArchiveRefusesWhatIsBroken(t *testing.T) {
	a, err := objects.NewArchive()
	require.NoError(t, err)
	packed := a.Pack([]job.LogChunk{{Stream: job.Stdout, FirstLine: 1, Data: []byte("a line\n")}})
	for i := range packed {
		broken := append([]byte(nil), packed...)
		broken[i] ^= 0x10
		if got, err := a.Unpack(broken); err == nil {
			require.Equal(t, "a line\n", string(got[0].Data))
		}
		if i > 0 {
			_, err = a.Unpack(packed[:i])
			require.Error(t, err)
		}
	}
}

func TestObjects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	o, err := objects.Open("file://" + dir)
	require.NoError(t, err)
	defer o.Close()
	require.NoError(t, o.Put(t.Context(), "ws_1/logs/att_1/00", []byte("one")))
	require.NoError(t, o.Put(t.Context(), "ws_1/logs/att_1/00", []byte("two")))
	got, err := o.Get(t.Context(), "ws_1/logs/att_1/00")
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	for range 2 { // the second removes a missing object
		require.NoError(t, o.Delete(t.Context(), "ws_1/logs/att_1/00"))
		_, err = o.Get(t.Context(), "ws_1/logs/att_1/00")
		require.True(t, domain.IsCode(err, domain.CodeNotFound))
	}
	_, err = o.Get(t.Context(), "ws_1/logs/att_2/00")
	require.True(t, domain.IsCode(err, domain.CodeNotFound))

	for _, bad := range []string{"s3://bucket", "file://relative", "/path", "file://host/path", "::"} {
		_, err := objects.Open(bad)
		require.Error(t, err, bad)
	}
}

// TestAFullStorageSaysSo in Full and on writes; existing objects can be read.
func TestAFullStorageSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Skip("this machine mounts no tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	o, err := objects.Open("file://" + dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	full, err := o.Full()
	require.NoError(t, err)
	require.False(t, full)
	require.NoError(t, o.Put(t.Context(), "a", make([]byte, 3584<<10)))
	err = o.Put(t.Context(), "b", make([]byte, 2<<20))
	require.Equal(t, domain.CodeUnavailable, domain.AsError(err).Code, err)
	require.NotContains(t, domain.AsError(err).Message, dir)
	full, err = o.Full()
	require.NoError(t, err)
	require.True(t, full)
	b, err := o.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, b, 3584<<10)
}
