package domain

import "context"

// This file exports what the catalog (package domain/lake) needs of this package.

// Authorize refuses a scope whose role does not allow the action, and writes an audit row of the
// denial.
func Authorize(ctx context.Context, store Store, s Scope, a Action) error {
	return authorize(ctx, store, s, a)
}

// Audited writes the audit row of a success, in the transaction of the change that it records.
func Audited[T ~string](ctx context.Context, tx Tx, s Scope, a Action, resourceType string, id T) error {
	return audited(ctx, tx, s, a, resourceType, id)
}

// PageAfter returns where a page of the list continues, and its limit in rows. The filter is part
// of the list's identity.
func PageAfter(list string, filter any, p Page) (key string, limit int, err error) {
	return p.after(listName(list, filter))
}

// PageOf makes a page of rows that were read with a limit of one more.
func PageOf[T any](list string, filter any, rows []T, limit int, key func(T) string) List[T] {
	return page(listName(list, filter), rows, limit, key)
}

// The audit actions for changes of the catalog. Their permission is CatalogWrite.
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
