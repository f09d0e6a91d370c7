package lake

import (
	"context"

	"github.com/millpond/millpond/domain"
)

func missingTable(kind domain.TableKind, r Ref) error {
	reason := NoSuchTable
	if kind == domain.KindView {
		reason = NoSuchView
	}
	return failed(reason, "There is no %s %q in the schema %q.", kind, r.Name, r.Schema)
}

func exists(name string) error {
	return failed(AlreadyExists, "A table or view of the name %q exists already; choose another name.", name)
}

// uniqueViolation is the SQLSTATE of a row that another one, which was not there yet when it was looked for, keeps from being there.
const uniqueViolation = "23505"

// orTaken is AlreadyExists for a name that somebody else took at the same moment.
func orTaken(err error, name string) error {
	if sqlState(err) != uniqueViolation {
		return err
	}
	return failed(AlreadyExists, "A table or view of the name %q exists already; choose another name.", name).because(err)
}

// find is the live table or view of the name, in any case.
func find(ctx context.Context, tx domain.Tx, r Ref, kind domain.TableKind) (domain.LakeTable, error) {
	row, err := tx.FindLakeTable(ctx, r.Database, r.Schema, r.Name)
	if err == nil && row.Kind == kind {
		return row, nil
	}
	if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		return row, err
	}
	if _, err := warehouse(ctx, tx, r.Database); err != nil {
		return domain.LakeTable{}, err
	}
	return domain.LakeTable{}, missingTable(kind, r)
}

// row is the live table or view of the name. It is one round trip where the store finds tables by itself and there is one.
func (c *Catalog) row(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind) (row domain.LakeTable, err error) {
	if c.quick != nil {
		row, err = c.quick.FindLakeTable(ctx, s, r.Database, r.Schema, r.Name)
		if err == nil && row.Kind == kind || err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return row, err
		}
	}
	err = c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		row, err = find(ctx, tx, r, kind)
		return err
	})
	return row, err
}

// Names are those of the tables or views in the schema after the name given, limit at most; 0 means all of them. next is where to read on, and empty at
// the end. NoSuchWarehouse, NoSuchNamespace.
func (c *Catalog) Names(ctx context.Context, s domain.Scope, database, schema string, kind domain.TableKind, after string, limit int) (names []string, next string, err error) {
	err = c.read(ctx, s, func(tx domain.Tx) error {
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

// Tables lists tables and views, oldest first, from their rows alone.
func (c *Catalog) Tables(ctx context.Context, s domain.Scope, f domain.TableFilter, p domain.Page) (domain.List[domain.LakeTable], error) {
	const list = "tables"
	after, limit, err := domain.PageAfter(list, f, p)
	if err != nil {
		return domain.List[domain.LakeTable]{}, err
	}
	var found []domain.LakeTable
	err = c.read(ctx, s, func(tx domain.Tx) (err error) {
		if f.Database != "" {
			if _, err := tx.Database(ctx, f.Database); err != nil {
				return err
			}
		}
		found, err = tx.LakeTables(ctx, f, domain.TableID(after), limit+1)
		return err
	})
	return domain.PageOf(list, f, found, limit, func(t domain.LakeTable) string { return string(t.ID) }), err
}

// Table is the row of a live table or view; NoSuchWarehouse, NoSuchTable, NoSuchView. It is one query.
func (c *Catalog) Table(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind) (domain.LakeTable, error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return domain.LakeTable{}, err
	}
	return c.row(ctx, s, r, kind)
}

// TableByID is the row of a table or a view, which may be a dropped one; CodeNotFound.
func (c *Catalog) TableByID(ctx context.Context, s domain.Scope, id domain.TableID) (row domain.LakeTable, err error) {
	err = c.read(ctx, s, func(tx domain.Tx) (err error) {
		row, err = tx.LakeTable(ctx, id)
		return err
	})
	return row, err
}

// TablesByID are those of the tables and views that are in the workspace.
func (c *Catalog) TablesByID(ctx context.Context, s domain.Scope, ids []domain.TableID) (found []domain.LakeTable, err error) {
	err = c.read(ctx, s, func(tx domain.Tx) (err error) {
		found, err = tx.LakeTablesByID(ctx, ids)
		return err
	})
	return found, err
}

// Load is the table or view with its metadata; NoSuchWarehouse, NoSuchTable, NoSuchView, NoSuchFile. It is one query, and one file unless that is in memory. Who runs
// or states it is recorded as having read it, with one statement more.
func (c *Catalog) Load(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind, o LoadOptions) (Loaded, error) {
	row, err := c.opening(ctx, s, r, kind)
	if err != nil {
		return Loaded{}, err
	}
	l := Loaded{Table: row}
	l.MetadataLocation = l.Table.MetadataLocation
	if o.Unchanged != nil && o.Unchanged(l.MetadataLocation) {
		l.Unchanged = true
		return l, nil
	}
	d, err := c.document(ctx, l.MetadataLocation)
	if err != nil {
		return Loaded{}, err
	}
	l.Metadata = d.json
	if o.RefsOnly && kind == domain.KindTable {
		l.Metadata, err = d.refsOnly()
	}
	return l, err
}

// opening is the row of what is loaded, which is noted of those of whom lineage is kept.
func (c *Catalog) opening(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind) (row domain.LakeTable, err error) {
	if !noted(s) {
		return c.Table(ctx, s, r, kind)
	}
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return row, err
	}
	if c.quick != nil {
		row, err = c.quick.NoteLakeTable(ctx, s, r.Database, r.Schema, r.Name, kind, c.Clock.Now())
		if err == nil && row.Kind == kind || err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return row, err
		}
	}
	err = c.Store.In(ctx, s, func(tx domain.Tx) error {
		if row, err = find(ctx, tx, r, kind); err != nil {
			return err
		}
		return c.note(ctx, tx, s, domain.LineageRead, row)
	})
	return row, err
}

