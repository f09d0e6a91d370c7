package trino

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Storage is how Trino opens the files of tables.
type Storage struct {
	Prefix string // of all that it may open there, with a slash at its end
	S3     *S3    // nil for files

	fence string // the file that holds it within the prefix
}

// S3 opens a bucket. Without keys the catalog gives those of each table.
type S3 struct {
	Endpoint, Region, AccessKey, SecretKey string
	PathStyle                              bool
}

// Database is one of the workspace's, as a catalog of Trino's.
type Database struct {
	Name      string
	Warehouse string // by which the catalog knows it: another one of that name is another warehouse
	Catalog   string // address of the Iceberg REST catalog
	Token     string // shown there where no statement asks
	Storage   Storage
}

// CatalogName is the name of a database in Trino, which has none with upper-case letters.
func CatalogName(database string) string { return strings.ToLower(database) }

// Reserved reports whether a database has a name that is one of Trino's own catalogs, so that it cannot be reached there.
func Reserved(database string) bool { return CatalogName(database) == "system" }

// conflictRetries is how often Trino commits anew to a table that others were faster at, where that needs nothing to be read again.
const conflictRetries = "10"

// minRetention is how young what maintenance removes may be at least: others may still write or read it.
const minRetention = "1d"

// properties of the catalog that a database is in Trino.
func (d Database) properties() map[string]string {
	p := map[string]string{
		"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": d.Catalog, "iceberg.rest-catalog.warehouse": d.Warehouse,
		"iceberg.rest-catalog.nested-namespace-enabled": "true",
		// Each statement comes with a token of its own, which the client gives in its place.
		"iceberg.rest-catalog.security": "OAUTH2", "iceberg.rest-catalog.oauth2.token": d.Token, "iceberg.rest-catalog.session": "USER",
		"iceberg.rest-catalog.oauth2.token-refresh-enabled": "false", "iceberg.rest-catalog.oauth2.server-uri": d.Catalog + "/none",
		"iceberg.max-commit-retry": conflictRetries,
		// A second commit after each write, whose failure would be one of a statement that has written.
		"iceberg.extended-statistics.collect-on-write": "false",
		"iceberg.expire-snapshots.min-retention":       minRetention, "iceberg.remove-orphan-files.min-retention": minRetention,
	}
	if s := d.Storage.S3; s != nil {
		maps.Copy(p, s.properties())
		p["s3.security-mapping.enabled"], p["s3.security-mapping.config-file"] = "true", d.Storage.fence
	} else {
		p["fs.hadoop.enabled"] = "true"
	}
	return p
}

func (s *S3) properties() map[string]string {
	p := map[string]string{"fs.native-s3.enabled": "true", "s3.region": s.Region, "s3.path-style-access": fmt.Sprint(s.PathStyle)}
	if s.Endpoint != "" {
		p["s3.endpoint"] = s.Endpoint
	}
	if s.AccessKey == "" {
		p["iceberg.rest-catalog.vended-credentials-enabled"] = "true"
		return p
	}
	p["s3.aws-access-key"], p["s3.aws-secret-key"] = s.AccessKey, s.SecretKey
	return p
}

func (d Database) create() string {
	p := d.properties()
	var with []string
	for _, k := range slices.Sorted(maps.Keys(p)) {
		with = append(with, quote(k)+" = "+literal(p[k]))
	}
	return "CREATE CATALOG " + quote(CatalogName(d.Name)) + " USING iceberg WITH (" + strings.Join(with, ", ") + ")"
}

// Reach makes the databases catalogs of Trino's, and drops those that are not in all any more. What a database that was dropped and made again, or a storage that
// is another now, have left is replaced.
func (s *Session) Reach(ctx context.Context, wanted []Database, all []string) error {
	s.server.catalogs.Lock()
	defer s.server.catalogs.Unlock()
	made := s.server.made
	for i := range wanted {
		if err := s.server.fence(&wanted[i].Storage); err != nil {
			return err
		}
	}
	for name, d := range made {
		i := slices.IndexFunc(wanted, func(w Database) bool { return CatalogName(w.Name) == name })
		stale := i >= 0 && wanted[i].create() != d.create()
		if !stale && slices.ContainsFunc(all, func(n string) bool { return CatalogName(n) == name }) {
			continue
		}
		if err := s.platform(ctx, "DROP CATALOG "+quote(name)); err != nil {
			return err
		}
		delete(made, name)
	}
	for _, d := range wanted {
		if _, ok := made[CatalogName(d.Name)]; ok {
			continue
		}
		if err := s.platform(ctx, d.create()); err != nil {
			return err
		}
		made[CatalogName(d.Name)] = d
	}
	return nil
}

// fence writes the file by which Trino opens nothing of a store but what is below the storage's prefix, whatever the files of its tables name. There is nothing secret in it.
func (s *Server) fence(storage *Storage) error {
	if storage.S3 == nil {
		return nil
	}
	text, err := json.Marshal(map[string]any{"mappings": []map[string]any{{"prefix": storage.Prefix, "useClusterDefault": true}}})
	if err != nil {
		return err
	}
	storage.fence = filepath.Join(s.o.Dir, fmt.Sprintf("fence-%x.json", sha256.Sum256(text)))
	if _, err := os.Stat(storage.fence); err == nil {
		return nil
	}
	part := storage.fence + ".part" // a node may be reading the file
	if err := errors.Join(os.WriteFile(part, text, 0o644), os.Rename(part, storage.fence)); err != nil {
		return fmt.Errorf("writing what Trino may open: %w", err)
	}
	return nil
}

// platform runs a statement as the platform.
func (s *Session) platform(ctx context.Context, query string) error {
	own := &Session{server: s.server, caller: s.server.caller(platformUser), address: s.address}
	_, err := own.Query(ctx, Statement{ID: platformUser, Query: query}, nil)
	return err
}

// database is that of a catalog's name.
func (s *Server) database(catalog string) string {
	s.catalogs.Lock()
	defer s.catalogs.Unlock()
	if d, ok := s.made[catalog]; ok {
		return d.Name
	}
	return catalog
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
func quote(s string) string   { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
