package maintain

import (
	"bufio"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
	"github.com/millpond/millpond/expiry"
)

// expire removes the expired snapshots and lists the files that no other snapshot needs. The
// control plane erases those later, so that readers with an open table can finish.
func (j *job) expire() error {
	var u unneeded
	err := j.racing(func() error {
		t, err := j.lake.load()
		if err != nil {
			return err
		}
		u = unneeded{job: j, names: map[string]bool{}}
		return u.expire(t)
	})
	if err != nil {
		return err
	}
	j.metric("expired_snapshots", int64(u.expired))
	j.metric("forgotten_files", int64(len(u.names)))
	return nil
}

// expire plans, writes the list of unneeded files, and commits both together.
func (u *unneeded) expire(t *table.Table) error {
	if err := collected(t); err != nil {
		return err
	}
	plan := expiry.Decide(t.Metadata(), expiry.Rule{Age: u.job.Retention, Keep: u.job.RetainLast, Max: u.job.MaxSnapshots}, time.Now())
	updates, requirements := changes(t, plan)
	if len(updates) == 0 {
		return nil
	}
	after, err := table.UpdateTableMetadata(t.Metadata(), updates, t.MetadataLocation())
	if err != nil {
		return err
	}
	if err := u.find(t, after); err != nil {
		return err
	}
	list := ""
	if len(u.names) > 0 {
		if list, err = u.write(t); err != nil {
			return err
		}
	}
	err = u.job.lake.forget(t, requirements, updates, list)
	if errors.Is(err, errLost) {
		u.job.files.drop(none)
	}
	return err
}

// changes converts a plan to updates. The catalog refuses them if a ref has been set meanwhile to a
// snapshot that they remove.
func changes(t *table.Table, plan expiry.Plan) (updates []table.Update, requirements []table.Requirement) {
	requirements = append(requirements, table.AssertTableUUID(t.Metadata().TableUUID()))
	for name, ref := range t.Metadata().Refs() {
		if slices.Contains(plan.Refs, name) {
			updates = append(updates, table.NewRemoveSnapshotRefUpdate(name))
			requirements = append(requirements, table.AssertRefSnapshotID(name, &ref.SnapshotID))
		}
	}
	if len(plan.Snapshots) > 0 {
		updates = append(updates, table.NewRemoveSnapshotsUpdate(plan.Snapshots, false))
	}
	return updates, requirements
}

// Lists of files to erase are stored with a table's metadata files.
const (
	listPrefix = "erase-"
	listSuffix = ".names"
)

// write writes the list, one name per line, and returns its id.
func (u *unneeded) write(t *table.Table) (id string, err error) {
	id = uuid.NewString()
	w, err := u.job.files.Create(strings.TrimSuffix(t.Location(), "/") + "/metadata/" + listPrefix + id + listSuffix)
	if err != nil {
		return "", err
	}
	lines := bufio.NewWriter(w)
	for name := range u.names {
		if _, err := lines.WriteString(name + "\n"); err != nil {
			return "", errors.Join(err, w.Close())
		}
	}
	return id, errors.Join(lines.Flush(), w.Close())
}

// unneeded collects the names of files that only expired snapshots need.
type unneeded struct {
	job         *job
	directories []string // of the table
	names       map[string]bool
	expired     int
}

// find collects the files of snapshots that after lacks, except files that others need. It refuses
// files outside the workspace's storage.
func (u *unneeded) find(t *table.Table, after table.Metadata) (err error) {
	if u.directories, err = u.job.directories(t); err != nil {
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
	return u.spare(after)
}

// manifests returns the manifests of snapshots by path.
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

// listed returns the files that the metadata names for the chosen snapshots.
func listed(of table.Metadata, chosen func(snapshot int64) bool) (files []string) {
	for _, s := range of.Snapshots() {
		if chosen(s.SnapshotID) {
			files = append(files, s.ManifestList)
		}
	}
	for s := range of.Statistics() {
		if chosen(s.SnapshotID) {
			files = append(files, s.StatisticsPath)
		}
	}
	for s := range of.PartitionStatistics() {
		if chosen(s.SnapshotID) {
			files = append(files, s.StatisticsPath)
		}
	}
	return files
}

func (u *unneeded) gather(of table.Metadata, goes []table.Snapshot, kept map[int64]bool, shared map[string]iceberg.ManifestFile) error {
	for _, f := range listed(of, func(snapshot int64) bool { return !kept[snapshot] }) {
		if err := u.add(f); err != nil {
			return err
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

// add adds a file if it lies in one of the table's own directories. Files elsewhere may belong to
// others.
func (u *unneeded) add(uri string) error {
	if uri == "" {
		return nil
	}
	name, err := u.job.files.name(uri)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(u.directories, func(p string) bool { return strings.HasPrefix(name, p) }) {
		u.names[name] = true
	}
	return nil
}

// spare removes from the list what the snapshots of the metadata need.
func (u *unneeded) spare(of table.Metadata) error {
	for _, f := range listed(of, func(int64) bool { return true }) {
		u.keep(f)
	}
	manifests, err := u.manifests(of.Snapshots())
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

// directories returns the directories that belong to the table alone, as the catalog assigns them.
// It refuses a table with a wrong location in its metadata. A registered table has no such
// directories: others may use all its files.
func (j *job) directories(t *table.Table) (all []string, err error) {
	if j.lake.registered.Load() {
		return nil, nil
	}
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
		return nil, sqltext.Fail(agent.FaultQuery, "The table's metadata file does not lie in the table's location (%s), so the table's own files cannot be determined. Nothing was removed.", sqltext.Cut(t.Location(), 300))
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

// erasers is the number of concurrent file removals.
const erasers = 16

// erase removes files and returns the removed ones. The removal of orphans handles files that
// cannot be removed now.
func (j *job) erase(names []string) (erased []string) {
	var group errgroup.Group
	group.SetLimit(erasers)
	var mu sync.Mutex
	j.done.Store(0)
	j.all.Store(int64(len(names)))
	for _, name := range names {
		if j.ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			defer j.done.Add(1)
			if j.files.erase(j.files.prefix+name) == nil {
				mu.Lock()
				defer mu.Unlock()
				erased = append(erased, name)
			}
			return nil
		})
	}
	_ = group.Wait() // what cannot be removed stays
	return erased
}
