package engine

import (
	"slices"
	"time"
)

// Limits of the accepted statements that are remembered.
const (
	acceptedFor = time.Hour
	acceptedMax = 100_000
)

// accepted holds the ids of accepted statements, so that no statement starts twice. A restarted
// engine has lost them. So the control plane sends a statement again only if it was certainly not
// accepted. The catalog accepts no commit from a statement that has ended.
type accepted struct {
	at  map[string]time.Time
	ids []string // oldest first
}

func (a *accepted) has(id string, now time.Time) bool {
	at, known := a.at[id]
	return known && now.Sub(at) < acceptedFor
}

func (a *accepted) add(id string, now time.Time) {
	if a.at == nil {
		a.at = map[string]time.Time{}
	}
	for len(a.ids) > 0 && (len(a.ids) >= acceptedMax || now.Sub(a.at[a.ids[0]]) >= acceptedFor) {
		delete(a.at, a.ids[0])
		a.ids = a.ids[1:]
	}
	a.at[id] = now
	a.ids = append(a.ids, id)
}

func (a *accepted) remove(id string) {
	delete(a.at, id)
	a.ids = slices.DeleteFunc(a.ids, func(other string) bool { return other == id })
}

// rejection is why a statement is not started.
type rejection struct {
	status  int
	message string
}
