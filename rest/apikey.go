package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

// APIKey is a long-lived credential for CI and scripts.
type APIKey struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Hint       string `json:"hint" example:"svc_sk_9fQ2" doc:"The first characters of the secret."`
	Role       string `json:"role" enum:"viewer,editor,admin" doc:"At each use it is at most the creator's role."`
	CreatedBy  string `json:"created_by" doc:"The user's id."`
	CreatedAt  Time   `json:"created_at"`
	ExpiresAt  *Time  `json:"expires_at" nullable:"true" doc:"An expired key is removed 30 days later."`
	RevokedAt  *Time  `json:"revoked_at" nullable:"true"`
	LastUsedAt *Time  `json:"last_used_at" nullable:"true" doc:"Precise to the minute."`
}

// CreatedAPIKey is a new key with its secret.
type CreatedAPIKey struct {
	APIKey
	Secret string `json:"secret" example:"svc_sk_…" doc:"Shown once and not stored. Send it as Authorization: Bearer <secret>."`
}

// NewAPIKey is the body of a request to create an API key.
type NewAPIKey struct {
	Name      string     `json:"name"`
	Role      string     `json:"role,omitempty" enum:"viewer,editor,admin" doc:"At most one's own role. Defaults to viewer."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"Absent or null: the key never expires."`
}

// APIKeyPath is the path of operations on one key.
type APIKeyPath struct {
	ID string `path:"id" doc:"The key's id."`
}

func showAPIKey(k identity.APIKey) APIKey {
	return APIKey{
		ID: string(k.ID), Name: k.Name, Hint: k.Hint, Role: string(k.Role), CreatedBy: string(k.CreatedBy), CreatedAt: Time(k.CreatedAt),
		ExpiresAt: optionalTime(k.ExpiresAt), RevokedAt: optionalTime(k.RevokedAt), LastUsedAt: optionalTime(k.LastUsedAt),
	}
}

func (a *api) apiKeyRoutes() {
	const tag = "API keys"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/api-keys", OperationID: "list-api-keys", Tags: []string{tag},
		Summary: "List API keys, newest first", Description: "An admin sees all keys of the workspace, others see their own.",
	}, a.listAPIKeys)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/settings/api-keys", OperationID: "create-api-key", Tags: []string{tag}, DefaultStatus: http.StatusCreated,
		Summary: "Create an API key", Description: "Only a signed-in user creates keys, so that a person is responsible for each.",
	}, a.createAPIKey)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/settings/api-keys/{id}", OperationID: "revoke-api-key", Tags: []string{tag},
		Summary: "Revoke an API key at once", Description: "It stays in the list. Revoking it again is 409.", Errors: []int{http.StatusConflict},
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
	key, secret, err := a.APIKeys.Create(ctx, s, identity.NewAPIKey{
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
