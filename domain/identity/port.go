package identity

import "github.com/millpond/millpond/domain"

// Tx is what identity uses of a transaction.
type Tx interface {
	domain.Tx
	workspaceTx
	memberTx
	apiKeyTx
}
