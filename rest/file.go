package rest

import "github.com/millpond/millpond/domain"

// JobFile is one of the files that a job brings along.
type JobFile struct {
	Path       string `json:"path" example:"data/penguins.csv"`
	Size       int    `json:"size" doc:"In bytes."`
	SHA256     string `json:"sha256"`
	Executable bool   `json:"executable"`
}

func jobFile(f domain.File) JobFile {
	return JobFile{Path: f.Path, Size: f.Size, SHA256: f.SHA256, Executable: f.Executable}
}

// NewJobFile is a file with its content, or with the SHA-256 and the size of one that is here already.
type NewJobFile struct {
	Path       string  `json:"path" example:"data/penguins.csv" doc:"Relative to the working directory, slash-separated."`
	Content    *[]byte `json:"content,omitempty" nullable:"true" doc:"Its bytes, in base64."`
	SHA256     string  `json:"sha256,omitempty" doc:"Of a file that an earlier job brought, in place of its content."`
	Size       int     `json:"size,omitempty" doc:"Goes with sha256."`
	Executable bool    `json:"executable,omitempty"`
}

func (n NewJobFile) domain() domain.File {
	f := domain.File{Path: n.Path, SHA256: n.SHA256, Size: n.Size, Executable: n.Executable}
	if n.Content != nil {
		f.Content = append([]byte{}, *n.Content...)
	}
	return f
}
