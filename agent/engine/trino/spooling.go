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
)

// spooling is where Trino puts the rows of large results, for whoever reads them to fetch: in an object store alone.
type spooling struct {
	location string // such as s3://bucket/path/
	s3       S3
}

// spoolDir is below a workspace's prefix. Locations of tables are at least two directories deep there, so that it is never in one.
const spoolDir = ".trino-spool/"

// spooling is where results go that lie beside the tables of a storage; nil where that is none, as it is files, or is opened with keys that expire.
func (s Storage) spooling() *spooling {
	if s.S3 == nil || s.S3.AccessKey == "" {
		return nil
	}
	return &spooling{location: s.Prefix + spoolDir, s3: *s.S3}
}

// is reports whether both are the same place, opened with the same keys.
func (s *spooling) is(other *spooling) bool { return s != nil && other != nil && *s == *other }

// segmentTime is how long rows that nobody has fetched are kept.
const segmentTime = "12h"

// The environment has the keys, so that no file does.
const (
	accessKeyEnv = "SPOOLING_ACCESS_KEY"
	secretKeyEnv = "SPOOLING_SECRET_KEY"
)

func (s *spooling) properties() map[string]string {
	p := map[string]string{
		"spooling-manager.name": "filesystem", "fs.location": s.location, "fs.segment.ttl": segmentTime,
		"fs.segment.encryption": "false", // which is by keys that the client sends to the store; the store's own encryption holds
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
	return []string{accessKeyEnv + "=" + s.s3.AccessKey, secretKeyEnv + "=" + s.s3.SecretKey}
}

// encodings are those of segments that are read here, the best first.
const encodings = "json+zstd,json"

// spooledPage is the data of a page whose rows lie elsewhere.
type spooledPage struct {
	Encoding string
	Segments []segment
}

// segment is a piece of a result: in the page itself, or at an address that is signed.
type segment struct {
	Type     string // inline or spooled
	Data     string // of the first, in base64
	URI      string
	AckURI   string              `json:"ackUri"`
	Headers  map[string][]string // that the store wants
	Metadata struct {
		Uncompressed json.Number `json:"uncompressedSize"` // of one that is compressed
	}
}

// maxSegment bounds a segment, in bytes.
const maxSegment = 1 << 30

// segment reads one, and says that it was read, after which it is removed.
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
		return nil, fmt.Errorf("a piece of the result cannot be read from the storage, where Trino has put it: %w", err)
	}
	q.release(ctx, s)
	return unpack(encoding, text, s)
}

// A segment that the store does not give at once is asked for so often, after pauses that double.
const (
	segmentTries = 5
	segmentPause = 200 * time.Millisecond
)

// download fetches a segment, by the address alone.
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

// downloadOnce also reports whether another try may bring what this one did not. What the store says stays here, as the address does: both tell of keys.
func (q *query) downloadOnce(ctx context.Context, s segment) (text []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URI, nil)
	if err != nil {
		return nil, false, errors.New("its address is none")
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

// release has segments removed that are not read any more. One that is not is removed when its time is over.
func (q *query) release(ctx context.Context, all ...segment) {
	for _, s := range all {
		if s.AckURI == "" {
			continue // it lies nowhere
		}
		if r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AckURI, nil); err == nil {
			_ = q.caller.do(r, nil)
		}
	}
}

// abandonTime bounds how long the end of a statement waits until what nobody will read is released.
const abandonTime = 300 * time.Millisecond

// abandon releases what nobody will read, also where the statement was ended.
func (q *query) abandon(all []segment) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTime)
	defer cancel()
	q.release(ctx, all...)
}

// unpack undoes the compression, which is left out where a segment would not be smaller by it.
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
		return nil, &LostError{fmt.Errorf("a piece of the result cannot be unpacked: %w", err)}
	}
	return plain, nil
}
