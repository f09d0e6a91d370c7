package domain

// IdentityModTx is what this module uses of a transaction.
type IdentityModTx interface {
	Tx
	WorkspaceTx
	MemberTx
	APIKeyTx
}
