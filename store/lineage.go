package store

import (
	"context"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

type lineageRow struct {
	At         time.Time             `db:"at" json:"at"`
	ActorKind  domain.ActorKind      `db:"actor_kind" json:"actor_kind"`
	ActorID    string                `db:"actor_id" json:"actor_id"`
	ActorName  string                `db:"actor_name" json:"actor_name"`
	Direction  lake.LineageDirection `db:"direction" json:"direction"`
	TableID    domain.TableID        `db:"table_id" json:"table_id"`
	Database   string                `db:"database" json:"database"`
	Schema     string                `db:"schema" json:"schema"`
	Name       string                `db:"name" json:"name"`
	SnapshotID int64                 `db:"snapshot_id" json:"snapshot_id"`
	Columns    pq.StringArray        `db:"columns" json:"columns"`
}

func (r lineageRow) toDomain() (lake.LineageEntry, error) {
	return lake.LineageEntry{
		At: r.At.UTC(), Actor: domain.Actor{Kind: r.ActorKind, ID: r.ActorID, Name: r.ActorName}, Direction: r.Direction, TableID: r.TableID,
		Database: r.Database, Schema: r.Schema, Name: r.Name, SnapshotID: r.SnapshotID, Columns: r.Columns,
	}, nil
}

// InsertLineage implements lake.Tx.
func (t *Tx) InsertLineage(ctx context.Context, entries []lake.LineageEntry) error {
	facts := make([]lineage.Fact, len(entries))
	for i, e := range entries {
		facts[i].LineageEntry = e
		if e.Direction != lake.LineageWritten {
			continue
		}
		if err := t.holdActor(ctx, e.Actor); err != nil {
			return err
		}
	}
	return t.InsertLineageFacts(ctx, facts)
}

// HoldWriter implements lake.Tx.
func (t *Tx) HoldWriter(ctx context.Context, a domain.Actor) error {
	if a.Kind != domain.ActorStatement {
		return t.holdActor(ctx, a)
	}
	return t.hold(ctx, a, `UPDATE statements SET committed = true WHERE workspace_id = $1 AND id = $2 AND state IN ('queued', 'running') RETURNING 1`)
}

// holdActor prevents a statement or attempt from ending before the transaction does.
func (t *Tx) holdActor(ctx context.Context, a domain.Actor) error {
	switch {
	case t.held == a:
		return nil
	case a.Kind == domain.ActorStatement:
		return t.hold(ctx, a, `SELECT 1 FROM statements WHERE workspace_id = $1 AND id = $2 AND state IN ('queued', 'running') FOR SHARE`)
	case a.Kind == domain.ActorRun:
		return t.hold(ctx, a, `SELECT 1 FROM attempts WHERE workspace_id = $1 AND id = $2 AND status IN ('starting', 'running') FOR SHARE`)
	}
	return nil
}

func (t *Tx) hold(ctx context.Context, a domain.Actor, query string) error {
	var one int
	if err := t.get(prepared(ctx), &one, query, t.workspace, a.ID); err != nil {
		return orMissing(err, domain.Errorf(domain.CodeConflict, "The run or statement that writes has ended; it can commit nothing more."))
	}
	t.held = a
	return nil
}

// LineageOf implements lake.Tx.
func (t *Tx) LineageOf(ctx context.Context, actors ...domain.Actor) (lake.Lineage, error) {
	kinds, ids := make([]string, len(actors)), make([]string, len(actors))
	for i, a := range actors {
		kinds[i], ids[i] = string(a.Kind), a.ID
	}
	all, err := rows(prepared(ctx), t.conn, lineageRow.toDomain, `SELECT l.at, l.actor_kind, l.actor_id, l.actor_name, l.direction, l.table_id, l.snapshot_id, l.database,
		l.schema, l.name, l.columns FROM unnest($2::text[], $3::text[]) a (kind, id)
		JOIN lineage l ON l.workspace_id = $1 AND l.actor_kind = a.kind AND l.actor_id = a.id ORDER BY l.at, l.table_id`, t.workspace, pq.Array(kinds), pq.Array(ids))
	var found lake.Lineage
	for _, e := range all {
		if e.Direction == lake.LineageRead {
			found.Read = append(found.Read, e)
		} else {
			found.Written = append(found.Written, e)
		}
	}
	return found, err
}

// LakeAnswer implements lake.Tx.
func (t *Tx) LakeAnswer(ctx context.Context, actor, key string, since time.Time) (lake.Answer, error) {
	var row struct {
		Hash []byte `db:"hash"`
		Body []byte `db:"body"`
	}
	err := t.get(ctx, &row, `SELECT hash, body FROM lake_answers WHERE workspace_id = $1 AND actor = $2 AND key = $3 AND created_at >= $4`, t.workspace, actor, key, since)
	return lake.Answer{Key: key, Hash: row.Hash, Body: row.Body}, orMissing(err, domain.NotFound("answer", key))
}

// KeepLakeAnswer implements lake.Tx.
func (t *Tx) KeepLakeAnswer(ctx context.Context, actor string, a lake.Answer, at, since time.Time) (bool, error) {
	return changed(t.write(ctx, `INSERT INTO lake_answers AS k (workspace_id, actor, key, hash, body, created_at) VALUES (:workspace_id, :actor, :key, :hash, :body, :at)
		ON CONFLICT (workspace_id, actor, key) DO UPDATE SET hash = excluded.hash, body = excluded.body, created_at = excluded.created_at WHERE k.created_at < :since`,
		values{"actor": actor, "key": a.Key, "hash": a.Hash, "body": string(a.Body), "at": at, "since": since}))
}
