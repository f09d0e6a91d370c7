package trino

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/millpond/millpond/agent"
)

// spooling is the location in an object store where Trino writes large results for clients to
// fetch.
type spooling struct {
	location string // such as s3://bucket/path/
	s3       agent.S3Storage
}

// spoolDir is a directory below a workspace's prefix. Tables are at least two directories deep
// there, so no table contains it.
const spoolDir = ".trino-spool/"

// spooling returns the location of results in a storage. It returns nil if the storage is files or
// has expiring keys.
func (s Storage) spooling() *spooling {
	if s.S3 == nil || s.S3.AccessKeyID == "" {
		return nil
	}
	return &spooling{location: s.Prefix + spoolDir, s3: *s.S3}
}

// is reports whether both are the same location with the same keys.
func (s *spooling) is(other *spooling) bool { return s != nil && other != nil && *s == *other }

// segmentTime is how long unfetched rows are stored.
const segmentTime = "12h"

// The keys are passed in the environment, so that no file contains them.
const (
	accessKeyEnv = "SPOOLING_ACCESS_KEY"
	secretKeyEnv = "SPOOLING_SECRET_KEY"
)

func (s *spooling) properties() map[string]string {
	p := map[string]string{
		"spooling-manager.name": "filesystem", "fs.location": s.location, "fs.segment.ttl": segmentTime,
		// Encryption uses keys that the client sends to the store. The store's own encryption
		// applies.
		"fs.segment.encryption": "false",
		"fs.s3.enabled":         "true", "s3.region": s.s3.Region, "s3.path-style-access": fmt.Sprint(s.s3.PathStyle),
		"s3.aws-access-key": "${ENV:" + accessKeyEnv + "}", "s3.aws-secret-key": "${ENV:" + secretKeyEnv + "}",
	}
	if s.s3.Endpoint != "" {
		p["s3.endpoint"] = s.s3.Endpoint
	}
	return p
}

func (s *spooling) environment() []string {
	if s == nil {
		return nil
	}
	return []string{accessKeyEnv + "=" + s.s3.AccessKeyID, secretKeyEnv + "=" + s.s3.SecretKey}
}

// encodings are the supported encodings of segments, by preference.
const encodings = "json+zstd,json"

// spooledPage is the data of a page with rows in segments.
type spooledPage struct {
	Encoding string
	Segments []segment
}

// segment is a part of a result, inline in the page or at a signed address.
type segment struct {
	Type     string // inline or spooled
	Data     string // of an inline segment, in base64
	URI      string
	AckURI   string              `json:"ackUri"`
	Headers  map[string][]string // required by the store
	Metadata struct {
		Uncompressed json.Number `json:"uncompressedSize"` // only of a compressed segment
	}
}

// maxSegment bounds a segment, in bytes.
const maxSegment = 1 << 30

// segment reads a segment and acknowledges it, so that Trino removes it.
func (q *query) segment(ctx context.Context, encoding string, s segment) ([]byte, error) {
	if s.Type == "inline" {
		text, err := base64.StdEncoding.DecodeString(s.Data)
		if err != nil {
			return nil, &LostError{err}
		}
		return unpack(encoding, text, s)
	}
	text, err := q.download(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("a part of the result cannot be read from the storage, where Trino wrote it: %w", err)
	}
	q.release(ctx, s)
	return unpack(encoding, text, s)
}

// The download of a segment is retried this often, after pauses that double.
const (
	segmentTries = 5
	segmentPause = 200 * time.Millisecond
)

// download fetches a segment with its signed address only.
func (q *query) download(ctx context.Context, s segment) ([]byte, error) {
	for try := 0; ; try++ {
		text, again, err := q.downloadOnce(ctx, s)
		if err == nil || !again || try+1 == segmentTries {
			return text, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(segmentPause << try):
		}
	}
}

// downloadOnce also reports whether a retry may succeed. Its errors contain neither the store's
// message nor the address, because both reveal keys.
func (q *query) downloadOnce(ctx context.Context, s segment) (text []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URI, nil)
	if err != nil {
		return nil, false, errors.New("its address is invalid")
	}
	for k, v := range s.Headers {
		r.Header[http.CanonicalHeaderKey(k)] = v
	}
	res, err := q.caller.store.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, true, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests, fmt.Errorf("the store answers with %s", res.Status)
	}
	text, err = io.ReadAll(io.LimitReader(res.Body, maxSegment))
	return text, true, err
}

// release removes segments that are no longer read. Trino removes the others after segmentTime.
func (q *query) release(ctx context.Context, all ...segment) {
	for _, s := range all {
		if s.AckURI == "" {
			continue // an inline segment
		}
		if r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AckURI, nil); err == nil {
			_ = q.caller.do(r, nil)
		}
	}
}

// abandonTime bounds how long the end of a statement waits for the release of unread segments.
const abandonTime = 300 * time.Millisecond

// abandon releases unread segments, even after a cancellation.
func (q *query) abandon(all []segment) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTime)
	defer cancel()
	q.release(ctx, all...)
}

// unpack decompresses a segment. Trino leaves segments uncompressed that would not shrink.
func unpack(encoding string, text []byte, s segment) ([]byte, error) {
	if encoding != "json+zstd" || s.Metadata.Uncompressed == "" {
		return text, nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxSegment))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	plain, err := d.DecodeAll(text, nil)
	if err != nil {
		return nil, &LostError{fmt.Errorf("a part of the result cannot be unpacked: %w", err)}
	}
	return plain, nil
}
