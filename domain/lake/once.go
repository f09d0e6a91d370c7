package lake

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/millpond/millpond/domain"
)

// maxKey bounds an idempotency key in bytes.
const maxKey = 255

// errAnswered says that somebody else has answered the key meanwhile.
var errAnswered = errors.New("the key is answered already")

// kept is how a change was answered: what it made, or why it was refused.
type kept struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	refusal
}

// refusal is a refused change as it is kept.
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

// once makes the change, or answers as it was answered under the same key. The change is tried first, since nearly all keys are new, and calls keep in its
// transaction; keep is nil without a key. Of two with one key, one is done: the other's keep fails, or the change is refused since it is made already. So nothing is
// refused before it is known that the key has not been answered meanwhile, and a refusal is kept as well, so that nobody does under the key what was refused
// under it. What may still come right is not kept.
func once[T any](ctx context.Context, c *Catalog, s domain.Scope, key Key, change func(keep func(domain.Tx, T) error) (T, error)) (T, error) {
	var none T
	if key.Key == "" {
		return change(nil)
	}
	if len(key.Key) > maxKey {
		return none, domain.Invalid("Idempotency-Key", "An idempotency key has at most %d bytes.", maxKey)
	}
	answer, err := change(func(tx domain.Tx, answer T) error {
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return c.keep(context.WithoutCancel(ctx), tx, s, key, kept{Answer: body})
	})
	if err == nil {
		return answer, nil
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	if why, sure := surely(err); sure {
		unkept := c.Store.In(ctx, s, func(tx domain.Tx) error { return c.keep(ctx, tx, s, key, kept{refusal: why}) })
		if unkept == nil {
			return none, err
		}
		if !errors.Is(unkept, errAnswered) {
			return none, unknown(unkept)
		}
	}
	before, missing := replay[T](ctx, c, s, key)
	switch {
	case !domain.IsCode(missing, domain.CodeNotFound) || ReasonOf(missing) != "":
		return before, missing
	case errors.Is(err, errAnswered): // the answer was too old a moment later
		return none, unknown(err)
	}
	return none, err
}

// unknown says that a change under a key may have been made by an earlier request.
func unknown(cause error) error {
	return failed(CommitStateUnknown, "Whether this was done under its idempotency key before is not known; send it again with the same key.").because(cause)
}

// surely says that an error is an answer: that the change is not made, and will not be.
func surely(err error) (refusal, bool) {
	e, ours := errors.AsType[*domain.Error](err)
	if !ours || errors.Is(err, errAnswered) || e.Code != domain.CodeInvalid && e.Code != domain.CodeNotFound && e.Code != domain.CodeConflict {
		return refusal{}, false
	}
	return refusal{Code: e.Code, Reason: ReasonOf(err), Message: e.Message, Field: e.Field}, true
}

func actorKey(s domain.Scope) string { return string(s.Actor().Kind) + ":" + s.Actor().ID }

// replay answers as before; CodeNotFound without a reason where there was no such request, and CommitStateUnknown where it cannot be found out.
func replay[T any](ctx context.Context, c *Catalog, s domain.Scope, key Key) (answer T, err error) {
	var found domain.LakeAnswer
	err = c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
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
	var k kept
	if err := json.Unmarshal(found.Body, &k); err != nil {
		return answer, unknown(err)
	}
	if k.Code != "" {
		return answer, k.error()
	}
	return answer, json.Unmarshal(k.Answer, &answer)
}

func (c *Catalog) keep(ctx context.Context, tx domain.Tx, s domain.Scope, key Key, k kept) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	done, err := tx.KeepLakeAnswer(ctx, actorKey(s), domain.LakeAnswer{Key: key.Key, Hash: append([]byte{}, key.Hash...), Body: body}, now, now.Add(-AnswerTime))
	if err == nil && !done {
		err = errAnswered
	}
	return err
}

// pointer is what is kept of an answer that shows a table or a view.
type pointer struct {
	Table    domain.TableID `json:"table"`
	Location string         `json:"location"`
}

// onceLoaded is once for a change that answers with a table or a view.
func (c *Catalog) onceLoaded(ctx context.Context, s domain.Scope, key Key, change func(keep func(domain.Tx, domain.LakeTable) error) (Loaded, error)) (Loaded, error) {
	if key.Key == "" {
		return change(nil)
	}
	var made *Loaded
	p, err := once(ctx, c, s, key, func(keep func(domain.Tx, pointer) error) (pointer, error) {
		l, err := change(func(tx domain.Tx, row domain.LakeTable) error { return keep(tx, pointer{row.ID, row.MetadataLocation}) })
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

// again is the table or view that was answered with before; as it is now where that state's file is gone. It was made, whatever became of it since.
func (c *Catalog) again(ctx context.Context, s domain.Scope, p pointer) (Loaded, error) {
	var row domain.LakeTable
	err := c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		row, err = tx.LakeTable(ctx, p.Table)
		return err
	})
	if err != nil {
		return Loaded{}, unknown(err)
	}
	d, err := c.document(ctx, p.Location)
	if ReasonOf(err) == NoSuchFile {
		d, err = c.document(ctx, row.MetadataLocation)
	}
	if err != nil {
		return Loaded{}, unknown(err)
	}
	return Loaded{Table: row, MetadataLocation: d.location, Metadata: d.json}, nil
}

// nothing is the answer of a change that shows nothing.
type nothing struct{}

// changing runs a transaction that changes something. A run or a statement that does so is not over before it is, and has not been.
func (c *Catalog) changing(ctx context.Context, s domain.Scope, fn func(domain.Tx) error) error {
	return c.Store.In(ctx, s, func(tx domain.Tx) error {
		if noted(s) {
			if err := tx.HoldWriter(ctx, s.Actor()); err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// onceDone is once for a change that is one transaction and shows nothing.
func (c *Catalog) onceDone(ctx context.Context, s domain.Scope, key Key, change func(context.Context, domain.Tx) error) error {
	_, err := once(ctx, c, s, key, func(keep func(domain.Tx, nothing) error) (nothing, error) {
		return nothing{}, c.changing(ctx, s, func(tx domain.Tx) error {
			if err := change(ctx, tx); err != nil || keep == nil {
				return err
			}
			return keep(tx, nothing{})
		})
	})
	return err
}
