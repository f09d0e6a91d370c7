package iceberg

import (
	"maps"
	"strconv"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// credential is what opens the storage below a prefix.
type credential struct {
	Prefix string            `json:"prefix"`
	Config map[string]string `json:"config"`
}

// opening is how a client reaches the files of a table.
type opening struct {
	config      map[string]string
	credentials []credential
}

// delegated says whether the client wants credentials, and is one that is given any: an engine of the platform's own, with the token of its statement.
func (c *call) delegated() bool {
	return c.scope.Actor().Kind == domain.ActorStatement && c.wants("X-Iceberg-Access-Delegation", "vended-credentials")
}

// opening tells everybody where an S3 storage is, and who may have them the keys to it. Older clients take them from the configuration, newer ones from
// the credentials. A storage of files needs neither.
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

// located is where an S3 storage is, which is no secret.
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

// loadCredentials answers with fresh credentials of a table's storage: with none to whoever is given none.
func (f *face) loadCredentials(c *call) error {
	if _, err := f.Catalog.Table(c.Context(), c.scope, c.ref("table"), domain.KindTable); err != nil {
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
