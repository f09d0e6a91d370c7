package domain

// LineageModTx is what this module uses of a transaction.
type LineageModTx interface {
	JobModTx
	LineageFactTx
	LineageGraphTx
}
