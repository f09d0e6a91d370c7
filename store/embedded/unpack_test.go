package embedded

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// packed writes a tarball with one extra entry.
func packed(t *testing.T, dir, entry string) string {
	t.Helper()
	name := filepath.Join(dir, "x.tgz")
	f, err := os.Create(name)
	require.NoError(t, err)
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	for _, file := range []struct{ name, text string }{
		{"package/package.json", "{}"},
		{packageRoot + "pg-symlinks.json", "[]"},
		{packageRoot + entry, "outside"},
	} {
		require.NoError(t, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o644, Size: int64(len(file.text))}))
		_, err := archive.Write([]byte(file.text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	require.NoError(t, f.Close())
	return name
}
