package rest

import (
	"encoding/base64"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// PageQuery is the query of every list.
type PageQuery struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Maximum number of items."`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next_cursor of the previous page, unchanged. Without it the list starts at the beginning."`
}

func (q PageQuery) page() domain.Page { return domain.Page{Limit: q.Limit, Cursor: q.Cursor} }

// List is one page of a list.
type List[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"next_cursor,omitempty" doc:"The cursor of the next page. Present only when more rows exist."`
}

func list[D, T any](l domain.List[D], show func(D) T) *answer[List[T]] {
	return &answer[List[T]]{Body: List[T]{Data: each(l.Items, show), NextCursor: l.Next}}
}

// each maps a slice. It never returns nil, because an empty array is [].
func each[D, T any](items []D, show func(D) T) []T {
	shown := make([]T, len(items))
	for i, item := range items {
		shown[i] = show(item)
	}
	return shown
}

// cut pages a short list that is already in memory, in the given order. key identifies an item.
func cut[T any](all []T, p domain.Page, key func(T) string) (domain.List[T], error) {
	first := 0
	if p.Cursor != "" {
		after, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		last := slices.IndexFunc(all, func(t T) bool { return key(t) == string(after) })
		if err != nil || last < 0 {
			return domain.List[T]{}, domain.Invalid("cursor", "The cursor is malformed; use next_cursor of the previous page as it came.")
		}
		first = last + 1
	}
	page := domain.List[T]{Items: all[first:]}
	if len(page.Items) > p.Limit {
		page.Items = page.Items[:p.Limit]
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(key(page.Items[p.Limit-1])))
	}
	return page, nil
}

// Number is a decimal number with all its digits.
type Number string

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// Schema implements huma.SchemaProvider.
func (Number) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Examples: []any{0.08}}
}

// Time is a time in UTC with microseconds.
type Time time.Time

const timeLayout = "2006-01-02T15:04:05.000000Z"

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, timeLayout), nil
}

// Schema implements huma.SchemaProvider.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Format: "date-time", Description: "ISO 8601 in UTC, with microseconds.",
		Examples: []any{"2026-03-01T08:30:00.000000Z"},
	}
}

func optionalTime(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	shown := Time(*t)
	return &shown
}

// Actor is the originator of an action.
type Actor struct {
	Kind string `json:"kind" enum:"user,api_key,run,statement,agent,system" doc:"Kind of actor."`
	ID   string `json:"id" doc:"Id of the user, the key, the attempt, the statement or the agent."`
	Name string `json:"name" doc:"Its e-mail or display name."`
}

func showActor(a domain.Actor) Actor {
	return Actor{Kind: string(a.Kind), ID: a.ID, Name: a.Name}
}
