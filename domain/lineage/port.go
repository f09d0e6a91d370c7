package lineage

import (
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
)

// Tx is what lineage uses of a transaction.
type Tx interface {
	job.Tx
	lake.Tx
	factTx
	graphTx
}
