package lake

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/millpond/millpond/domain"
)

// maxKey bounds an idempotency key in bytes.
const maxKey = 255

// errAnswered means that another request has answered the key meanwhile.
var errAnswered = errors.New("the key is answered already")

// storedAnswer is the stored result of a change: what it made, or its refusal.
type storedAnswer struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	refusal
}

// refusal is a stored refusal of a change.
type refusal struct {
	Code    domain.Code `json:"code,omitempty"`
	Reason  Reason      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Field   string      `json:"field,omitempty"`
}

func (r refusal) error() error {
	err := domain.Errorf(r.Code, "%s", r.Message)
	err.Field = r.Field
	if r.Reason == "" {
		return err
	}
	return &Error{Reason: r.Reason, err: err}
}

// once makes the change, or returns the stored answer of the same key. It tries the change first,
// since nearly all keys are new. The change calls record in its transaction; record is nil without
// a key. Of two requests with one key, only one commits: the other's record fails, or its change is
// refused as already made. So a refusal is returned only after a check that the key has no answer.
// Refusals are stored too, so that no later request under the key succeeds. Errors that a retry may
// resolve are not stored.
func once[T any](ctx context.Context, c *Catalog, s domain.Scope, key Key, change func(record func(Tx, T) error) (T, error)) (T, error) {
	var none T
	if key.Key == "" {
		return change(nil)
	}
	if len(key.Key) > maxKey {
		return none, domain.Invalid("Idempotency-Key", "An idempotency key has at most %d bytes.", maxKey)
	}
	answer, err := change(func(tx Tx, answer T) error {
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return c.storeAnswer(context.WithoutCancel(ctx), tx, s, key, storedAnswer{Answer: body})
	})
	if err == nil {
		return answer, nil
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	if why, sure := surely(err); sure {
		unstored := c.Store.In(ctx, s, func(tx Tx) error { return c.storeAnswer(ctx, tx, s, key, storedAnswer{refusal: why}) })
		if unstored == nil {
			return none, err
		}
		if !errors.Is(unstored, errAnswered) {
			return none, unknown(unstored)
		}
	}
	before, missing := replay[T](ctx, c, s, key)
	switch {
	case !domain.IsCode(missing, domain.CodeNotFound) || ReasonOf(missing) != "":
		return before, missing
	case errors.Is(err, errAnswered): // the answer expired meanwhile
		return none, unknown(err)
	}
	return none, err
}

// unknown is the error of a change that an earlier request under its key may have made.
func unknown(cause error) error {
	return failed(CommitStateUnknown, "It is not known whether this was done under its idempotency key before; send it again with the same key.").because(cause)
}

// surely reports whether an error is final: the change is not made, and will not be.
func surely(err error) (refusal, bool) {
	e, ours := errors.AsType[*domain.Error](err)
	if !ours || errors.Is(err, errAnswered) || e.Code != domain.CodeInvalid && e.Code != domain.CodeNotFound && e.Code != domain.CodeConflict {
		return refusal{}, false
	}
	return refusal{Code: e.Code, Reason: ReasonOf(err), Message: e.Message, Field: e.Field}, true
}

func actorKey(s domain.Scope) string { return string(s.Actor().Kind) + ":" + s.Actor().ID }

// replay returns the key's stored answer. CodeNotFound without a reason if there is no answer;
// CommitStateUnknown if it cannot be read.
func replay[T any](ctx context.Context, c *Catalog, s domain.Scope, key Key) (answer T, err error) {
	var found Answer
	err = c.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = tx.LakeAnswer(ctx, actorKey(s), key.Key, c.Clock.Now().Add(-AnswerTime))
		return err
	})
	if domain.IsCode(err, domain.CodeNotFound) {
		return answer, err
	}
	if err != nil {
		return answer, unknown(err)
	}
	if string(found.Hash) != string(key.Hash) {
		return answer, domain.Errorf(domain.CodeConflict, "This idempotency key was used for another request; use a new key.")
	}
	var k storedAnswer
	if err := json.Unmarshal(found.Body, &k); err != nil {
		return answer, unknown(err)
	}
	if k.Code != "" {
		return answer, k.error()
	}
	return answer, json.Unmarshal(k.Answer, &answer)
}

func (c *Catalog) storeAnswer(ctx context.Context, tx Tx, s domain.Scope, key Key, k storedAnswer) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	done, err := tx.KeepLakeAnswer(ctx, actorKey(s), Answer{Key: key.Key, Hash: append([]byte{}, key.Hash...), Body: body}, now, now.Add(-AnswerTime))
	if err == nil && !done {
		err = errAnswered
	}
	return err
}

// pointer is the stored answer of a change that returns a table or view.
type pointer struct {
	Table    domain.TableID `json:"table"`
	Location string         `json:"location"`
	Version  int            `json:"version"`
}

// onceLoaded is once for a change that returns a table or view.
func (c *Catalog) onceLoaded(ctx context.Context, s domain.Scope, key Key, change func(record func(Tx, Table) error) (Loaded, error)) (Loaded, error) {
	if key.Key == "" {
		return change(nil)
	}
	var made *Loaded
	p, err := once(ctx, c, s, key, func(record func(Tx, pointer) error) (pointer, error) {
		l, err := change(func(tx Tx, row Table) error {
			return record(tx, pointer{row.ID, row.MetadataLocation, row.Version})
		})
		if err == nil {
			made = &l
		}
		return pointer{}, err
	})
	if err != nil {
		return Loaded{}, err
	}
	if made != nil {
		return *made, nil
	}
	return c.again(ctx, s, p)
}

// again returns the table or view of a stored answer, in the state of then. If that state's file is
// gone, it returns the current state.
func (c *Catalog) again(ctx context.Context, s domain.Scope, p pointer) (Loaded, error) {
	var row Table
	err := c.Store.In(ctx, s, func(tx Tx) (err error) {
		row, err = tx.LakeTable(ctx, p.Table)
		return err
	})
	if err != nil {
		return Loaded{}, unknown(err)
	}
	d, err := c.document(ctx, state{p.Table, p.Version, p.Location})
	if ReasonOf(err) == NoSuchFile {
		d, err = c.document(ctx, stateOf(row))
	}
	if err != nil {
		return Loaded{}, unknown(err)
	}
	return Loaded{Table: row, MetadataLocation: d.location, Metadata: d.json, Tag: d.tag()}, nil
}

// nothing is the answer of a change that returns nothing.
type nothing struct{}

// changing runs a transaction that changes something. The actor, if it is a run or statement, must
// not have ended, and cannot end before the commit.
func (c *Catalog) changing(ctx context.Context, s domain.Scope, fn func(Tx) error) error {
	return c.Store.In(ctx, s, func(tx Tx) error {
		if noted(s) {
			if err := tx.HoldWriter(ctx, s.Actor()); err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// onceDone is once for a change that is one transaction and returns nothing.
func (c *Catalog) onceDone(ctx context.Context, s domain.Scope, key Key, change func(context.Context, Tx) error) error {
	_, err := once(ctx, c, s, key, func(record func(Tx, nothing) error) (nothing, error) {
		return nothing{}, c.changing(ctx, s, func(tx Tx) error {
			if err := change(ctx, tx); err != nil || record == nil {
				return err
			}
			return record(tx, nothing{})
		})
	})
	return err
}
