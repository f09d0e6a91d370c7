package identity

import "github.com/millpond/millpond/domain"

// Tx is what this module uses of a transaction.
type Tx interface {
	domain.Tx
	workspaceTx
	memberTx
	apiKeyTx
}
