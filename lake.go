package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// objectsDir is the directory of objects in the data directory.
const objectsDir = "objects"

// tablesAddress returns the default address of tables, next to --storage, which replicas share. For
// files it is a separate directory, because engines and tasks of other users enter it.
func (c *serveCommand) tablesAddress() string {
	if c.Tables != "" {
		return c.Tables
	}
	if dir, files := strings.CutPrefix(c.Storage, "file://"); files {
		if filepath.Base(dir) == objectsDir {
			return "file://" + filepath.Join(filepath.Dir(dir), "lake")
		}
		return "file://" + filepath.Clean(dir) + "-lake"
	}
	address, query, _ := strings.Cut(c.Storage, "?")
	address = strings.TrimSuffix(address, "/") + "/lake"
	if query != "" {
		address += "?" + query
	}
	return address
}

// openLake opens the Iceberg catalog over the storage of tables.
func openLake(ctx context.Context, c *serveCommand, db *database, log *slog.Logger, closing *closers) (*lake.Catalog, error) {
	files, err := objects.OpenLake(ctx, c.tablesAddress(), objects.LakeOptions{
		Shared: os.Geteuid() == 0, // then tasks and engines run as other users
		Report: func(err error) { log.Warn("the storage of tables", "error", err) },
	})
	if err != nil {
		return nil, fmt.Errorf("the storage of tables: %w", err)
	}
	closing.add(func() { _ = files.Close() })
	return lake.New(lake.Options{
		Store: store.For[lake.Tx](db.Store), Quick: db.Store, System: db.System(), Files: files, Clock: domain.SystemClock{},
		Report: func(err error) { log.Warn("the catalog", "error", err) },
	}), nil
}

// tableStorages returns the storage of a workspace's tables for engines.
type tableStorages struct{ files lake.Files }

// TableStorage implements statement.TableStorages.
func (t tableStorages) TableStorage(ctx context.Context, ws domain.WorkspaceID) (statement.TableStorage, error) {
	access, err := t.files.Access(ctx, ws)
	if err != nil || access.S3 == nil {
		return statement.TableStorage{Prefix: access.Prefix}, err
	}
	s3 := access.S3
	return statement.TableStorage{Prefix: access.Prefix, S3: &statement.S3Access{
		Endpoint: s3.Endpoint, Region: s3.Region, AccessKeyID: s3.AccessKeyID, SecretKey: s3.SecretKey, SessionToken: s3.SessionToken, PathStyle: s3.PathStyle,
	}}, nil
}

// sampleLake drops the tables that the sample created. It implements setup.SampleLake.
type sampleLake struct{ catalog *lake.Catalog }

// DropTables implements setup.SampleLake.
func (l sampleLake) DropTables(ctx context.Context, s domain.Scope, database, schema string, tables []string) error {
	for _, name := range tables {
		err := l.catalog.Drop(ctx, s, lake.Ref{Database: database, Schema: schema, Name: name}, lake.KindTable, true, lake.Key{})
		if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return err
		}
	}
	err := l.catalog.DropSchema(ctx, s, database, schema, lake.Key{})
	if lake.ReasonOf(err) == lake.NamespaceNotEmpty || domain.IsCode(err, domain.CodeNotFound) {
		return nil
	}
	return err
}
