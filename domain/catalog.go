package domain

import "context"

// What the catalog (domain/lake), a service outside of this package, needs of it.

// Authorize refuses a scope whose role does not allow the action, and leaves an audit row of the denial.
func Authorize(ctx context.Context, store Store, s Scope, a Action) error {
	return authorize(ctx, store, s, a)
}

// Audited writes the audit row of a success, in the transaction of what it tells.
func Audited[T ~string](ctx context.Context, tx Tx, s Scope, a Action, resourceType string, id T) error {
	return audited(ctx, tx, s, a, resourceType, id)
}

// PageAfter is what a page of the list, narrowed by the filter, reads on from, and how many rows it takes at most.
func PageAfter(list string, filter any, p Page) (key string, limit int, err error) {
	return p.after(listName(list, filter))
}

// PageOf cuts rows, read with one more than the limit, into a page.
func PageOf[T any](list string, filter any, rows []T, limit int, key func(T) string) List[T] {
	return page(listName(list, filter), rows, limit, key)
}

// The actions that changes of the catalog are audited as. Permission for them is CatalogWrite.
const (
	SchemaCreate  Action = "schema.create"
	SchemaUpdate  Action = "schema.update"
	SchemaDrop    Action = "schema.drop"
	TableCreate   Action = "table.create"
	TableRegister Action = "table.register"
	TableCommit   Action = "table.commit"
	TableRename   Action = "table.rename"
	TableDrop     Action = "table.drop"
	TableUndrop   Action = "table.undrop"
	TablePurge    Action = "table.purge"
	ViewCreate    Action = "view.create"
	ViewCommit    Action = "view.commit"
	ViewRename    Action = "view.rename"
	ViewDrop      Action = "view.drop"
	ViewUndrop    Action = "view.undrop"
)
