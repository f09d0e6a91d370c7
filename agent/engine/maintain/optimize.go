package maintain

import (
	"errors"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// A statement commits each time it has rewritten this many bytes, in at most this many parts.
// Committed parts stay, even if the statement fails.
const (
	commitBytes = 1 << 30
	maxCommits  = 10
)

// rewritten is a rewritten group that is not committed yet.
type rewritten struct {
	group
	added []iceberg.DataFile
}

// optimize compacts small files and removes deleted rows from them.
func (j *job) optimize() (err error) {
	defer func() {
		if _, unsure := errors.AsType[*catalog.UnsureError](err); !unsure {
			j.files.drop(none)
		}
	}()
	t, err := j.lake.load()
	if err != nil {
		return err
	}
	groups, err := j.plan(t)
	if err != nil {
		return err
	}
	var bytes int64
	for _, g := range groups {
		bytes += g.bytes
	}
	j.all.Store(bytes)
	var sum tally
	for _, part := range parts(groups, max(commitBytes, bytes/maxCommits)) {
		if t, err = j.replace(t, part, &sum); err != nil {
			return err
		}
	}
	sum.report(j)
	return nil
}

// parts splits the groups into commits. Without groups it returns one empty part, because deletes
// of removed files may be left.
func parts(groups []group, most int64) (all [][]group) {
	all = append(all, nil)
	var bytes int64
	for _, g := range groups {
		if bytes >= most {
			all, bytes = append(all, nil), 0
		}
		all[len(all)-1] = append(all[len(all)-1], g)
		bytes += g.bytes
	}
	return all
}

// tally counts the work done.
type tally struct {
	rewritten, added, deletes, bytes, addedBytes int64
}

func (s *tally) report(j *job) {
	j.metric("rewritten_data_files", s.rewritten)
	j.metric("added_data_files", s.added)
	j.metric("removed_delete_files", s.deletes)
	j.metric("rewritten_bytes", s.bytes)
	j.metric("added_bytes", s.addedBytes)
}

// replace rewrites groups and commits them together. If other commits won, it commits the groups
// that they did not touch without another rewrite.
func (j *job) replace(t *table.Table, groups []group, sum *tally) (next *table.Table, err error) {
	written, err := j.rewriteAll(t, groups)
	if err != nil {
		return nil, err
	}
	planned := t
	err = j.racing(func() error {
		if t, err = j.lake.load(); err != nil {
			return err
		}
		if t.Metadata().TableUUID() != planned.Metadata().TableUUID() {
			return sqltext.Fail(agent.FaultConflict, "The table was dropped and created again meanwhile. Run the statement again.")
		}
		if written, err = j.renew(planned, t, written); err != nil {
			return err
		}
		planned = t
		var once tally
		if next, err = j.commit(t, written, &once); err == nil {
			sum.add(once)
			return nil
		}
		if errors.Is(err, errLost) {
			j.files.drop(outputs(written))
		}
		return err
	})
	return next, err
}

func (s *tally) add(o tally) {
	s.rewritten += o.rewritten
	s.added += o.added
	s.deletes += o.deletes
	s.bytes += o.bytes
	s.addedBytes += o.addedBytes
}

// outputs reports which files belong to uncommitted groups.
func outputs(all []rewritten) func(uri string) bool {
	found := map[string]bool{}
	for _, w := range all {
		for _, f := range w.added {
			found[f.FilePath()] = true
		}
	}
	return func(uri string) bool { return found[uri] }
}

func (j *job) rewriteAll(t *table.Table, groups []group) (all []rewritten, err error) {
	for _, g := range groups {
		w, err := j.rewrite(t, g)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// renew rewrites the groups that others have changed since: their rows were deleted, or some of
// their files were removed.
func (j *job) renew(planned, t *table.Table, written []rewritten) ([]rewritten, error) {
	before, now := planned.CurrentSnapshot(), t.CurrentSnapshot()
	if len(written) == 0 || before != nil && now != nil && before.SnapshotID == now.SnapshotID {
		return written, nil
	}
	tasks, _, err := j.tasks(t)
	if err != nil {
		return nil, err
	}
	live := map[string]table.FileScanTask{}
	for _, task := range tasks {
		live[task.File.FilePath()] = task
	}
	var kept []rewritten
	var stale []group
	for _, w := range written {
		if fresh, ok := w.against(live); !ok {
			stale = append(stale, fresh)
		} else {
			kept = append(kept, w)
		}
	}
	j.files.drop(outputs(kept))
	for _, g := range stale {
		if len(g.tasks) == 0 {
			continue
		}
		w, err := j.rewrite(t, g)
		if err != nil {
			return nil, err
		}
		kept = append(kept, w)
	}
	return kept, nil
}

// against returns the group's current state, and whether all its files are unchanged.
func (w rewritten) against(live map[string]table.FileScanTask) (now group, same bool) {
	now = group{spec: w.spec, rows: w.rows}
	same = true
	for _, before := range w.tasks {
		task, ok := live[before.File.FilePath()]
		if !ok {
			same = false
			continue
		}
		same = same && state(task) == state(before)
		now.tasks = append(now.tasks, task)
		now.bytes += task.File.FileSizeBytes()
	}
	return now, same
}

// commit replaces the groups' files by the rewritten ones. It removes delete files that apply to no
// other file.
func (j *job) commit(t *table.Table, all []rewritten, sum *tally) (*table.Table, error) {
	tx := t.NewTransaction()
	change := tx.NewRewrite(nil)
	gone := map[string]bool{}
	var stays totals
	for _, w := range all {
		for _, task := range w.tasks {
			change.DeleteFile(task.File)
			gone[task.File.FilePath()] = true
			sum.rewritten++
			sum.bytes += task.File.FileSizeBytes()
		}
		for _, f := range w.added {
			change.AddDataFile(f)
			stays.add(f)
			sum.added++
			sum.addedBytes += f.FileSizeBytes()
		}
	}
	dead, err := j.dead(t, gone, &stays)
	if err != nil {
		return nil, err
	}
	if len(all)+len(dead) == 0 {
		return t, nil
	}
	for _, d := range dead {
		change.DeleteFile(d)
		sum.deletes++
	}
	if err := change.Commit(j.ctx); err != nil {
		return nil, err
	}
	j.lake.totals = stays.summary()
	defer func() { j.lake.totals = nil }()
	return tx.Commit(j.ctx)
}
