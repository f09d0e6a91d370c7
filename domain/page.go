package domain

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Bounds of a page, from the specification.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// Page requests one page of a list: at most Limit items after Cursor.
type Page struct {
	Limit  int    // 1 to MaxLimit; 0 stands for DefaultLimit
	Cursor string // of the previous answer; empty for the first page
}

// List is one page. Next is the cursor of the next page, empty at the end. Cursor returns any
// item's cursor.
type List[T any] struct {
	Items  []T
	Next   string
	Cursor func(T) string
}

// cursor is the content of an opaque cursor: the list, and the key of the last row. The next page
// continues after that key by an index. So its cost does not grow with the depth, and new rows do
// not shift it.
type cursor struct {
	List string `json:"l"`
	Key  string `json:"k"`
}

// ListName returns the name of a list with its filter, so that a cursor of another list or filter
// is refused.
func ListName(name string, filter any) string {
	b, err := json.Marshal(filter)
	if err != nil {
		panic("domain: a filter of ours does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%s:%x", name, sum[:6])
}

func encodeCursor(list, key string) string {
	b, err := json.Marshal(cursor{List: list, Key: key})
	if err != nil {
		panic("domain: a cursor of ours does not marshal: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// After returns the key after which the page begins, and the limit.
func (p Page) After(list string) (key string, limit int, err error) {
	limit = p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 1 || limit > MaxLimit {
		return "", 0, Invalid("limit", "limit is %d; it must be from 1 to %d.", p.Limit, MaxLimit)
	}
	if p.Cursor == "" {
		return "", limit, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	var c cursor
	if err != nil || json.Unmarshal(b, &c) != nil {
		return "", 0, Invalid("cursor", "The cursor is malformed; use next_cursor of the previous page as it came.")
	}
	if err := ValidText("cursor", c.Key, 256); err != nil {
		return "", 0, err
	}
	if c.List != list {
		return "", 0, Invalid("cursor", "The cursor belongs to another list or filter; start again without one.")
	}
	return c.Key, limit, nil
}

// Fit shortens the page to about the given bytes, but to at least one item. The next page has the
// rest.
func (l *List[T]) Fit(bytes int, size func(T) int) {
	for i, item := range l.Items {
		if bytes -= size(item); bytes < 0 && i > 0 {
			l.Items = l.Items[:i]
			l.Next = l.Cursor(l.Items[i-1])
			return
		}
	}
}

// PageOf makes a List of rows that were read with a limit of one more.
func PageOf[T any](list string, rows []T, limit int, key func(T) string) List[T] {
	l := List[T]{Items: rows, Cursor: func(t T) string { return encodeCursor(list, key(t)) }}
	if len(rows) > limit {
		l.Items = rows[:limit]
		l.Next = l.Cursor(rows[limit-1])
	}
	return l
}
