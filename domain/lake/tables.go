package lake

import (
	"context"

	"github.com/millpond/millpond/domain"
)

func missingTable(kind TableKind, r Ref) error {
	reason := NoSuchTable
	if kind == KindView {
		reason = NoSuchView
	}
	return failed(reason, "There is no %s %q in the schema %q.", kind, r.Name, r.Schema)
}

func exists(name string) error {
	return failed(AlreadyExists, "A table or view of the name %q exists already; choose another name.", name)
}

// uniqueViolation is the SQLSTATE of a row that conflicts with one inserted meanwhile.
const uniqueViolation = "23505"

// orTaken turns a unique violation into AlreadyExists: another transaction took the name.
func orTaken(err error, name string) error {
	if sqlState(err) != uniqueViolation {
		return err
	}
	return failed(AlreadyExists, "A table or view of the name %q exists already; choose another name.", name).because(err)
}

// find returns the live table or view with the name, ignoring case.
func find(ctx context.Context, tx Tx, r Ref, kind TableKind) (Table, error) {
	row, err := tx.FindLakeTable(ctx, r.Database, r.Schema, r.Name)
	if err == nil && row.Kind == kind {
		return row, nil
	}
	if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		return row, err
	}
	if _, err := warehouse(ctx, tx, r.Database); err != nil {
		return Table{}, err
	}
	return Table{}, missingTable(kind, r)
}

// row returns the live table or view with the name. It is one round trip if the store is quick and
// the table exists.
func (c *Catalog) row(ctx context.Context, s domain.Scope, r Ref, kind TableKind) (row Table, err error) {
	if c.Quick != nil {
		row, err = c.Quick.FindLakeTable(ctx, s, r.Database, r.Schema, r.Name)
		if err == nil && row.Kind == kind || err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return row, err
		}
	}
	err = c.Store.In(ctx, s, func(tx Tx) (err error) {
		row, err = find(ctx, tx, r, kind)
		return err
	})
	return row, err
}

// Names returns the names of the tables or views in the schema, after the given name. It returns at
// most limit names; 0 means all. next is where to continue, empty at the end. NoSuchWarehouse,
// NoSuchNamespace.
func (c *Catalog) Names(ctx context.Context, s domain.Scope, database, schema string, kind TableKind, after string, limit int) (names []string, next string, err error) {
	err = c.read(ctx, s, func(tx Tx) error {
		d, err := warehouse(ctx, tx, database)
		if err != nil {
			return err
		}
		if _, err := namespace(ctx, tx, d, schema); err != nil {
			return err
		}
		names, err = tx.LakeTableNames(ctx, d.ID, schema, kind, after, oneMore(limit))
		return err
	})
	names, next = cut(names, limit)
	return names, next, err
}

// Tables lists tables and views, oldest first. It reads only their rows.
func (c *Catalog) Tables(ctx context.Context, s domain.Scope, f TableFilter, p domain.Page) (domain.List[Table], error) {
	const list = "tables"
	after, limit, err := p.After(domain.ListName(list, f))
	if err != nil {
		return domain.List[Table]{}, err
	}
	var found []Table
	err = c.read(ctx, s, func(tx Tx) (err error) {
		if f.Database != "" {
			if _, err := tx.Database(ctx, f.Database); err != nil {
				return err
			}
		}
		found, err = tx.LakeTables(ctx, f, domain.TableID(after), limit+1)
		return err
	})
	return domain.PageOf(domain.ListName(list, f), found, limit, func(t Table) string { return string(t.ID) }), err
}

// Table returns the row of a live table or view, in one query; NoSuchWarehouse, NoSuchTable,
// NoSuchView.
func (c *Catalog) Table(ctx context.Context, s domain.Scope, r Ref, kind TableKind) (Table, error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return Table{}, err
	}
	return c.row(ctx, s, r, kind)
}

// TableByID returns the row of a table or view, live or dropped; CodeNotFound.
func (c *Catalog) TableByID(ctx context.Context, s domain.Scope, id domain.TableID) (row Table, err error) {
	err = c.read(ctx, s, func(tx Tx) (err error) {
		row, err = tx.LakeTable(ctx, id)
		return err
	})
	return row, err
}

// TablesByID returns the rows of the tables and views that exist in the workspace.
func (c *Catalog) TablesByID(ctx context.Context, s domain.Scope, ids []domain.TableID) (found []Table, err error) {
	err = c.read(ctx, s, func(tx Tx) (err error) {
		found, err = tx.LakeTablesByID(ctx, ids)
		return err
	})
	return found, err
}

