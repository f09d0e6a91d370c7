package engine

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/millpond/millpond/agent"
)

// blobs reads whole files through DuckDB, which opens none outside of the workspace's storage, and gives them in their order.
func (e *execution) blobs(paths []string, each func(i int, content []byte) error) error {
	const together = 16
	for first := 0; first < len(paths); first += together {
		some := paths[first:min(first+together, len(paths))]
		var list []string
		for _, p := range some {
			if strings.ContainsAny(p, "*?[\n") {
				return refuse(-1, "A manifest has a name that cannot be read here: %s.", cut(p, 200))
			}
			list = append(list, literal(p))
		}
		found, err := e.conn.strings("SELECT concat(filename, chr(10), to_base64(content)) FROM read_blob([" + strings.Join(list, ", ") + "])")
		if err != nil {
			return err
		}
		contents := map[string]string{}
		for _, f := range found {
			name, content, _ := strings.Cut(f, "\n")
			contents[strings.TrimPrefix(name, "file://")] = content
		}
		for i, p := range some {
			text, ok := contents[strings.TrimPrefix(p, "file://")]
			if !ok {
				return &refusal{agent.FaultEngine, fmt.Sprintf("A file of the table is missing: %s. Restore the file, or roll the table back to a snapshot without it.", cut(p, 300)), -1}
			}
			content, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
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

// avroFiles reads manifests, or a list of them.
func (e *execution) avroFiles(paths []string, each func(i int, f *avroFile)) error {
	return e.blobs(paths, func(i int, content []byte) error {
		f, err := readAvro(content)
		if err != nil {
			return refuse(-1, "A manifest of the table is damaged, so that it cannot be read: %s: %v. Restore the file, or roll the table back to a snapshot without it.", cut(paths[i], 300), err)
		}
		each(i, f)
		return nil
	})
}
