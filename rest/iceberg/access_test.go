package iceberg_test

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
)

// attempts are requests for every endpoint, in a working order, with the status for a permitted
// caller.
type attempt struct {
	method, path string
	body         any
	want         int
	writes       bool
}

func (w *world) attempts(t tenant) []attempt {
	ns := func(path string) string { return w.ns(t, path) }
	at := func(name string) object { return object{"namespace": []string{"public"}, "name": name} }
	part := setting("k", "v")
	part["identifier"] = at("t2")
	return []attempt{
		{"GET", ns(""), nil, 200, false},
		{"POST", ns(""), object{"namespace": []string{"s"}}, 200, true},
		{"GET", ns("/public"), nil, 200, false},
		{"HEAD", ns("/public"), nil, 204, false},
		{"POST", ns("/public/properties"), object{}, 200, true},
		{"DELETE", ns("/s"), nil, 204, true},
		{"GET", ns("/public/tables"), nil, 200, false},
		{"POST", ns("/public/tables"), object{"name": "t1", "schema": columns}, 200, true},
		{"GET", ns("/public/tables/t0"), nil, 200, false},
		{"HEAD", ns("/public/tables/t0"), nil, 204, false},
		{"POST", ns("/public/tables/t0"), setting("k", "v"), 200, true},
		{"GET", ns("/public/tables/t0/credentials"), nil, 200, false},
		{"POST", ns("/public/tables/t0/metrics"), object{"report-type": "scan-report"}, 204, false},
		{"POST", "/v1/" + t.prefix + "/tables/rename", object{"source": at("t1"), "destination": at("t2")}, 204, true},
		{"POST", "/v1/" + t.prefix + "/transactions/commit", object{"table-changes": []any{part}}, 204, true},
		{"DELETE", ns("/public/tables/t2"), nil, 204, true},
		{"POST", ns("/public/register"), object{"name": "r", "metadata-location": "file:///nowhere"}, 400, true},
		{"GET", ns("/public/views"), nil, 200, false},
		{"POST", ns("/public/views"), viewOf("v1", "SELECT 1"), 200, true},
		{"GET", ns("/public/views/v0"), nil, 200, false},
		{"HEAD", ns("/public/views/v0"), nil, 204, false},
		{"POST", ns("/public/views/v0"), object{"updates": setting("k", "v")["updates"]}, 200, true},
		{"POST", "/v1/" + t.prefix + "/views/rename", object{"source": at("v1"), "destination": at("v2")}, 204, true},
		{"DELETE", ns("/public/views/v2"), nil, 204, true},
		{"POST", ns("/public/register-view"), object{"name": "r", "metadata-location": "file:///nowhere"}, 400, true},
	}
}

// TestWhoMayDoWhat calls every endpoint with every kind of credential.
func TestWhoMayDoWhat(t *testing.T) {
	w := newWorld(t)
	endpoints, _ := w.call(w.ours.viewer, "GET", "/v1/config", nil).object(200)["endpoints"].([]any)
	require.Len(t, w.attempts(w.ours), len(endpoints), "every endpoint is tried")
	w.table(w.ours, "t0")
	w.call(w.ours.admin, "POST", w.ns(w.ours, "/public/views"), viewOf("v0", "SELECT 1")).object(200)
	revoked, id := w.apiKey(w.ours.editor)
	exchanged := w.token(revoked)
	_, err := w.apiKeys.Revoke(t.Context(), w.ours.scope, id)
	require.NoError(t, err)
	stranger := w.member(w.ours, "gone", domain.RoleEditor)
	scope, err := w.auth.Bearer(t.Context(), stranger)
	require.NoError(t, err)
	require.NoError(t, w.auth.Logout(t.Context(), scope))

	writing, reading := w.statement(w.ours), w.reading(w.ours)
	nobody := map[string]string{
		"none": "", "nonsense": "None", "revoked key": revoked, "of a revoked key": exchanged, "signed out": stranger, "unknown run": auth.RunTokenPrefix + "a.b.c",
		"unknown statement": auth.StatementTokenPrefix + "a.b.c", "unknown exchanged": auth.KeyTokenPrefix + "a~b~99999999999.b.c",
	}
	for who, token := range nobody {
		for _, a := range append(w.attempts(w.ours), attempt{"GET", "/v1/config", nil, 200, false}) {
			r := w.call(token, a.method, a.path, a.body)
			require.Equal(t, 401, r.status, "%s: %s %s", who, a.method, a.path)
			require.Equal(t, `Bearer realm="millpond"`, r.header.Get("WWW-Authenticate"))
			if a.method != "HEAD" {
				r.refused(401, "NotAuthorizedException")
			}
		}
	}
	for _, a := range w.attempts(w.ours) {
		r := w.call(w.theirs.admin, a.method, a.path, a.body)
		switch {
		case a.want == 400: // a location outside of the workspace is refused first
			r.refused(400, "BadRequestException")
		case a.method == "HEAD":
			require.Equal(t, 404, r.status, "another workspace: %s %s", a.method, a.path)
		default:
			r.refused(404, "NoSuchWarehouseException")
		}
		require.Equal(t, 403, w.call(w.ours.agentToken, a.method, a.path, a.body).status, "an agent: %s %s", a.method, a.path)
		for who, token := range map[string]string{"a viewer": w.ours.viewer, "an editor's statement that reads": reading} {
			r = w.call(token, a.method, a.path, a.body)
			if a.writes {
				r.refused(403, "ForbiddenException")
			} else {
				require.Equal(t, a.want, r.status, "%s: %s %s: %s", who, a.method, a.path, r.body)
			}
		}
	}
	exchange := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {reading}}
	require.Equal(t, reading, w.call("", "POST", "/v1/oauth/tokens", exchange).object(200)["access_token"], "an exchange adds no rights")
	require.NotEqual(t, 403, w.call(writing, "POST", w.ns(w.ours, "/public/views"), viewOf("by_statement", "SELECT 1")).status)
	forged := auth.StatementTokenPrefix + strings.TrimPrefix(reading, auth.ReadingTokenPrefix)
	w.call(forged, "GET", "/v1/config", nil).refused(401, "NotAuthorizedException")
	for _, token := range []string{w.ours.editor, w.ours.key, w.token(w.ours.key)} {
		for _, a := range w.attempts(w.ours) {
			r := w.call(token, a.method, a.path, a.body)
			require.Equal(t, a.want, r.status, "%s %s: %s", a.method, a.path, r.body)
		}
	}
	w.clock.advance(2 * auth.AccessTokenLife)
	w.call(w.ours.editor, "GET", "/v1/config", nil).refused(401, "NotAuthorizedException")
	w.call(w.ours.key, "GET", "/v1/config", nil).object(200)
}

