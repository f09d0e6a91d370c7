package loader

import (
	"context"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// recentKey identifies the first page of a job's runs.
type recentKey struct {
	job    domain.JobID
	status string // separated by commas; empty for any
	limit  int
}

// RecentRuns returns the first page of the job's runs. If status is not empty, it selects runs in
// those states. It reads the pages of the jobs beside it in the same batch.
func (l *Loaders) RecentRuns(ctx context.Context, j domain.JobID, status []job.RunStatus, limit int) (domain.List[job.Run], error) {
	names := make([]string, len(status))
	for i, s := range status {
		names[i] = string(s)
	}
	key := recentKey{j, strings.Join(names, ","), limit}
	l.mu.Lock()
	page := l.pages[j]
	l.mu.Unlock()
	l.recent.expectOnce(key, func() []recentKey {
		return keys(page, func(id domain.JobID) recentKey { return recentKey{id, key.status, limit} })
	})
	return l.recent.load(ctx, key)
}

// readRecent reads the wanted pages, one read for each status and limit.
func (l *Loaders) readRecent(ctx context.Context, runs *job.Runs, s domain.Scope, wanted []recentKey) (map[recentKey]domain.List[job.Run], error) {
	found := make(map[recentKey]domain.List[job.Run], len(wanted))
	for shape, of := range group(wanted, func(k recentKey) recentKey { return recentKey{status: k.status, limit: k.limit} }) {
		lists, err := runs.Recent(ctx, s, keys(of, func(k recentKey) domain.JobID { return k.job }), shape.states(), shape.limit)
		if err != nil {
			return nil, err
		}
		var all []job.Run
		for _, k := range of {
			found[k] = lists[k.job]
			all = append(all, lists[k.job].Items...)
		}
		l.expectRuns(all)
	}
	return found, nil
}

func (k recentKey) states() (states []job.RunStatus) {
	if k.status == "" {
		return nil
	}
	for name := range strings.SplitSeq(k.status, ",") {
		states = append(states, job.RunStatus(name))
	}
	return states
}
