// Package tracking has experiments, their runs, and what runs log: points of metrics, parameters,
// tags and datasets. A run here is a tracking run, not a run of a job. MLflow's face and the native
// ones use the same services.
package tracking

import (
	"context"
	"encoding/hex"

	"go.jetify.com/typeid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
)

// Tx is what tracking uses of a transaction.
type Tx interface {
	domain.Tx
	quota.Tx
	// Attempt returns an attempt of a job's task.
	Attempt(ctx context.Context, id domain.AttemptID) (job.Attempt, error)
	experimentTx
	runTx
	metricTx
	upkeepTx
	lineageTx
	followTx
}

// Pair is a parameter or a tag.
type Pair struct {
	Key   string
	Value string
}

// View selects items by whether they are deleted.
type View string

// The views.
const (
	ViewActive  View = "active"
	ViewDeleted View = "deleted"
	ViewAll     View = "all"
)

// Views lists the views.
var Views = []View{ViewActive, ViewDeleted, ViewAll}

// newRunID returns a UUIDv7 in 32 hex digits.
func newRunID() domain.TrackingRunID {
	id, err := typeid.WithPrefix("")
	if err != nil {
		panic("domain: an id without a prefix is malformed")
	}
	return domain.TrackingRunID(hex.EncodeToString(id.UUIDBytes()))
}
