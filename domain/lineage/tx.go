package lineage

import "github.com/millpond/millpond/domain/job"

// Tx is what this module uses of a transaction.
type Tx interface {
	job.Tx
	factTx
	graphTx
}
