package objects_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store/objects"
)

// TestArchiveGivesBackWhatItTook: any chunks, packed and unpacked, are the same to the byte and the nanosecond.
func TestArchiveGivesBackWhatItTook(t *testing.T) {
	a, err := objects.NewArchive()
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		var chunks []domain.LogChunk
		var offset int64
		for range rapid.IntRange(0, 20).Draw(t, "chunks") {
			data := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
			chunks = append(chunks, domain.LogChunk{
				Offset: offset, Stream: rapid.SampledFrom([]domain.LogStream{domain.Stdout, domain.Stderr}).Draw(t, "stream"),
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
	packed := a.Pack([]domain.LogChunk{{Stream: domain.Stdout, FirstLine: 1, Data: []byte("a line\n")}})
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
	for range 2 { // one that is not there is removed
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
