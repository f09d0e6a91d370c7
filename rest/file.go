package rest

import (
	"encoding/base64"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain/job"
)

// JobFile is a file of a job.
type JobFile struct {
	Path       string `json:"path" example:"data/penguins.csv"`
	Size       int    `json:"size" doc:"In bytes."`
	SHA256     string `json:"sha256"`
	Executable bool   `json:"executable"`
}

func jobFile(f job.File) JobFile {
	return JobFile{Path: f.Path, Size: f.Size, SHA256: f.SHA256, Executable: f.Executable}
}

// NewJobFile is a file, given by its content, or by the SHA-256 and size of a file that is already
// stored.
type NewJobFile struct {
	Path       string  `json:"path" example:"data/penguins.csv" doc:"Relative to the working directory, slash-separated."`
	Content    *Base64 `json:"content,omitempty" nullable:"true" doc:"Its bytes, in base64. An empty string is an empty file."`
	SHA256     string  `json:"sha256,omitempty" doc:"Hash of a file that an earlier job brought, in place of its content."`
	Size       int     `json:"size,omitempty" doc:"Size in bytes; goes with sha256."`
	Executable bool    `json:"executable,omitempty"`
}

func (n NewJobFile) domain() job.File {
	f := job.File{Path: n.Path, SHA256: n.SHA256, Size: n.Size, Executable: n.Executable}
	if n.Content != nil {
		f.Content = append([]byte{}, *n.Content...)
	}
	return f
}

// Base64 is bytes, encoded as text. Unlike []byte it may be empty: huma rejects an empty text as
// base64.
type Base64 []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Base64) UnmarshalText(text []byte) (err error) {
	if *b, err = base64.StdEncoding.AppendDecode([]byte{}, text); err != nil {
		return errors.New("content is not base64, in the standard alphabet and with padding")
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (Base64) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "byte", Examples: []any{"YSxiCjEsMgo="}}
}
