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

// once makes the change, or answers as it was answered under the same key before. The change calls keep in its transaction. What is surely refused is
// kept as well; what may still come right is not.
func once[T any](ctx context.Context, c *Catalog, s domain.Scope, key Key, change func(keep func(domain.Tx, T) error) (T, error)) (T, error) {
	var none T
	if key.Key == "" {
		return change(func(domain.Tx, T) error { return nil })
	}
	if len(key.Key) > maxKey {
		return none, domain.Invalid("Idempotency-Key", "An idempotency key has at most %d bytes.", maxKey)
	}
	answer, err := replay[T](ctx, c, s, key)
	if !domain.IsCode(err, domain.CodeNotFound) || ReasonOf(err) != "" {
		return answer, err
	}
	answer, err = change(func(tx domain.Tx, answer T) error {
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return c.keep(context.WithoutCancel(ctx), tx, s, key, kept{Answer: body})
	})
	if errors.Is(err, errAnswered) {
		return replay[T](ctx, c, s, key)
	}
	if why, sure := surely(err); sure {
		keeping, cancel := lasting(ctx)
		defer cancel()
		unkept := c.Store.In(keeping, s, func(tx domain.Tx) error { return c.keep(keeping, tx, s, key, kept{refusal: why}) })
		if unkept != nil && !errors.Is(unkept, errAnswered) {
			c.Report(unkept)
		}
	}
	return answer, err
}

// surely says that an error would be the same if the request were sent again. A commit that failed may be tried again: it has changed nothing.
func surely(err error) (refusal, bool) {
	e, ours := errors.AsType[*domain.Error](err)
	if !ours || ReasonOf(err) == CommitFailed || e.Code != domain.CodeInvalid && e.Code != domain.CodeNotFound && e.Code != domain.CodeConflict {
		return refusal{}, false
	}
	return refusal{Code: e.Code, Reason: ReasonOf(err), Message: e.Message, Field: e.Field}, true
}

func actorKey(s domain.Scope) string { return string(s.Actor().Kind) + ":" + s.Actor().ID }

// replay answers as before; CodeNotFound without a reason where there was no such request.
func replay[T any](ctx context.Context, c *Catalog, s domain.Scope, key Key) (answer T, err error) {
	var found domain.LakeAnswer
	err = c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		found, err = tx.LakeAnswer(ctx, actorKey(s), key.Key, c.Clock.Now().Add(-AnswerTime))
		return err
	})
	if err != nil {
		return answer, err
	}
	if string(found.Hash) != string(key.Hash) {
		return answer, domain.Errorf(domain.CodeConflict, "This idempotency key was used for another request; use a new key.")
	}
	var k kept
	if err := json.Unmarshal(found.Body, &k); err != nil {
		return answer, err
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
	var made *Loaded
	p, err := once(ctx, c, s, key, func(keep func(domain.Tx, pointer) error) (pointer, error) {
		l, err := change(func(tx domain.Tx, row domain.LakeTable) error { return keep(tx, pointer{row.ID, row.MetadataLocation}) })
		if err == nil {
			made = &l
		}
		return pointer{}, err
	})
	if err != nil || made != nil {
		return orNone(made), err
	}
	var row domain.LakeTable
	err = c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		row, err = tx.LakeTable(ctx, p.Table)
		return err
	})
	if err != nil {
		return Loaded{}, err
	}
	d, err := c.document(ctx, p.Location)
	if err != nil {
		return Loaded{}, err
	}
	return Loaded{Table: row, MetadataLocation: p.Location, Metadata: d.json}, nil
}

func orNone(l *Loaded) Loaded {
	if l == nil {
		return Loaded{}
	}
	return *l
}

// nothing is the answer of a change that shows nothing.
type nothing struct{}

// onceDone is once for a change that is one transaction and shows nothing.
func (c *Catalog) onceDone(ctx context.Context, s domain.Scope, key Key, change func(context.Context, domain.Tx) error) error {
	_, err := once(ctx, c, s, key, func(keep func(domain.Tx, nothing) error) (nothing, error) {
		return nothing{}, c.Store.In(ctx, s, func(tx domain.Tx) error {
			if err := change(ctx, tx); err != nil {
				return err
			}
			return keep(tx, nothing{})
		})
	})
	return err
}
