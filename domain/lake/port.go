package lake

import "github.com/millpond/millpond/domain"

// Tx is what lake uses of a transaction.
type Tx interface {
	domain.Tx
	databaseTx
	schemaTx
	tableTx
	erasureTx
	answerTx
	lineageTx
}
