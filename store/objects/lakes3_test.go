package objects_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/objects/s3test"
)

// TestLakeS3: on a real S3 server files are written once, read whole and in parts, listed and
// removed. Engines receive the access data.
func TestLakeS3(t *testing.T) {
	server := s3test.Start(t)
	ctx := t.Context()
	l, err := objects.OpenLake(ctx, server.URL("some/prefix"), objects.LakeOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	prefix := l.Prefix("ws_1")
	require.Equal(t, "s3://lake/some/prefix/ws_1/", prefix)
	access, err := l.Access(ctx, "ws_1")
	require.NoError(t, err)
	require.Equal(t, lake.Access{Prefix: prefix, S3: &lake.S3Access{
		Endpoint: server.Endpoint, Region: server.Region, AccessKeyID: server.Key, SecretKey: server.Secret, PathStyle: true,
	}}, access)
	small, large := prefix+"db/t/metadata/a b=1.json", prefix+"db/t/data/large"
	require.NoError(t, l.Write(ctx, small, []byte("hello")))
	require.FileExists(t, server.Dir+"/some/prefix/ws_1/db/t/metadata/a b=1.json")
	require.True(t, domain.IsCode(l.Write(ctx, small, []byte("other")), domain.CodeConflict))
	data, err := l.Read(ctx, small)
	require.NoError(t, err)
	require.Equal(t, "hello", string(data))
	whole := bytes.Repeat([]byte("0123456789abcdef"), 17<<20/16)
	require.NoError(t, l.Write(ctx, large, whole))
	for uri, want := range map[string][]byte{small: []byte("hello"), large: whole} {
		f, err := l.Open(ctx, uri)
		require.NoError(t, err)
		require.Equal(t, int64(len(want)), f.Size())
		part := make([]byte, 3)
		_, err = f.ReadAt(part, 2)
		require.NoError(t, err)
		require.Equal(t, string(want[2:5]), string(part))
		n, err := f.ReadAt(part, f.Size()-1)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 1, n)
		_, err = f.Seek(-2, io.SeekEnd)
		require.NoError(t, err)
		end, err := io.ReadAll(f)
		require.NoError(t, err)
		require.Equal(t, string(want[len(want)-2:]), string(end))
		require.NoError(t, f.Close())
	}
	var found []string
	require.NoError(t, l.List(ctx, prefix+"db/t/", func(f lake.FileInfo) error { found = append(found, f.URI); return nil }))
	require.Equal(t, []string{large, small}, found)
	require.NoError(t, l.MakeDirs(ctx, prefix+"db/t/data/"))
	require.NoError(t, l.Delete(ctx, small))
	require.NoError(t, l.Delete(ctx, small))
	_, err = l.Read(ctx, small)
	require.True(t, domain.IsCode(err, domain.CodeNotFound))
	_, err = l.Open(ctx, small)
	require.True(t, domain.IsCode(err, domain.CodeNotFound))
	_, err = l.Read(ctx, "s3://other/some/prefix/ws_1/x")
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
}
