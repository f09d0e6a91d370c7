package tracking

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/millpond/millpond/domain"
)

// Query is a checked search.
type Query struct {
	Experiments []domain.ExperimentID // of runs; nil for a search of experiments
	Where       []Condition
	Order       []Order
	View        View
	Limit       int  // one more is read, to know whether there are more
	After       Keys // of the last item of the previous page; nil for the first page

	list string // names the search in its cursors
}

// Keys are an item's values of the query's order and its tie-breakers, in the store's text form.
type Keys []string

// maxCursor bounds a cursor in bytes. It has up to 20 values of 1,000 characters.
const maxCursor = 128 << 10

// newQuery completes the query. search is hashed with the name, so that a cursor of another search
// is refused; it must not contain the cursor and the limit.
func newQuery(name string, search any, q Query, cursor string, most int) (Query, error) {
	var err error
	if q.View, err = validView(q.View); err != nil {
		return Query{}, err
	}
	if q.Limit < 1 || q.Limit > most {
		return Query{}, domain.Invalid("max_results", "Invalid value %d for parameter 'max_results' supplied. It must be at least 1 and at most %d.", q.Limit, most)
	}
	q.list = domain.ListName(name, search)
	if cursor != "" {
		q.After, err = q.decode(cursor)
	}
	return q, err
}

type cursorKeys struct {
	List string `json:"l"`
	Keys Keys   `json:"k"`
}

func (q Query) decode(cursor string) (Keys, error) {
	var c cursorKeys
	b, err := base64.RawURLEncoding.DecodeString(cursor[:min(len(cursor), maxCursor)])
	if err != nil || json.Unmarshal(b, &c) != nil || len(c.Keys) == 0 {
		return nil, domain.Invalid("page_token", "The page token is malformed; use the token of the previous page as it came.")
	}
	if c.List != q.list {
		return nil, domain.Invalid("page_token", "The page token belongs to another search; start again without one.")
	}
	for _, key := range c.Keys {
		if err := domain.ValidText("page_token", key, maxCursor); err != nil {
			return nil, err
		}
	}
	return c.Keys, nil
}

func (q Query) encode(k Keys) string {
	b, err := json.Marshal(cursorKeys{List: q.list, Keys: k})
	if err != nil {
		panic("tracking: a cursor does not marshal: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// page makes a list of items that were read with their keys and a limit of one more. cut says that
// there are more, for another reason than the limit.
func page[T any, K comparable](items []T, keys []Keys, q Query, cut bool, id func(T) K) domain.List[T] {
	l := domain.List[T]{Items: items, Cursor: func(t T) string {
		return q.encode(keys[slices.IndexFunc(items, func(i T) bool { return id(i) == id(t) })])
	}}
	if n := min(len(items), q.Limit); cut || n < len(items) {
		l.Items, l.Next = items[:n], q.encode(keys[n-1])
	}
	return l
}