// credentials asks for a token with a secret.
func credentials(secret string) url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "client_id": {"anything"}, "client_secret": {secret}, "scope": {"catalog"}}
}

// token is exchanged for an API key.
func (w *world) token(key string) string {
	w.t.Helper()
	token, _ := w.call("", "POST", "/v1/oauth/tokens", credentials(key)).object(200)["access_token"].(string)
	return token
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	post := func(form any, headers ...string) reply {
		return w.call("", "POST", "/v1/oauth/tokens", form, headers...)
	}
	granted := post(credentials(w.ours.key)).object(200)
	token, _ := granted["access_token"].(string)
	require.True(t, strings.HasPrefix(token, auth.KeyTokenPrefix))
	require.NotContains(t, token, w.ours.key)
	require.Equal(t, object{
		"access_token": token, "token_type": "bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "expires_in": 3600.0, "scope": "catalog",
	}, granted)
	w.call(token, "GET", "/v1/config", nil).object(200)
	basic := base64.StdEncoding.EncodeToString([]byte("whoever:" + w.ours.key))
	post(url.Values{"grant_type": {"client_credentials"}}, "Authorization", "Basic "+basic).object(200)

	exchange := func(subject string) url.Values {
		return url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {subject},
			"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "scope": {"catalog"},
		}
	}
	w.clock.advance(auth.KeyTokenLife - time.Minute)
	next, _ := post(exchange(token), "Authorization", "Bearer "+token).object(200)["access_token"].(string)
	w.clock.advance(2 * time.Minute)
	w.call(token, "GET", "/v1/config", nil).refused(401, "NotAuthorizedException")
	w.call(next, "GET", "/v1/config", nil).object(200)
	require.Equal(t, "invalid_client", post(exchange(token)).object(401)["error"], "an expired token is not renewed")
	post(exchange(token), "Authorization", "Basic "+basic).object(200) // but renewed by its API key
	post(exchange(w.ours.key)).object(200)
	w.call(w.ours.admin, "GET", "/v1/config", nil).refused(401, "NotAuthorizedException")

	for form, want := range map[string]struct {
		status int
		code   string
	}{
		"":                              {400, "invalid_request"},
		"grant_type=password":           {400, "unsupported_grant_type"},
		"grant_type=client_credentials": {401, "invalid_client"},
		"grant_type=client_credentials&client_secret=x":        {401, "invalid_client"},
		"grant_type=client_credentials&client_secret=svc_sk_x": {401, "invalid_client"},
		"grant_type=client_credentials&client_secret=" + next:  {401, "invalid_client"},
		"grant_type=client_credentials&grant_type=x":           {400, "invalid_request"},
		"grant_type=%zz": {400, "invalid_request"},
		"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange":        {400, "invalid_request"},
		exchange(w.ours.agentToken).Encode():                                          {401, "invalid_client"},
		exchange("x").Encode():                                                        {401, "invalid_client"},
		exchange(strings.Replace(next, "~", "x~", 1)).Encode():                        {401, "invalid_client"},
		"grant_type=client_credentials&client_secret=" + strings.Repeat("x", 100_000): {413, "invalid_request"},
	} {
		r := post(form, "Content-Type", "application/x-www-form-urlencoded")
		v := r.object(want.status)
		require.Equal(t, want.code, v["error"], "%.80s", form)
		require.NotEmpty(t, v["error_description"])
		require.Len(t, v, 2)
	}
	require.Equal(t, "invalid_request", post("{}").object(415)["error"])

	_, err := w.apiKeys.Revoke(t.Context(), w.ours.scope, w.ours.keyID)
	require.NoError(t, err)
	w.call(next, "GET", "/v1/config", nil).refused(401, "NotAuthorizedException")
	post(exchange(next)).object(401)
	post(credentials(w.ours.key)).object(401)
}