// noted says that lineage is kept of what the scope's actor does: of runs and statements. What people and keys do is in the audit log.
func noted(s domain.Scope) bool {
	kind := s.Actor().Kind
	return kind == domain.ActorRun || kind == domain.ActorStatement
}

// note records what a run or a statement does with the table: with its current snapshot, or with those given, of which 0 stands for none.
func (c *Catalog) note(ctx context.Context, tx domain.Tx, s domain.Scope, d domain.LineageDirection, row domain.LakeTable, snapshots ...int64) error {
	if !noted(s) {
		return nil
	}
	if len(snapshots) == 0 {
		snapshots = []int64{0}
		if row.Snapshot != nil {
			snapshots[0] = row.Snapshot.ID
		}
	}
	entries := make([]domain.LineageEntry, len(snapshots))
	for i, snapshot := range snapshots {
		entries[i] = domain.LineageEntry{
			At: c.Clock.Now(), Actor: s.Actor(), Direction: d, TableID: row.ID, Database: row.Database, Schema: row.Schema, Name: row.Name, SnapshotID: snapshot,
		}
	}
	return tx.InsertLineage(ctx, entries)
}

// action is the one of the kind: views have their own.
func action(kind domain.TableKind, table, view domain.Action) domain.Action {
	if kind == domain.KindView {
		return view
	}
	return table
}

func audit(ctx context.Context, tx domain.Tx, s domain.Scope, a domain.Action, row domain.LakeTable) error {
	return domain.Audited(ctx, tx, s, a, string(row.Kind), row.ID)
}

// Drop takes a table or a view away. It can be restored for domain.UndropTime, and keeps its files until then; with purge they go as well then.
// NoSuchWarehouse, NoSuchTable, NoSuchView.
func (c *Catalog) Drop(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind, purge bool, key Key) error {
	if err := c.mayWrite(ctx, s); err != nil {
		return err
	}
	return c.onceDone(ctx, s, key, func(ctx context.Context, tx domain.Tx) error {
		row, err := find(ctx, tx, r, kind)
		if err != nil {
			return err
		}
		now := c.Clock.Now()
		dropped, err := tx.DropLakeTable(ctx, row.ID, now, now.Add(domain.UndropTime), purge && !row.Registered)
		if err != nil {
			return err
		}
		if !dropped {
			return missingTable(kind, r)
		}
		if err := c.note(ctx, tx, s, domain.LineageWritten, row, 0); err != nil {
			return err
		}
		return audit(ctx, tx, s, action(kind, domain.TableDrop, domain.ViewDrop), row)
	})
}

// Undrop restores a dropped table or view under the name it had, in the schema it was in, which may be another one of that name. CodeNotFound when it
// is no longer there; CodeConflict when it is live, or its time is over; NoSuchNamespace, AlreadyExists.
func (c *Catalog) Undrop(ctx context.Context, s domain.Scope, id domain.TableID) (row domain.LakeTable, err error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return row, err
	}
	err = c.changing(ctx, s, func(tx domain.Tx) (err error) {
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
		case done == domain.InsertedNowhere:
			return failed(NoSuchNamespace, "The schema %q of the %s is gone; make it again first.", row.Schema, row.Kind)
		case done != domain.InsertedNow:
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

// Rename gives a table or a view another name, and another schema of the same workspace. NoSuchWarehouse, NoSuchTable, NoSuchView, NoSuchNamespace for
// the new one, AlreadyExists. Its files stay where they are.
func (c *Catalog) Rename(ctx context.Context, s domain.Scope, kind domain.TableKind, from, to Ref, key Key) error {
	if err := c.mayWrite(ctx, s); err != nil {
		return err
	}
	return c.onceDone(ctx, s, key, func(ctx context.Context, tx domain.Tx) error {
		if err := domain.ValidLakeName("name", to.Name); err != nil {
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
		case done == domain.InsertedNowhere:
			return missingSchema(to.Schema)
		case done != domain.InsertedNow:
			return exists(to.Name)
		}
		return audit(ctx, tx, s, action(kind, domain.TableRename, domain.ViewRename), row)
	})
}

// Access is how an engine reaches the workspace's files. Whom it may be given to is for the caller to decide.
func (c *Catalog) Access(ctx context.Context, s domain.Scope) (Access, error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return Access{}, err
	}
	return c.Files.Access(ctx, s.Workspace())
}
