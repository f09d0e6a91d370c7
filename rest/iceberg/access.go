package iceberg

import (
	"maps"
	"strconv"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// credential gives access to the storage below a prefix.
type credential struct {
	Prefix string            `json:"prefix"`
	Config map[string]string `json:"config"`
}

// opening is how a client accesses the files of a table.
type opening struct {
	config      map[string]string
	credentials []credential
}

// delegated reports whether the client requests credentials and may have them. Only the platform's
// own engines may, with their statement's token.
func (c *call) delegated() bool {
	return c.scope.Actor().Kind == domain.ActorStatement && c.wants("X-Iceberg-Access-Delegation", "vended-credentials")
}

// opening returns the location of an S3 storage to every caller, and its keys if vend is set. Older
// clients read the keys from the configuration, newer ones from the credentials. A file storage
// needs neither.
func (f *face) opening(c *call, vend bool) (opening, error) {
	access, err := f.Catalog.Access(c.Context(), c.scope)
	if err != nil || access.S3 == nil {
		return opening{}, err
	}
	o := opening{config: located(access.S3)}
	if vend {
		keys := secrets(access.S3)
		maps.Copy(keys, o.config)
		o.config = keys
		o.credentials = []credential{{Prefix: access.Prefix, Config: keys}}
	}
	return o, nil
}

// located returns the location of an S3 storage, which is not secret.
func located(s *lake.S3Access) map[string]string {
	config := map[string]string{"s3.path-style-access": strconv.FormatBool(s.PathStyle)}
	if s.Endpoint != "" {
		config["s3.endpoint"] = s.Endpoint
	}
	if s.Region != "" {
		config["s3.region"], config["client.region"] = s.Region, s.Region
	}
	return config
}

func secrets(s *lake.S3Access) map[string]string {
	config := map[string]string{"s3.access-key-id": s.AccessKeyID, "s3.secret-access-key": s.SecretKey}
	if s.SessionToken != "" {
		config["s3.session-token"] = s.SessionToken
	}
	if !s.Expires.IsZero() {
		config["s3.session-token-expires-at-ms"] = strconv.FormatInt(s.Expires.UnixMilli(), 10)
	}
	return config
}

// loadCredentials answers with new credentials of a table's storage, or without credentials to a
// caller that may not have them.
func (f *face) loadCredentials(c *call) error {
	if _, err := f.Catalog.Table(c.Context(), c.scope, c.ref("table"), lake.KindTable); err != nil {
		return err
	}
	o, err := f.opening(c, c.scope.Actor().Kind == domain.ActorStatement)
	if err != nil {
		return err
	}
	if o.credentials == nil {
		o.credentials = []credential{}
	}
	return c.answer(map[string]any{"storage-credentials": o.credentials})
}