// TestWhoeverSignedInRenewsTheirToken: clients exchange an access token before it expires.
func TestWhoeverSignedInRenewsTheirToken(t *testing.T) {
	w := newWorld(t)
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {w.ours.viewer}}
	w.clock.advance(30 * time.Minute)
	token, _ := w.call("", "POST", "/v1/oauth/tokens", form).object(200)["access_token"].(string)
	w.clock.advance(45 * time.Minute)
	w.call(token, "GET", "/v1/config", nil).object(200)
	w.call(token, "POST", w.ns(w.ours, ""), object{"namespace": []string{"x"}}).refused(403, "ForbiddenException")
}

// bucket is local files that claim to be in S3.
type bucket struct {
	lake.Files
	access lake.S3Access
}

func (b bucket) Access(ctx context.Context, ws domain.WorkspaceID) (lake.Access, error) {
	a, err := b.Files.Access(ctx, ws)
	a.S3 = &b.access
	return a, err
}

func (w *world) bucket(s lake.S3Access) {
	b := bucket{w.catalog.Files, s}
	w.catalog.Files = b
}

// TestCredentialsAreTheEnginesAlone: every caller gets the location of an S3 storage, and only an
// engine that asks for its keys gets them.
func TestCredentialsAreTheEnginesAlone(t *testing.T) {
	w := newWorld(t)
	w.table(w.ours, "t")
	expires := time.UnixMilli(1_900_000_000_000)
	w.bucket(lake.S3Access{Endpoint: "http://s3.example", Region: "eu-1", AccessKeyID: "AK", SecretKey: "SK", SessionToken: "ST", PathStyle: true, Expires: expires})
	path := w.ns(w.ours, "/public/tables/t")
	where := object{"s3.endpoint": "http://s3.example", "s3.region": "eu-1", "client.region": "eu-1", "s3.path-style-access": "true"}
	keys := object{"s3.access-key-id": "AK", "s3.secret-access-key": "SK", "s3.session-token": "ST", "s3.session-token-expires-at-ms": "1900000000000"}
	for name, value := range where {
		keys[name] = value
	}
	statement := w.statement(w.ours)
	ask := []string{"X-Iceberg-Access-Delegation", "remote-signing, Vended-Credentials"}
	for who, token := range map[string]string{"admin": w.ours.admin, "key": w.ours.key, "exchanged": w.token(w.ours.key)} {
		v := w.call(token, "GET", path, nil, ask...).object(200)
		require.Equal(t, where, v["config"], who)
		require.NotContains(t, v, "storage-credentials", who)
		require.Equal(t, object{"storage-credentials": []any{}}, w.call(token, "GET", path+"/credentials", nil, ask...).object(200))
	}
	require.Equal(t, where, w.call(statement, "GET", path, nil).object(200)["config"], "credentials require a request for them")
	vended := w.call(statement, "GET", path, nil, ask...)
	v := vended.object(200)
	require.Equal(t, keys, v["config"])
	credentials, _ := v["storage-credentials"].([]any)
	require.Len(t, credentials, 1)
	require.Equal(t, keys, credentials[0].(object)["config"])
	require.Contains(t, credentials[0].(object)["prefix"], string(w.ours.id))
	require.Equal(t, v["storage-credentials"], w.call(statement, "GET", path+"/credentials", nil).object(200)["storage-credentials"])
	require.NotEqual(t, vended.header.Get("ETag"), w.call(statement, "GET", path, nil).header.Get("ETag"))
	made := w.call(statement, "POST", w.ns(w.ours, "/public/tables"), object{"name": "u", "schema": columns, "stage-create": true}, ask...).object(200)
	require.Equal(t, keys, made["config"])
}
