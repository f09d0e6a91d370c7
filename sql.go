package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store/objects"
)

// objectsDir is where objects lie in the data directory.
const objectsDir = "objects"

// tablesAddress is where tables lie unless it is said: with --storage, which replicas share. Of files it is a directory beside it, since engines and tasks of other users
// go there.
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

// openLake makes the Iceberg catalog over the storage of tables.
func (s *server) openLake(ctx context.Context, clock domain.Clock) (*lake.Catalog, error) {
	files, err := objects.OpenLake(ctx, s.config.tablesAddress(), objects.LakeOptions{
		Shared: os.Geteuid() == 0, // then tasks and engines run as other users
		Report: func(err error) { s.log.Warn("the storage of tables", "error", err) },
	})
	if err != nil {
		return nil, fmt.Errorf("the storage of tables: %w", err)
	}
	s.closers = append(s.closers, func() { _ = files.Close() })
	return lake.New(lake.Options{
		Store: s.store, System: s.store.System(), Files: files, Clock: clock,
		Report: func(err error) { s.log.Warn("the catalog", "error", err) },
	}), nil
}

// tableStorages tells engines where tables lie.
type tableStorages struct{ files lake.Files }

// TableStorage implements domain.TableStorages.
func (t tableStorages) TableStorage(ctx context.Context, ws domain.WorkspaceID) (domain.TableStorage, error) {
	access, err := t.files.Access(ctx, ws)
	if err != nil || access.S3 == nil {
		return domain.TableStorage{Prefix: access.Prefix}, err
	}
	s3 := access.S3
	return domain.TableStorage{Prefix: access.Prefix, S3: &domain.S3Access{
		Endpoint: s3.Endpoint, Region: s3.Region, AccessKeyID: s3.AccessKeyID, SecretKey: s3.SecretKey, SessionToken: s3.SessionToken, PathStyle: s3.PathStyle,
	}}, nil
}
