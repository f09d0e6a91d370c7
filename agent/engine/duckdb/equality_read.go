package duckdb

import (
	"encoding/base64"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// blobs reads whole files through DuckDB and passes them on in order. DuckDB opens only files in
// the workspace's storage.
func (e *execution) blobs(paths []string, each func(i int, content []byte) error) error {
	const together = 16
	for first := 0; first < len(paths); first += together {
		some, err := e.conn.blobs(paths[first:min(first+together, len(paths))])
		if err != nil {
			return err
		}
		for i, content := range some {
			if err := each(first+i, content); err != nil {
				return err
			}
		}
		if e.ctx.Err() != nil {
			return errInterrupted
		}
	}
	return nil
}

// blobs reads whole files.
func (c *connection) blobs(paths []string) ([][]byte, error) {
	var list []string
	for _, p := range paths {
		if strings.ContainsAny(p, "*?[\n") {
			return nil, sqltext.Refuse(-1, "A manifest has a name that cannot be read here: %s.", sqltext.Cut(p, 200))
		}
		list = append(list, sqltext.Literal(p))
	}
	found, err := c.strings("SELECT concat(filename, chr(10), to_base64(content)) FROM read_blob([" + strings.Join(list, ", ") + "])")
	if err != nil {
		return nil, err
	}
	contents := map[string]string{}
	for _, f := range found {
		name, content, _ := strings.Cut(f, "\n")
		contents[strings.TrimPrefix(name, "file://")] = content
	}
	all := make([][]byte, len(paths))
	for i, p := range paths {
		text, ok := contents[strings.TrimPrefix(p, "file://")]
		if !ok {
			return nil, sqltext.Fail(agent.FaultEngine, "A file of the table is missing: %s. Restore the file, or roll the table back to a snapshot without it.", sqltext.Cut(p, 300))
		}
		if all[i], err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// avroFiles reads manifests or manifest lists.
func (e *execution) avroFiles(paths []string, each func(i int, f *avroFile)) error {
	return e.blobs(paths, func(i int, content []byte) error {
		f, err := readAvro(content)
		if err != nil {
			return sqltext.Refuse(-1, "A manifest of the table is damaged, so that it cannot be read: %s: %v. Restore the file, or roll the table back to a snapshot without it.", sqltext.Cut(paths[i], 300), err)
		}
		each(i, f)
		return nil
	})
}
