package trino

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Spooling is where Trino puts the rows of large results, for whoever reads them to fetch: in an object store alone.
type Spooling struct {
	Prefix string // such as s3://bucket/path/
	S3     S3     // with its keys
}

// segmentTime is how long rows that nobody has fetched are kept.
const segmentTime = "12h"

func (s *Spooling) properties() map[string]string {
	p := map[string]string{
		"spooling-manager.name": "filesystem", "fs.location": strings.TrimSuffix(s.Prefix, "/") + "/", "fs.segment.ttl": segmentTime,
		"fs.segment.encryption": "false", // which is by keys that the client sends to the store; the store's own encryption holds
		"fs.s3.enabled":         "true", "s3.region": s.S3.Region, "s3.path-style-access": fmt.Sprint(s.S3.PathStyle),
		"s3.aws-access-key": s.S3.AccessKey, "s3.aws-secret-key": s.S3.SecretKey,
	}
	if s.S3.Endpoint != "" {
		p["s3.endpoint"] = s.S3.Endpoint
	}
	return p
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

// segment reads one and says that it was read, after which it is removed.
func (q *query) segment(ctx context.Context, encoding string, s segment) ([]byte, error) {
	if s.Type == "inline" {
		text, err := base64.StdEncoding.DecodeString(s.Data)
		if err != nil {
			return nil, &LostError{err}
		}
		return unpack(encoding, text, s)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URI, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range s.Headers {
		r.Header[http.CanonicalHeaderKey(k)] = v
	}
	res, err := q.caller.client.Do(r) // the address alone opens it
	if err != nil {
		return nil, &LostError{err}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSegment))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, &LostError{fmt.Errorf("the store answered %d for a piece of the result: %w", res.StatusCode, err)}
	}
	if r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AckURI, nil); err == nil {
		_ = q.caller.do(r, nil) // else it is removed when its time is over
	}
	return unpack(encoding, text, s)
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
