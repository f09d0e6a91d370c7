package domain

// QuotaModTx is what this module uses of a transaction.
type QuotaModTx interface {
	Tx
	QuotaTx
}
