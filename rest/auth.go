package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

// Login is the body of a sign-in.
type Login struct {
	Email     string `json:"email" example:"ada@example.com"`
	Password  string `json:"password"`
	Workspace string `json:"workspace,omitempty" doc:"Id or name. Required for members of several workspaces."`
}

// SetUp is the body of a request that accepts an invitation by its one-time link.
type SetUp struct {
	Token    string `json:"token" doc:"The token of the one-time link, after ?token=."`
	Email    string `json:"email" example:"ada@example.com"`
	Name     string `json:"name,omitempty" doc:"Name of a new account. An account with a password keeps its name."`
	Password string `json:"password" doc:"The account's password. A first password has at least 12 characters."`
}

// PasswordChange is the body of a password change.
type PasswordChange struct {
	Current string `json:"current"`
	New     string `json:"new" doc:"At least 12 characters."`
}

// AccessToken is a new access token.
type AccessToken struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type" enum:"Bearer"`
	ExpiresIn   int    `json:"expires_in" doc:"In seconds." example:"3600"`
}

func accessToken(token string) *answer[AccessToken] {
	return &answer[AccessToken]{AccessToken{AccessToken: token, TokenType: "Bearer", ExpiresIn: int(auth.AccessTokenLife.Seconds())}}
}

// Me is the credential's owner.
type Me struct {
	Actor            Actor     `json:"actor"`
	Role             string    `json:"role" enum:"viewer,editor,admin"`
	Workspace        Workspace `json:"workspace"`
	User             *User     `json:"user,omitempty" doc:"Absent if the credential is not a user's."`
	SessionExpiresAt *Time     `json:"session_expires_at,omitempty" doc:"When the session can no longer be refreshed, and a login is needed."`
}

// User is a person with a password.
type User struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name"`
}

func showUser(u identity.User) User {
	return User{ID: string(u.ID), Email: u.Email, Name: u.Name}
}

func (a *api) authRoutes() {
	const tag = "Authentication"
	operatePublic(a, huma.Operation{
		Method: http.MethodPost, Path: "/auth/login", OperationID: "login", Tags: []string{tag}, Summary: "Sign in with e-mail and password",
		Errors: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests},
		Description: "Decided here: wrong credentials are 401, the same for an unknown e-mail and for a wrong password. Too many failures in a minute are 429 with Retry-After. " +
			"A member of several workspaces must name one.",
	}, a.login)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/auth/refresh", OperationID: "refresh", Tags: []string{tag}, Summary: "Get a new access token before the current one expires",
		Description: "Decided here: there is no body. The bearer is the token that is still valid, and the answer is that of a login. A session ends 30 days after its login, however often it is refreshed. An API key is 403: it needs no refresh.",
	}, a.refresh)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/auth/logout", OperationID: "logout", Tags: []string{tag}, Summary: "End the session at once, everywhere",
	}, a.logout)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/auth/me", OperationID: "me", Tags: []string{tag}, Summary: "Show the credential's owner",
	}, a.me)
	operatePublic(a, huma.Operation{
		Method: http.MethodPost, Path: "/auth/setup", OperationID: "set-up", Tags: []string{tag}, Summary: "Accept an invitation by its one-time link, and sign in",
		Errors: []int{http.StatusUnauthorized, http.StatusConflict, http.StatusTooManyRequests},
		Description: "A user without a password sets one. If the e-mail has an account, the password must be the account's, and does not change. A wrong password is 401, changes nothing, keeps the link valid " +
			"and counts as a failed login; too many are 429. An operator's link names no e-mail: it is 409 for a user without a password who is invited elsewhere.",
	}, a.setUp)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/auth/password", OperationID: "change-password", Tags: []string{tag},
		Summary: "Change one's password; one's other sessions end",
	}, a.changePassword)
}

func (a *api) login(ctx context.Context, in *struct{ Body Login }) (*answer[AccessToken], error) {
	signedIn, err := a.auth.Login(ctx, auth.Login{
		Email: in.Body.Email, Password: in.Body.Password, Workspace: in.Body.Workspace, Address: auth.ClientAddress(ctx),
	})
	if err != nil {
		return nil, err
	}
	return accessToken(signedIn.Token), nil
}

func (a *api) refresh(ctx context.Context, s domain.Scope, _ *nothing) (*answer[AccessToken], error) {
	token, err := a.auth.Refresh(ctx, s)
	if err != nil {
		return nil, err
	}
	return accessToken(token), nil
}

func (a *api) logout(ctx context.Context, s domain.Scope, _ *nothing) (*nothing, error) {
	return nil, a.auth.Logout(ctx, s)
}

func (a *api) me(ctx context.Context, s domain.Scope, _ *nothing) (*answer[Me], error) {
	workspace, err := a.Workspaces.Get(ctx, s)
	if err != nil {
		return nil, err
	}
	me := Me{Actor: showActor(s.Actor()), Role: string(s.Role()), Workspace: showWorkspace(workspace)}
	if s.Actor().Session != "" {
		session, err := a.auth.Session(ctx, s)
		if err != nil {
			return nil, err
		}
		user := showUser(session.User)
		me.User, me.SessionExpiresAt = &user, optionalTime(&session.ExpiresAt)
	}
	return &answer[Me]{me}, nil
}

func (a *api) setUp(ctx context.Context, in *struct{ Body SetUp }) (*answer[AccessToken], error) {
	signedIn, err := a.auth.SetUp(ctx, auth.SetUp{Token: in.Body.Token, Email: in.Body.Email, Name: in.Body.Name, Password: in.Body.Password})
	if err != nil {
		return nil, err
	}
	return accessToken(signedIn.Token), nil
}

func (a *api) changePassword(ctx context.Context, s domain.Scope, in *struct{ Body PasswordChange }) (*nothing, error) {
	_, err := a.auth.ChangePassword(ctx, s, in.Body.Current, in.Body.New)
	return nil, err
}
