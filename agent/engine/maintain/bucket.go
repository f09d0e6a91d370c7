package maintain

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	iceio "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // registers s3: storages

	"github.com/millpond/millpond/agent"
)

// bucket is a backend in S3.
type bucket struct {
	prefix string
	of     interface {
		iceio.WriteFileIO
		iceio.ListableIO
	}
}

func openBucket(ctx context.Context, s agent.Storage) (*bucket, error) {
	properties := map[string]string{
		iceio.S3Region: s.S3.Region, iceio.S3AccessKeyID: s.S3.AccessKeyID, iceio.S3SecretAccessKey: s.S3.SecretKey,
		iceio.S3ForceVirtualAddressing: strconv.FormatBool(!s.S3.PathStyle),
	}
	if s.S3.SessionToken != "" {
		properties[iceio.S3SessionToken] = s.S3.SessionToken
	}
	if s.S3.Endpoint != "" {
		properties[iceio.S3EndpointURL] = s.S3.Endpoint
	}
	opened, err := iceio.LoadFS(ctx, properties, s.Prefix)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace's storage: %w", err)
	}
	b := &bucket{prefix: s.Prefix}
	var ok bool
	if b.of, ok = opened.(interface {
		iceio.WriteFileIO
		iceio.ListableIO
	}); !ok {
		return nil, fmt.Errorf("iceberg-go cannot list %T", opened)
	}
	return b, nil
}

func (b *bucket) close() {}

func (b *bucket) open(name string) (iceio.File, error) { return b.of.Open(b.prefix + name) }

func (b *bucket) create(name string) (iceio.FileWriter, error) { return b.of.Create(b.prefix + name) }

func (b *bucket) remove(name string) error { return b.of.Remove(b.prefix + name) }

func (b *bucket) walk(dir string, each func(name string, of fs.FileInfo) error) error {
	return b.of.WalkDir(b.prefix+strings.TrimSuffix(dir, "/"), func(uri string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		of, err := entry.Info()
		if err != nil {
			return err
		}
		return each(strings.TrimPrefix(uri, b.prefix), of)
	})
}