// Load returns the table or view with its metadata; NoSuchWarehouse, NoSuchTable, NoSuchView,
// NoSuchFile. It takes one query, and one file unless that is cached. A run or statement is
// recorded as reader, with one more statement.
func (c *Catalog) Load(ctx context.Context, s domain.Scope, r Ref, kind TableKind, o LoadOptions) (Loaded, error) {
	row, err := c.opening(ctx, s, r, kind)
	if err != nil {
		return Loaded{}, err
	}
	l := Loaded{Table: row}
	l.MetadataLocation, l.Tag = row.MetadataLocation, stateOf(row).tag()
	if o.Unchanged != nil && o.Unchanged(l.Tag) {
		l.Unchanged = true
		return l, nil
	}
	d, err := c.document(ctx, stateOf(row))
	if err != nil {
		return Loaded{}, err
	}
	l.Metadata = d.json
	if o.RefsOnly && kind == KindTable {
		l.Metadata, err = d.refsOnly()
	}
	return l, err
}

// opening returns the row to load, and records lineage for runs and statements.
func (c *Catalog) opening(ctx context.Context, s domain.Scope, r Ref, kind TableKind) (row Table, err error) {
	if !noted(s) {
		return c.Table(ctx, s, r, kind)
	}
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return row, err
	}
	if c.Quick != nil {
		row, err = c.Quick.NoteLakeTable(ctx, s, r.Database, r.Schema, r.Name, kind, c.Clock.Now())
		if err == nil && row.Kind == kind || err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return row, err
		}
	}
	err = c.Store.In(ctx, s, func(tx Tx) error {
		if row, err = find(ctx, tx, r, kind); err != nil {
			return err
		}
		return c.note(ctx, tx, s, LineageRead, row)
	})
	return row, err
}

// noted reports whether lineage is recorded for the scope's actor: for runs and statements. Actions
// of people and keys are in the audit log.
func noted(s domain.Scope) bool {
	kind := s.Actor().Kind
	return kind == domain.ActorRun || kind == domain.ActorStatement
}

// note records that a run or statement read or wrote the table: its current snapshot, or the given
// ones. A snapshot of 0 means that there is no snapshot.
func (c *Catalog) note(ctx context.Context, tx Tx, s domain.Scope, d LineageDirection, row Table, snapshots ...int64) error {
	if !noted(s) {
		return nil
	}
	if len(snapshots) == 0 {
		snapshots = []int64{0}
		if row.Snapshot != nil {
			snapshots[0] = row.Snapshot.ID
		}
	}
	entries := make([]LineageEntry, len(snapshots))
	for i, snapshot := range snapshots {
		entries[i] = LineageEntry{
			At: c.Clock.Now(), Actor: s.Actor(), Direction: d, TableID: row.ID, Database: row.Database, Schema: row.Schema, Name: row.Name, SnapshotID: snapshot,
		}
	}
	return tx.InsertLineage(ctx, entries)
}

// action returns the action for the kind: views have their own.
func action(kind TableKind, table, view domain.Action) domain.Action {
	if kind == KindView {
		return view
	}
	return table
}

func audit(ctx context.Context, tx Tx, s domain.Scope, a domain.Action, row Table) error {
	return domain.Audited(ctx, tx, s, a, string(row.Kind), row.ID)
}

// Drop drops a table or view. It can be restored for lake.UndropTime. With purge its files are
// removed after that. Without, the table is detached: its files stay until it is purged or
// registered. A view's files are always removed, and those of a registered table never.
// NoSuchWarehouse, NoSuchTable, NoSuchView.
func (c *Catalog) Drop(ctx context.Context, s domain.Scope, r Ref, kind TableKind, purge bool, key Key) error {
	if err := c.mayWrite(ctx, s); err != nil {
		return err
	}
	return c.onceDone(ctx, s, key, func(ctx context.Context, tx Tx) error {
		row, err := find(ctx, tx, r, kind)
		if err != nil {
			return err
		}
		now := c.Clock.Now()
		dropped, err := tx.DropLakeTable(ctx, row.ID, now, now.Add(UndropTime), (purge || kind == KindView) && !row.Registered)
		if err != nil {
			return err
		}
		if !dropped {
			return missingTable(kind, r)
		}
		if err := c.note(ctx, tx, s, LineageWritten, row, 0); err != nil {
			return err
		}
		return audit(ctx, tx, s, action(kind, domain.TableDrop, domain.ViewDrop), row)
	})
}

