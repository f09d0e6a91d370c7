package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// APIKey is a long-lived credential for CI and scripts.
type APIKey struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Hint       string `json:"hint" example:"svc_sk_9fQ2" doc:"How the secret begins."`
	Role       string `json:"role" enum:"viewer,editor,admin" doc:"At each use it is at most its maker's."`
	CreatedBy  string `json:"created_by" doc:"The user's id."`
	CreatedAt  Time   `json:"created_at"`
	ExpiresAt  *Time  `json:"expires_at" nullable:"true" doc:"An expired key is removed 30 days later."`
	RevokedAt  *Time  `json:"revoked_at" nullable:"true"`
	LastUsedAt *Time  `json:"last_used_at" nullable:"true" doc:"To the minute."`
}

// CreatedAPIKey is a new key with its secret.
type CreatedAPIKey struct {
	APIKey
	Secret string `json:"secret" example:"svc_sk_…" doc:"Shown once and not kept. Send it as Authorization: Bearer <secret>."`
}

// NewAPIKey is what a key is made from.
type NewAPIKey struct {
	Name      string     `json:"name"`
	Role      string     `json:"role,omitempty" enum:"viewer,editor,admin" doc:"At most one's own, which it is when left out."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"Left out or null: never."`
}

// APIKeyPath is the path of what concerns one key.
type APIKeyPath struct {
	ID string `path:"id" doc:"The key's id."`
}

func showAPIKey(k domain.APIKey) APIKey {
	return APIKey{
		ID: string(k.ID), Name: k.Name, Hint: k.Hint, Role: string(k.Role), CreatedBy: string(k.CreatedBy), CreatedAt: Time(k.CreatedAt),
		ExpiresAt: optionalTime(k.ExpiresAt), RevokedAt: optionalTime(k.RevokedAt), LastUsedAt: optionalTime(k.LastUsedAt),
	}
}

func (a *api) apiKeyRoutes() {
	const tag = "API keys"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/api-keys", OperationID: "list-api-keys", Tags: []string{tag},
		Summary: "List API keys, newest first", Description: "All of the workspace to an admin, to others their own.",
	}, a.listAPIKeys)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/settings/api-keys", OperationID: "create-api-key", Tags: []string{tag}, DefaultStatus: http.StatusCreated,
		Summary: "Mint an API key", Description: "Only a signed-in user makes keys, so that each has somebody to answer for it.",
	}, a.createAPIKey)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/settings/api-keys/{id}", OperationID: "revoke-api-key", Tags: []string{tag},
		Summary: "Revoke an API key from now on", Description: "It stays in the list. A second time is 409.", Errors: []int{http.StatusConflict},
	}, a.revokeAPIKey)
}

func (a *api) listAPIKeys(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[APIKey]], error) {
	keys, err := a.APIKeys.List(ctx, s, in.page())
	if err != nil {
		return nil, err
	}
	return list(keys, showAPIKey), nil
}

func (a *api) createAPIKey(ctx context.Context, s domain.Scope, in *struct {
	Body NewAPIKey `example:"{\"name\":\"ci\",\"role\":\"editor\",\"expires_at\":\"2027-01-01T00:00:00Z\"}"`
},
) (*answer[CreatedAPIKey], error) {
	key, secret, err := a.APIKeys.Create(ctx, s, domain.NewAPIKey{
		Name: in.Body.Name, Role: domain.Role(in.Body.Role), ExpiresAt: in.Body.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	return &answer[CreatedAPIKey]{CreatedAPIKey{APIKey: showAPIKey(key), Secret: secret}}, nil
}

func (a *api) revokeAPIKey(ctx context.Context, s domain.Scope, in *APIKeyPath) (*nothing, error) {
	_, err := a.APIKeys.Revoke(ctx, s, domain.APIKeyID(in.ID))
	return nil, err
}
