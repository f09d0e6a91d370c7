package rest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSetUp checks the answers to a one-time link: for a new user, for an account, and for the
// operator's link.
func TestSetUp(t *testing.T) {
	w := newWorld(t)
	editor := "editor@" + string(w.ours.id) + ".example"
	invite := func(email string) (id, token string) {
		made := w.call(w.theirs.admin, "POST", "/settings/members", map[string]any{"email": email, "role": "editor"}).object(201)
		require.NotContains(t, made, "accepted_at")
		id, _ = made["id"].(string)
		token, _ = made["setup_token"].(string)
		require.NotEmpty(t, token)
		return id, token
	}
	setUp := func(token, email, password string) reply {
		return w.call("", "POST", "/auth/setup", map[string]any{"token": token, "email": email, "password": password})
	}
	accepted := func(id string) bool {
		for _, m := range w.call(w.theirs.admin, "GET", "/settings/members?limit=200", nil).data(200) {
			if member, _ := m.(map[string]any); member["id"] == id {
				return member["accepted_at"] != nil
			}
		}
		require.Fail(t, "not a member: "+id)
		return false
	}

	id, token := invite(editor)
	require.False(t, accepted(id))
	w.call("", "POST", "/auth/login", map[string]any{"email": editor, "password": password, "workspace": "theirs"}).refused(400)
	setUp(token, editor, "not the password").refused(401)
	setUp(token, editor, "x").refused(401)
	setUp(token, "x"+editor, password).refused(400)
	require.False(t, accepted(id))
	w.call("", "POST", "/auth/login", map[string]any{"email": editor, "password": password}).object(200)
	in, _ := setUp(token, editor, password).object(200)["access_token"].(string)
	require.True(t, accepted(id))
	workspace, _ := w.call(in, "GET", "/auth/me", nil).object(200)["workspace"].(map[string]any)
	require.Equal(t, "theirs", workspace["name"])
	setUp(token, editor, password).refused(400)
	w.call(w.theirs.admin, "POST", "/settings/members", map[string]any{"email": editor, "role": "editor"}).refused(409)
	w.call("", "POST", "/auth/login", map[string]any{"email": editor, "password": password}).refused(400)
	w.call("", "POST", "/auth/login", map[string]any{"email": editor, "password": password, "workspace": "theirs"}).object(200)

	_, old := invite("new@example.com")
	id, token = invite("new@example.com")
	setUp(old, "new@example.com", password).refused(400)
	setUp(token, "new@example.com", "short").refused(400)
	_, _, credentials, err := w.instance.CreateWorkspace(t.Context(), "third")
	require.NoError(t, err)
	setUp(credentials.SetUpToken, "new@example.com", password).refused(409)
	setUp(credentials.SetUpToken, editor, "not the password").refused(401)
	in, _ = setUp(credentials.SetUpToken, editor, password).object(200)["access_token"].(string)
	require.Equal(t, "admin", w.call(in, "GET", "/auth/me", nil).object(200)["role"])
	setUp(token, "new@example.com", password).object(200)
	require.True(t, accepted(id))

	viewer := "viewer@" + string(w.ours.id) + ".example"
	_, token = invite(viewer)
	for range 10 {
		setUp(token, viewer, "not the password").refused(401)
	}
	limited := setUp(token, viewer, password)
	limited.refused(429)
	require.NotEmpty(t, limited.header.Get("Retry-After"))
}
