package engine

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

// ErrNoExtensions is answered by New where the binary was built without DuckDB's extensions.
var ErrNoExtensions = errors.New("this binary was built without DuckDB's extensions for Iceberg and runs no SQL: build it with `make build`, which fetches them")

// extensionNames in the order in which they are loaded: iceberg needs avro.
var extensionNames = []string{"avro", "httpfs", "iceberg"}

const extensionSuffix = ".duckdb_extension"

// unpackExtensions lays the embedded extensions below dir, once for each version of them, where children of any user can read them.
func unpackExtensions(dir string) (string, error) {
	from, err := fs.Sub(embedded, "extensions/"+runtime.GOOS+"_"+runtime.GOARCH)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range extensionNames {
		b, err := fs.ReadFile(from, name+extensionSuffix+".gz")
		if errors.Is(err, fs.ErrNotExist) {
			return "", ErrNoExtensions
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
	for _, name := range extensionNames {
		if err := unpack(from, name+extensionSuffix, work); err != nil {
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
