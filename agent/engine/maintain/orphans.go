package maintain

import (
	"bufio"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// removeOrphans removes files in a table's location that its metadata does not name and that are
// older than the retention. Nobody writes or reads those any more.
func (j *job) removeOrphans() error {
	t, err := j.lake.load()
	if err != nil {
		return err
	}
	if err := collected(t); err != nil {
		return err
	}
	if j.lake.registered.Load() {
		return sqltext.Fail(agent.FaultQuery, "The table was registered with files from elsewhere, or its location may contain files of others. No file is removed as an orphan.")
	}
	if _, err := j.directories(t); err != nil {
		return err
	}
	plan, err := t.PlanOrphanFiles(j.ctx, table.WithFilesOlderThan(j.Retention), table.WithEqualSchemes(map[string]string{"s3,s3a,s3n": "s3"}))
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, f := range plan.OrphanFiles() {
		name, err := j.files.name(f.Path)
		if err != nil {
			return err
		}
		sizes[name] = f.SizeBytes
	}
	if err := j.leaveListed(t, sizes); err != nil {
		return err
	}
	erased := j.erase(slices.Collect(maps.Keys(sizes)))
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

// listKept is how long a list of files to erase is respected. Every list is processed earlier. An
// older list belongs to a commit that failed.
const listKept = 62 * 24 * time.Hour

// leaveListed excludes the lists, and the files that the control plane will erase by them.
func (j *job) leaveListed(t *table.Table, orphans map[string]int64) error {
	location, err := j.files.name(t.Location())
	if err != nil {
		return err
	}
	var lists []string
	err = j.files.walk(location+"/metadata", func(name string, of fs.FileInfo) error {
		base := path.Base(name)
		if strings.HasPrefix(base, listPrefix) && strings.HasSuffix(base, listSuffix) && time.Since(of.ModTime()) < listKept {
			lists = append(lists, name)
		}
		return j.ctx.Err()
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, list := range lists {
		delete(orphans, list)
		if err := j.leaveNamed(list, orphans); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) leaveNamed(list string, orphans map[string]int64) error {
	file, err := j.files.open(list)
	if errors.Is(err, fs.ErrNotExist) { // erased meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		delete(orphans, lines.Text())
	}
	return lines.Err()
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
