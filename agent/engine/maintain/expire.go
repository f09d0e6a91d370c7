package maintain

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
)

// expire removes snapshots that are old enough, and then the files that no other snapshot needs. A file that cannot be removed is an orphan from then on.
func (j *job) expire() error {
	expired := 0
	var gone []string
	err := j.racing(func() (err error) {
		t, err := j.lake.load()
		if err != nil {
			return err
		}
		expired, gone, err = j.expireOnce(t)
		return err
	})
	if err != nil {
		return err
	}
	erased := j.erase(gone)
	if err := j.ctx.Err(); err != nil {
		return err
	}
	j.metric("expired_snapshots", int64(expired))
	j.metric("deleted_files", int64(len(erased)))
	return nil
}

// expireOnce commits, and answers how many snapshots went and the names of the files that they leave.
func (j *job) expireOnce(t *table.Table) (expired int, gone []string, err error) {
	if err := collected(t); err != nil {
		return 0, nil, err
	}
	tx := t.NewTransaction()
	options := []table.ExpireSnapshotsOpt{table.WithOlderThan(j.age(t)), table.WithPostCommit(false)}
	if j.RetainLast > 0 {
		own := t.Properties().GetInt(table.MinSnapshotsToKeepKey, table.MinSnapshotsToKeepDefault)
		options = append(options, table.WithRetainLast(max(j.RetainLast, own)))
	}
	if err := tx.ExpireSnapshots(options...); err != nil {
		return 0, nil, err
	}
	after, err := tx.StagedTable()
	if err != nil {
		return 0, nil, err
	}
	u := unneeded{job: j, names: map[string]bool{}}
	if err := u.find(t, after.Metadata()); err != nil {
		return 0, nil, err
	}
	next, err := tx.Commit(j.ctx)
	if errors.Is(err, errLost) {
		j.files.drop(none)
	}
	if err != nil {
		return 0, nil, err
	}
	if err := u.spare(next.Metadata(), after.Metadata().Snapshots()); err != nil { // it is committed: what cannot be told apart stays
		return u.expired, nil, nil
	}
	for name := range u.names {
		gone = append(gone, name)
	}
	return u.expired, gone, nil
}

// age is how old a snapshot has to be: as the statement says, and as the table says of itself where that is longer.
func (j *job) age(t *table.Table) time.Duration {
	own, err := strconv.ParseInt(t.Properties()[table.MaxSnapshotAgeMsKey], 10, 64)
	if err != nil {
		return j.Retention
	}
	return max(j.Retention, time.Duration(min(own, maxAge.Milliseconds()))*time.Millisecond)
}

// maxAge is longer than any table is old.
const maxAge = 36500 * 24 * time.Hour

// unneeded are the names of files that snapshots which go leave behind.
type unneeded struct {
	job     *job
	places  []string // of the table's own
	names   map[string]bool
	expired int
}

// find gathers what snapshots that are not there after need, and takes out what others need. It refuses what lies outside of the workspace's storage.
func (u *unneeded) find(t *table.Table, after table.Metadata) (err error) {
	if u.places, err = u.job.places(t); err != nil {
		return err
	}
	kept := map[int64]bool{}
	for _, s := range after.Snapshots() {
		kept[s.SnapshotID] = true
	}
	var goes, stays []table.Snapshot
	for _, s := range t.Metadata().Snapshots() {
		if kept[s.SnapshotID] {
			stays = append(stays, s)
		} else {
			goes = append(goes, s)
		}
	}
	u.expired = len(goes)
	if len(goes) == 0 {
		return nil
	}
	shared, err := u.manifests(stays)
	if err != nil {
		return err
	}
	if err := u.gather(t.Metadata(), goes, kept, shared); err != nil {
		return err
	}
	return u.spare(after, nil)
}

// manifests are those of snapshots, by their paths.
func (u *unneeded) manifests(of []table.Snapshot) (map[string]iceberg.ManifestFile, error) {
	all := map[string]iceberg.ManifestFile{}
	for _, s := range of {
		if err := u.job.ctx.Err(); err != nil {
			return nil, err
		}
		found, err := s.Manifests(u.job.files)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			all[m.FilePath()] = m
		}
	}
	return all, nil
}

