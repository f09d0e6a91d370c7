package lake

import "github.com/millpond/millpond/domain"

// Waiting is the number of commits that hold a table's lock or wait for it.
func (c *Catalog) Waiting(s domain.Scope, r Ref) int {
	c.locks.mu.Lock()
	defer c.locks.mu.Unlock()
	if l := c.locks.tables[Change{Ref: r}.lockName(s)]; l != nil {
		return l.waiting
	}
	return 0
}

// EnterSample counts a sample of a workspace that is being read, until leave is called.
func (c *Catalog) EnterSample(ws domain.WorkspaceID) (leave func(), err error) {
	return c.samples.enter(ws)
}

// LimitManifests lowers the bounds on a commit's manifests and files.
func (c *Catalog) LimitManifests(manifests, files int) {
	c.bounds.manifests, c.bounds.named = manifests, files
}
