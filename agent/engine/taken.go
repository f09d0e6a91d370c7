package engine

import "time"

// What was taken is known for so long, and so many statements at most.
const (
	takenFor  = time.Hour
	takenMost = 100_000
)

// taken are the statements that were begun, so that none is begun twice. An engine that is started again has forgotten them: the control plane sends a
// statement again only where it surely was not taken, and the catalog takes nothing more from one that is over.
type taken struct {
	at  map[string]time.Time
	ids []string // oldest first
}

func (t *taken) has(id string, now time.Time) bool {
	at, known := t.at[id]
	return known && now.Sub(at) < takenFor
}

func (t *taken) add(id string, now time.Time) {
	if t.at == nil {
		t.at = map[string]time.Time{}
	}
	for len(t.ids) > 0 && (len(t.ids) >= takenMost || now.Sub(t.at[t.ids[0]]) >= takenFor) {
		delete(t.at, t.ids[0])
		t.ids = t.ids[1:]
	}
	t.at[id] = now
	t.ids = append(t.ids, id)
}

// untaken is why a statement is not begun.
type untaken struct {
	status  int
	message string
}
