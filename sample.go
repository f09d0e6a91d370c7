package main

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// sampleLake drops what the sample has made. It implements domain.SampleLake.
type sampleLake struct{ catalog *lake.Catalog }

// DropTables implements domain.SampleLake.
func (l sampleLake) DropTables(ctx context.Context, s domain.Scope, database, schema string, tables []string) error {
	for _, name := range tables {
		err := l.catalog.Drop(ctx, s, lake.Ref{Database: database, Schema: schema, Name: name}, domain.KindTable, true, lake.Key{})
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