// Undrop restores a dropped table or view with its former name, in the schema that now has its
// schema's name. CodeNotFound if it is purged; CodeConflict if it is live, or its restore time is
// over; NoSuchNamespace, AlreadyExists.
func (c *Catalog) Undrop(ctx context.Context, s domain.Scope, id domain.TableID) (row Table, err error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return row, err
	}
	err = c.changing(ctx, s, func(tx Tx) (err error) {
		if row, err = tx.LockLakeTable(ctx, id); err != nil {
			return err
		}
		switch {
		case row.DroppedAt == nil:
			return domain.Errorf(domain.CodeConflict, "The %s %s is not dropped.", row.Kind, row.Name)
		case !c.Clock.Now().Before(*row.PurgeAfter):
			return domain.Errorf(domain.CodeConflict, "The %s %s was dropped too long ago to be restored.", row.Kind, row.Name)
		}
		done, err := tx.UndropLakeTable(ctx, id)
		switch {
		case err != nil:
			return err
		case done == InsertedNowhere:
			return failed(NoSuchNamespace, "The schema %q of the %s is gone; make it again first.", row.Schema, row.Kind)
		case done != InsertedNow:
			return exists(row.Name)
		}
		if err := audit(ctx, tx, s, action(row.Kind, domain.TableUndrop, domain.ViewUndrop), row); err != nil {
			return err
		}
		row, err = tx.LakeTable(ctx, id)
		return err
	})
	return row, orTaken(err, row.Name)
}

// PurgeDropped schedules the removal of a detached table's files, once it can no longer be
// restored. CodeNotFound; CodeConflict for a table that is not detached.
func (c *Catalog) PurgeDropped(ctx context.Context, s domain.Scope, id domain.TableID) (row Table, err error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return row, err
	}
	err = c.changing(ctx, s, func(tx Tx) (err error) {
		if row, err = tx.LockLakeTable(ctx, id); err != nil {
			return err
		}
		switch {
		case row.DroppedAt == nil:
			return domain.Errorf(domain.CodeConflict, "The %s %s is not dropped; drop it first.", row.Kind, row.Name)
		case row.Registered:
			return domain.Errorf(domain.CodeConflict, "The files of the %s %s came from elsewhere and are not removed here; remove them where they came from.", row.Kind, row.Name)
		case row.Purge:
			return domain.Errorf(domain.CodeConflict, "The %s %s is to be purged already.", row.Kind, row.Name)
		}
		if err := tx.PurgeLakeTable(ctx, id, c.Clock.Now()); err != nil {
			return err
		}
		if err := audit(ctx, tx, s, domain.TablePurge, row); err != nil {
			return err
		}
		row, err = tx.LakeTable(ctx, id)
		return err
	})
	return row, err
}

// Rename gives a table or view another name, or another schema in the same workspace. Its files
// stay where they are. NoSuchWarehouse, NoSuchTable, NoSuchView, NoSuchNamespace for the new
// schema, AlreadyExists.
func (c *Catalog) Rename(ctx context.Context, s domain.Scope, kind TableKind, from, to Ref, key Key) error {
	if err := c.mayWrite(ctx, s); err != nil {
		return err
	}
	return c.onceDone(ctx, s, key, func(ctx context.Context, tx Tx) error {
		if err := ValidLakeName("name", to.Name); err != nil {
			return err
		}
		row, err := find(ctx, tx, from, kind)
		if err != nil {
			return err
		}
		d, err := warehouse(ctx, tx, to.Database)
		if err != nil {
			return err
		}
		done, err := tx.RenameLakeTable(ctx, row.ID, d.ID, to.Schema, to.Name)
		err = orTaken(err, to.Name)
		switch {
		case domain.IsCode(err, domain.CodeNotFound): // dropped meanwhile
			return missingTable(kind, from)
		case err != nil:
			return err
		case done == InsertedNowhere:
			return missingSchema(to.Schema)
		case done != InsertedNow:
			return exists(to.Name)
		}
		if err := c.note(ctx, tx, s, LineageWritten, row, 0); err != nil {
			return err
		}
		return audit(ctx, tx, s, action(kind, domain.TableRename, domain.ViewRename), row)
	})
}

// Access returns how an engine reaches the workspace's files. The caller decides who may receive
// it.
func (c *Catalog) Access(ctx context.Context, s domain.Scope) (Access, error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return Access{}, err
	}
	return c.Files.Access(ctx, s.Workspace())
}
