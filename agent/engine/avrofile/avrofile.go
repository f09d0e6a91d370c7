// Package avrofile reads and writes manifests and manifest lists of Iceberg tables in their stored
// form.
package avrofile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
)

// File is a manifest list or a manifest. Values keep their stored form: days, microseconds and
// unscaled decimals.
type File struct {
	Header  map[string][]byte
	Schema  any // as decoded from JSON
	Records []map[string]any
	stored  *avro.Schema // without logical types
}

// Read decodes a file.
func Read(content []byte) (*File, error) {
	f := &File{}
	in, err := ocf.NewReader(bytes.NewReader(content), ocf.WithReaderSchemaFunc(func(in *ocf.Reader) (*avro.Schema, error) {
		f.Header = in.Metadata()
		if err := json.Unmarshal(f.Header["avro.schema"], &f.Schema); err != nil {
			return nil, err
		}
		stored, err := json.Marshal(withoutLogical(f.Schema))
		if err != nil {
			return nil, err
		}
		f.stored, err = avro.Parse(string(stored), avro.WithLaxNames(nil))
		return f.stored, err
	}), ocf.WithSchemaOpts(avro.WithLaxNames(nil)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	for {
		var record map[string]any
		if err := in.Decode(&record); errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return f, nil
		} else if err != nil {
			return nil, err
		}
		f.Records = append(f.Records, record)
	}
}

// withoutLogical removes the logical types from a JSON schema, so that values keep their stored
// form.
func withoutLogical(schema any) any {
	switch s := schema.(type) {
	case []any:
		all := make([]any, len(s))
		for i := range s {
			all[i] = withoutLogical(s[i])
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for k, v := range s {
			if k != "logicalType" {
				all[k] = withoutLogical(v)
			}
		}
		return all
	}
	return schema
}

// Encode writes records with the file's schema to a new file. content, if not empty, is the content
// property in its header.
func (f *File) Encode(content string, records []map[string]any) ([]byte, error) {
	var b bytes.Buffer
	header := map[string][]byte{}
	for k, v := range f.Header {
		if !strings.HasPrefix(k, "avro.") {
			header[k] = v
		}
	}
	if content != "" {
		header["content"] = []byte(content)
	}
	out, err := ocf.NewWriter(&b, f.stored, ocf.WithSchema(string(f.Header["avro.schema"])), ocf.WithMetadata(header))
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if err := out.Encode(r); err != nil {
			return nil, err
		}
	}
	err = out.Close() // flushes buffered records
	return b.Bytes(), err
}
