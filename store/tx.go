package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
)

// Tx is one transaction in one workspace. It implements the Tx of every module: one file per noun.
type Tx struct {
	conn      *sqlx.Conn
	workspace domain.WorkspaceID
	topics    []domain.Topic
	held      domain.Actor // the writer that cannot end before the transaction does
}

var (
	_ identity.Tx    = (*Tx)(nil)
	_ quota.Tx       = (*Tx)(nil)
	_ lake.Tx        = (*Tx)(nil)
	_ machine.Tx     = (*Tx)(nil)
	_ job.Tx         = (*Tx)(nil)
	_ lineage.Tx     = (*Tx)(nil)
	_ statement.Tx   = (*Tx)(nil)
	_ maintenance.Tx = (*Tx)(nil)
	_ tracking.Tx    = (*Tx)(nil)
)

// Notify implements domain.Tx.
func (t *Tx) Notify(topics ...domain.Topic) { t.topics = append(t.topics, topics...) }

// end commits and notifies the other replicas in one round trip. The SELECT before fails if the
// error of a failed statement was ignored. PostgreSQL would answer COMMIT with a rollback, and no
// error.
func (t *Tx) end(to *Topics) string {
	var b strings.Builder
	b.WriteString("SELECT;")
	slices.Sort(t.topics)
	t.topics = slices.Compact(t.topics)
	for topics := t.topics; len(topics) > 0; {
		payload, n := to.payload(topics)
		b.WriteString("SELECT pg_notify('" + channel + "', " + pq.QuoteLiteral(payload) + ");")
		topics = topics[n:]
	}
	return b.String() + "COMMIT"
}

func (t *Tx) get(ctx context.Context, dest any, query string, args ...any) error {
	return t.conn.GetContext(ctx, dest, query, args...)
}

func (t *Tx) sel(ctx context.Context, dest any, query string, args ...any) error {
	return t.conn.SelectContext(ctx, dest, query, args...)
}

func (t *Tx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.conn.ExecContext(ctx, query, args...)
	return err
}

// touched reports whether the statement changed a row.
func (t *Tx) touched(ctx context.Context, query string, args ...any) (bool, error) {
	return changed(t.conn.ExecContext(ctx, query, args...))
}

// execOne is exec for a statement that must change a row; missing is the error when it does not.
func (t *Tx) execOne(ctx context.Context, missing error, query string, args ...any) error {
	if did, err := t.touched(ctx, query, args...); did || err != nil {
		return err
	}
	return missing
}

// orMissing replaces sql.ErrNoRows by the given error.
func orMissing(err, missing error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return missing
	}
	return err
}

// rows reads rows and translates each.
func rows[R, T any](ctx context.Context, q sqlx.QueryerContext, translate func(R) (T, error), query string, args ...any) ([]T, error) {
	var raw []R
	if err := sqlx.SelectContext(ctx, q, &raw, query, args...); err != nil {
		return nil, err
	}
	all := make([]T, len(raw))
	for i, r := range raw {
		var err error
		if all[i], err = translate(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// decode reads a JSON document of a row. Its format S is a type of the store: the domain's types
// have no tags, and can change without the rows.
func decode[S, V any](document []byte, translate func(S) V) (v V, err error) {
	var s S
	if err := json.Unmarshal(document, &s); err != nil {
		return v, err
	}
	return translate(s), nil
}

// decodeEach is decode for a list.
func decodeEach[S, V any](document []byte, translate func(S) V) ([]V, error) {
	return decode(document, func(list []S) []V { return each(list, translate) })
}

// each translates a list between a row's format and the domain. JSON tells nil from an empty list,
// so nil remains nil.
func each[A, B any](list []A, translate func(A) B) []B {
	if list == nil {
		return nil
	}
	all := make([]B, len(list))
	for i, v := range list {
		all[i] = translate(v)
	}
	return all
}

type documentRow struct {
	ID       string `db:"id"`
	Document []byte `db:"document"`
}

// documents reads the JSON documents of the ids, which are $2 of the query. The query returns the
// columns id and document.
func documents[K ~string, S, V any](ctx context.Context, t *Tx, query string, ids []K, translate func(S) V) (map[K]V, error) {
	var found []documentRow
	if err := t.sel(ctx, &found, query, t.workspace, texts(ids)); err != nil {
		return nil, err
	}
	all := make(map[K]V, len(found))
	for _, row := range found {
		v, err := decode(row.Document, translate)
		if err != nil {
			return nil, err
		}
		all[K(row.ID)] = v
	}
	return all, nil
}

func timePtr(t sql.NullTime) *time.Time {
	if !t.Valid {
		return nil
	}
	utc := t.Time.UTC()
	return &utc
}

// texts is an array parameter of string-like values.
func texts[T ~string](all []T) any {
	s := make([]string, len(all))
	for i, v := range all {
		s[i] = string(v)
	}
	return pq.Array(s)
}
