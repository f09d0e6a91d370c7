package rest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProvider(t *testing.T) {
	w := newWorld(t)
	get := func() map[string]any { return w.call(w.ours.viewer, "GET", "/settings/provider", nil).object(200) }
	byDefault := map[string]any{"kind": "local", "region": "local", "role": "", "external_id": "", "updated_at": nil}
	require.Equal(t, byDefault, get())
	put := func(body string) reply { return w.call(w.ours.admin, "PUT", "/settings/provider", body) }
	for body, says := range map[string]string{
		`{}`:             `The field "kind" is required.`,
		`{"kind":""}`:    `The provider "" is not available`,
		`{"kind":"ec2"}`: `The provider "ec2" is not available; only "local" is.`,
		`{"kind":"ec2","region":"eu-1","role":"arn:aws:iam::1:role/x","external_id":"1"}`: `"ec2"`,
		`{"kind":"local","region":"eu-1"}`:                                                `The region is "eu-1"`,
		`{"kind":"local","role":"admin","external_id":"7"}`:                               `The role "admin" with the external id "7" cannot be assumed.`,
		`{"kind":"local","secret_key":"x"}`:                                               `There is no field "secret_key" here`,
	} {
		require.Contains(t, put(body).refused(http.StatusBadRequest), says, body)
		require.Equal(t, byDefault, get(), "nothing was changed")
	}
	w.call(w.ours.editor, "PUT", "/settings/provider", `{"kind":"local"}`).refused(http.StatusForbidden)

	saved := put(`{"kind":"local"}`).object(200)
	require.NotNil(t, saved["updated_at"])
	require.Equal(t, "local", saved["region"])
	require.Equal(t, saved, get())
	require.Nil(t, w.call(w.theirs.viewer, "GET", "/settings/provider", nil).object(200)["updated_at"])
}

func TestStorage(t *testing.T) {
	w := newWorld(t)
	get := func() map[string]any { return w.call(w.ours.viewer, "GET", "/settings/storage", nil).object(200) }
	byDefault := map[string]any{"url": w.storage, "role": "", "external_id": "", "updated_at": nil}
	require.Equal(t, byDefault, get())
	put := func(body map[string]any) reply { return w.call(w.ours.admin, "PUT", "/settings/storage", body) }
	for _, c := range []struct {
		body map[string]any
		says string
	}{
		{map[string]any{}, `The field "url" is required.`},
		{map[string]any{"url": ""}, "url"},
		{map[string]any{"url": "s3://bucket/prefix"}, `Storage of the kind "s3" is not supported`},
		{map[string]any{"url": "gs://bucket"}, `"gs"`},
		{map[string]any{"url": "file:///etc"}, "Of the server's files, only " + w.storage},
		{map[string]any{"url": w.storage, "role": "x"}, "takes no role"},
		{map[string]any{"url": w.storage, "external_id": "x"}, "no external id"},
	} {
		require.Contains(t, put(c.body).refused(http.StatusBadRequest), c.says)
		require.Equal(t, byDefault, get(), "nothing was changed")
	}
	w.call(w.ours.editor, "PUT", "/settings/storage", map[string]any{"url": w.storage}).refused(http.StatusForbidden)

	saved := put(map[string]any{"url": w.storage}).object(200)
	require.NotNil(t, saved["updated_at"])
	require.Equal(t, saved, get())
}
