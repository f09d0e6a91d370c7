package store

import (
	"context"
	"encoding/hex"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// InsertFiles implements job.Tx.
func (t *Tx) InsertFiles(ctx context.Context, files []job.File) error {
	for _, f := range files {
		hash, err := hex.DecodeString(f.SHA256)
		if err != nil {
			return domain.Invalid("files", "%q is not a SHA-256 in hexadecimal.", f.SHA256)
		}
		if f.Content != nil {
			err = t.exec(ctx, `INSERT INTO files (workspace_id, hash, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, t.workspace, hash, f.Content)
		} else {
			var size int
			unknown := domain.Invalid("files", "There is no file with the SHA-256 %s here; send its content.", f.SHA256)
			err = orMissing(t.get(ctx, &size, `SELECT length(data) FROM files WHERE workspace_id = $1 AND hash = $2`, t.workspace, hash), unknown)
			if err == nil && size != f.Size {
				err = domain.Invalid("files", "The file %q has %d bytes, not %d.", f.Path, size, f.Size)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// FileContents implements job.Tx.
func (t *Tx) FileContents(ctx context.Context, hashes []string) (map[string][]byte, error) {
	keys := make([][]byte, len(hashes))
	for i, h := range hashes {
		var err error
		if keys[i], err = hex.DecodeString(h); err != nil {
			return nil, err
		}
	}
	var found []struct {
		Hash []byte `db:"hash"`
		Data []byte `db:"data"`
	}
	if err := t.sel(ctx, &found, `SELECT hash, data FROM files WHERE workspace_id = $1 AND hash = ANY($2)`, t.workspace, pq.Array(keys)); err != nil {
		return nil, err
	}
	contents := make(map[string][]byte, len(found))
	for _, f := range found {
		contents[hex.EncodeToString(f.Hash)] = f.Data
	}
	return contents, nil
}
