package maintain

import (
	"io/fs"
	"strings"

	"github.com/apache/iceberg-go/table"
)

// removeOrphans removes the files in a table's location that its metadata does not name and that are old enough: nobody writes or reads them any more.
func (j *job) removeOrphans() error {
	t, err := j.lake.load()
	if err != nil {
		return err
	}
	if err := collected(t); err != nil {
		return err
	}
	if _, err := j.places(t); err != nil {
		return err
	}
	plan, err := t.PlanOrphanFiles(j.ctx, table.WithFilesOlderThan(j.Retention), table.WithEqualSchemes(map[string]string{"s3,s3a,s3n": "s3"}))
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	var names []string
	for _, f := range plan.OrphanFiles() {
		name, err := j.files.name(f.Path)
		if err != nil {
			return err
		}
		names = append(names, name)
		sizes[name] = f.SizeBytes
	}
	erased := j.erase(names)
	if err := j.ctx.Err(); err != nil {
		return err
	}
	var bytes int64
	for _, name := range erased {
		bytes += sizes[name]
	}
	j.metric("deleted_orphan_files", int64(len(erased)))
	j.metric("deleted_bytes", bytes)
	return nil
}

// WalkDir implements io.ListableIO of iceberg-go.
func (f *files) WalkDir(uri string, each fs.WalkDirFunc) error {
	name, err := f.name(strings.TrimSuffix(uri, "/"))
	if err != nil {
		return err
	}
	return f.walk(name, func(name string, of fs.FileInfo) error {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		return each(f.prefix+name, fs.FileInfoToDirEntry(of), nil)
	})
}