func (u *unneeded) gather(of table.Metadata, goes []table.Snapshot, kept map[int64]bool, shared map[string]iceberg.ManifestFile) error {
	for _, s := range goes {
		if err := u.add(s.ManifestList); err != nil {
			return err
		}
	}
	for s := range of.Statistics() {
		if !kept[s.SnapshotID] {
			if err := u.add(s.StatisticsPath); err != nil {
				return err
			}
		}
	}
	for s := range of.PartitionStatistics() {
		if !kept[s.SnapshotID] {
			if err := u.add(s.StatisticsPath); err != nil {
				return err
			}
		}
	}
	manifests, err := u.manifests(goes)
	if err != nil {
		return err
	}
	u.job.all.Store(int64(len(manifests)))
	for path, m := range manifests {
		u.job.done.Add(1)
		if shared[path] != nil {
			continue
		}
		if err := u.add(path); err != nil {
			return err
		}
		for entry, err := range m.Entries(u.job.files, false) {
			if err == nil {
				err = u.add(entry.DataFile().FilePath())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// add notes a file, if it lies in the table's own places: what lies elsewhere may be others'.
func (u *unneeded) add(uri string) error {
	if uri == "" {
		return nil
	}
	name, err := u.job.files.name(uri)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(u.places, func(p string) bool { return strings.HasPrefix(name, p) }) {
		u.names[name] = true
	}
	return nil
}

// spare takes out what the snapshots of the metadata need, but for those that are known to need nothing of it.
func (u *unneeded) spare(of table.Metadata, but []table.Snapshot) error {
	var some []table.Snapshot
	for _, s := range of.Snapshots() {
		if !slices.ContainsFunc(but, func(o table.Snapshot) bool { return o.SnapshotID == s.SnapshotID }) {
			some = append(some, s)
		}
	}
	for s := range of.Statistics() {
		u.keep(s.StatisticsPath)
	}
	for s := range of.PartitionStatistics() {
		u.keep(s.StatisticsPath)
	}
	for _, s := range some {
		u.keep(s.ManifestList)
	}
	manifests, err := u.manifests(some)
	if err != nil {
		return err
	}
	for path, m := range manifests {
		if u.keep(path); len(u.names) == 0 {
			return nil
		}
		for entry, err := range m.Entries(u.job.files, true) {
			if err != nil {
				return err
			}
			u.keep(entry.DataFile().FilePath())
		}
	}
	return u.job.ctx.Err()
}

func (u *unneeded) keep(uri string) {
	if name, ok := u.job.files.relative(uri); ok {
		delete(u.names, name)
	}
}

// places are the directories of a table's own, which the catalog gives to no other one. It refuses a table whose metadata does not say truly where it is.
func (j *job) places(t *table.Table) (all []string, err error) {
	location, err := j.files.name(t.Location())
	if err != nil {
		return nil, err
	}
	location = strings.TrimSuffix(location, "/") + "/"
	metadata, err := j.files.name(t.MetadataLocation())
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(metadata, location) || strings.Count(location, "/") < 2 {
		return nil, refuse(agent.FaultQuery, "The table's metadata file does not lie in the table's location (%s), so that it cannot be told which files are the table's own. Nothing was removed.", cut(t.Location(), 300))
	}
	all = append(all, location)
	for _, property := range []string{table.WriteDataPathKey, table.WriteMetadataPathKey, "write.object-storage.path", "write.folder-storage.path"} {
		if at, ok := t.Properties()[property]; ok {
			name, err := j.files.name(at)
			if err != nil {
				return nil, err
			}
			all = append(all, strings.TrimSuffix(name, "/")+"/")
		}
	}
	return all, nil
}

// erasers are how many files are removed at once.
const erasers = 16

// erase removes files, and answers which. What cannot be removed is left to the removal of orphans.
func (j *job) erase(names []string) (erased []string) {
	var group sync.WaitGroup
	var mu sync.Mutex
	work := make(chan string)
	j.done.Store(0)
	j.all.Store(int64(len(names)))
	for range erasers {
		group.Go(func() {
			for name := range work {
				if j.files.erase(j.files.prefix+name) == nil {
					mu.Lock()
					erased = append(erased, name)
					mu.Unlock()
				}
				j.done.Add(1)
			}
		})
	}
	feed(j.ctx, names, work)
	close(work)
	group.Wait()
	return erased
}

func feed(ctx context.Context, names []string, work chan<- string) {
	for _, name := range names {
		select {
		case work <- name:
		case <-ctx.Done():
			return
		}
	}
}
