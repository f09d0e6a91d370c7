package lake

import "github.com/millpond/millpond/domain"

// Waiting is how many have a table's turn or wait for it.
func (c *Catalog) Waiting(s domain.Scope, r Ref) int {
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	if t := c.turns.tables[Change{Ref: r}.turn(s)]; t != nil {
		return t.waiting
	}
	return 0
}
