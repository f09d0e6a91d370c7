package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // opens azblob://
	_ "gocloud.dev/blob/gcsblob"   // opens gs://
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// bucket is a bucket, or the part of it below a prefix.
type bucket struct {
	bucket *blob.Bucket
	prefix string      // with a slash at its end, or empty
	s3     *aws.Config // of S3
	path   bool        // S3's path style
}

// openBucket opens the bucket, and returns the prefix by which engines address it.
func openBucket(ctx context.Context, u *url.URL) (prefix string, b *bucket, err error) {
	b = &bucket{prefix: strings.Trim(u.Path, "/")}
	if b.prefix != "" {
		b.prefix += "/"
	}
	if u.Scheme == "s3" {
		err = b.openS3(ctx, u)
	} else {
		bare := url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: u.RawQuery}
		b.bucket, err = blob.OpenBucket(ctx, bare.String())
	}
	authority := u.Scheme + "://" + u.Host
	if u.Scheme == "azblob" {
		account := u.Query().Get("storage_account")
		if account == "" {
			account = os.Getenv("AZURE_STORAGE_ACCOUNT")
		}
		authority = "abfss://" + u.Host + "@" + account + ".dfs.core.windows.net"
	}
	return authority + "/" + b.prefix, b, err
}

func (b *bucket) openS3(ctx context.Context, u *url.URL) error {
	q := u.Query()
	options := []func(*config.LoadOptions) error{}
	if region := q.Get("region"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	if endpoint := q.Get("endpoint"); endpoint != "" {
		options = append(options, config.WithBaseEndpoint(endpoint))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return err
	}
	if cfg.Region == "" {
		return errors.New("the bucket has no region; add ?region=")
	}
	b.s3, b.path = &cfg, q.Get("s3ForcePathStyle") == "true" || q.Get("use_path_style") == "true"
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = b.path })
	b.bucket, err = s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{RequestChecksumCalculation: cfg.RequestChecksumCalculation})
	return err
}

func (b *bucket) close() error { return b.bucket.Close() }

func (b *bucket) access(ctx context.Context) (*lake.S3Access, error) {
	if b.s3 == nil {
		return nil, nil
	}
	keys, err := b.s3.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, domain.Errorf(domain.CodeUnavailable, "The storage's credentials are not available at the moment; try again.").Because(err)
	}
	a := &lake.S3Access{
		Region: b.s3.Region, AccessKeyID: keys.AccessKeyID, SecretKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, PathStyle: b.path,
		Endpoint: aws.ToString(b.s3.BaseEndpoint),
	}
	if keys.CanExpire {
		a.Expires = keys.Expires.UTC()
	}
	return a, nil
}

// asked translates the storage's error for the name.
func asked(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return missingFile(name, err)
	}
	return fmt.Errorf("the storage, for %s: %w", name, err)
}

func (b *bucket) read(ctx context.Context, name string) ([]byte, error) {
	r, err := b.bucket.NewReader(ctx, b.prefix+name, nil)
	if err != nil {
		return nil, asked(name, err)
	}
	defer r.Close()
	if r.Size() > maxWhole {
		return nil, tooLarge(name)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxWhole))
	return data, asked(name, err)
}

// write needs no partial file: an object exists whole or not at all.
func (b *bucket) write(ctx context.Context, name string, data []byte) error {
	err := b.bucket.WriteAll(ctx, b.prefix+name, data, &blob.WriterOptions{IfNotExist: true})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition || gcerrors.Code(err) == gcerrors.AlreadyExists {
		return domain.Errorf(domain.CodeConflict, "The file %q is there already.", name).Because(err)
	}
	return asked(name, err)
}

func (b *bucket) remove(ctx context.Context, name string) error {
	if err := b.bucket.Delete(ctx, b.prefix+name); gcerrors.Code(err) != gcerrors.NotFound {
		return asked(name, err)
	}
	return nil
}

func (b *bucket) list(ctx context.Context, dir string, fn func(lake.FileInfo) error) error {
	all := b.bucket.List(&blob.ListOptions{Prefix: b.prefix + strings.TrimSuffix(dir, "/") + "/"})
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return asked(dir, err)
		}
		if err := fn(lake.FileInfo{URI: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size, Modified: o.ModTime.UTC()}); err != nil {
			return err
		}
	}
}

func (b *bucket) straight(string) error { return nil }

func (b *bucket) makeDirs(string) error { return nil }

func (b *bucket) removeDirs(string) error { return nil }

// Bounds of reading objects, in bytes.
const (
	readWhole = 16 << 20 // an object up to this size is read at once
)

func (b *bucket) open(ctx context.Context, name string) (lake.File, error) {
	attributes, err := b.bucket.Attributes(ctx, b.prefix+name)
	if err != nil {
		return nil, asked(name, err)
	}
	o := &object{ctx: ctx, bucket: b, name: name, size: attributes.Size, modified: attributes.ModTime.UTC()}
	o.SectionReader = io.NewSectionReader(o.source(), 0, o.size)
	if o.size > readWhole {
		return o, nil
	}
	data, err := b.read(ctx, name)
	if err != nil {
		return nil, err
	}
	o.SectionReader = io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
	return o, nil
}

// object is an open object.
type object struct {
	*io.SectionReader
	ctx      context.Context //nolint:containedctx // io.ReaderAt has none
	bucket   *bucket
	name     string
	size     int64
	modified time.Time
}

// Size implements lake.File.
func (o *object) Size() int64 { return o.size }

// Modified implements lake.File.
func (o *object) Modified() time.Time { return o.modified }

// Close implements lake.File.
func (o *object) Close() error { return nil }

func (o *object) source() io.ReaderAt { return ranges{o} }

// ranges reads parts of an object.
type ranges struct{ *object }

// ReadAt implements io.ReaderAt.
func (r ranges) ReadAt(p []byte, at int64) (int, error) {
	part, err := r.bucket.bucket.NewRangeReader(r.ctx, r.bucket.prefix+r.name, at, int64(len(p)), nil)
	if err != nil {
		return 0, asked(r.name, err)
	}
	defer part.Close()
	n, err := io.ReadFull(part, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
