// Package extensions holds DuckDB's extensions, compressed, for the platform of the build.
package extensions

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrMissing is returned by Unpack if the binary was built without DuckDB's extensions.
var ErrMissing = errors.New("this binary was built without DuckDB's extensions for Iceberg and runs no SQL: build it with `make build`, which fetches them")

// Names are the extensions, in load order: iceberg needs avro.
var Names = []string{"avro", "httpfs", "iceberg"}

// Suffix follows the name of an extension in that of its file.
const Suffix = ".duckdb_extension"

// Unpack writes the extensions below dir, readable by children of any user. It writes each version
// once, and returns their directory.
func Unpack(dir string) (string, error) {
	from, err := fs.Sub(embedded, runtime.GOOS+"_"+runtime.GOARCH)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range Names {
		b, err := fs.ReadFile(from, name+Suffix+".gz")
		if errors.Is(err, fs.ErrNotExist) {
			return "", ErrMissing
		}
		if err != nil {
			return "", err
		}
		sum.Write(b)
	}
	to := filepath.Join(dir, "extensions-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	work, err := os.MkdirTemp(dir, ".extensions-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for _, name := range Names {
		if err := unpack(from, name+Suffix, work); err != nil {
			return "", fmt.Errorf("unpacking DuckDB's extension %s: %w", name, err)
		}
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(work, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return to, nil
}

func unpack(from fs.FS, name, dir string) error {
	f, err := from.Open(name + ".gz")
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, z)
	return errors.Join(err, out.Close())
}
