package domain

// LakeModTx is what this module uses of a transaction.
type LakeModTx interface {
	Tx
	DatabaseTx
	LakeSchemaTx
	LakeTableTx
	LakeErasureTx
	LakeAnswerTx
	LineageTx
}
