package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Provider is the provider of a workspace's machines.
type Provider struct {
	Kind       string `json:"kind" enum:"local" doc:"local runs machines as processes on the server's own machine."`
	Region     string `json:"region" example:"local"`
	Role       string `json:"role" doc:"The role to assume; empty for local."`
	ExternalID string `json:"external_id" doc:"The external id that goes with the role; empty for local."`
	UpdatedAt  *Time  `json:"updated_at" nullable:"true" doc:"Null while the default provider is used."`
}

// NewProvider registers a provider. It names a role to assume, and never contains keys.
type NewProvider struct {
	Kind       string `json:"kind" example:"local" doc:"Only local is supported so far."`
	Region     string `json:"region,omitempty" example:"local" doc:"local has only the region local, which is the default."`
	Role       string `json:"role,omitempty" doc:"The role to assume; local accepts no role."`
	ExternalID string `json:"external_id,omitempty" doc:"The external id that goes with the role; local accepts no external id."`
}

func (n NewProvider) domain() machine.ProviderSettings {
	return machine.ProviderSettings{Kind: machine.ProviderKind(n.Kind), Region: n.Region, Role: n.Role, ExternalID: n.ExternalID}
}

func showProvider(p machine.ProviderSettings) Provider {
	return Provider{Kind: string(p.Kind), Region: p.Region, Role: p.Role, ExternalID: p.ExternalID, UpdatedAt: optionalTime(p.UpdatedAt)}
}

// Storage is the storage of a workspace's objects.
type Storage struct {
	URL        string `json:"url" example:"file:///var/lib/millpond/objects" doc:"The server's own storage, until the workspace registers one."`
	Role       string `json:"role" doc:"The role to assume; empty for files."`
	ExternalID string `json:"external_id" doc:"The external id that goes with the role; empty for files."`
	UpdatedAt  *Time  `json:"updated_at" nullable:"true" doc:"Null while the server's own storage is used."`
}

// NewStorage registers a storage. It names a role to assume, and never contains keys.
type NewStorage struct {
	URL        string `json:"url" example:"file:///var/lib/millpond/objects" doc:"Only the server's own files are supported so far; GET shows their URL."`
	Role       string `json:"role,omitempty" doc:"The role to assume; files accept no role."`
	ExternalID string `json:"external_id,omitempty" doc:"The external id that goes with the role; files accept no external id."`
}

func (n NewStorage) domain() machine.StorageSettings {
	return machine.StorageSettings{URL: n.URL, Role: n.Role, ExternalID: n.ExternalID}
}

func showStorage(p machine.StorageSettings) Storage {
	return Storage{URL: p.URL, Role: p.Role, ExternalID: p.ExternalID, UpdatedAt: optionalTime(p.UpdatedAt)}
}

func (a *api) settingsRoutes() {
	const tag, provider, storage = "Settings", "/settings/provider", "/settings/storage"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: provider, OperationID: "get-provider", Tags: []string{tag}, Summary: "Get the provider of the workspace's machines",
		Description: "local in the region local, unless the workspace registered one.",
	}, a.getProvider)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: provider, OperationID: "update-provider", Tags: []string{tag}, Summary: "Register the provider of the workspace's machines",
		Description: "The provider is tested before it is saved. A failure is 400 with the reason, and changes nothing. Existing machines stay where they are.\n\n" +
			"Decided here: only local exists so far; any other kind is 400 with its name.",
	}, a.updateProvider)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: storage, OperationID: "get-storage", Tags: []string{tag}, Summary: "Get the storage of the workspace's objects",
	}, a.getStorage)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: storage, OperationID: "update-storage", Tags: []string{tag}, Summary: "Register the storage of the workspace's objects",
		Description: "The storage is tested before it is saved: an object is written, read back and compared. A failure is 400 with the reason, and changes nothing.\n\n" +
			"Decided here: only the server's own files exist so far, and they require the provider local. Any other kind of storage is 400 with its name.",
	}, a.updateStorage)
}

func (a *api) getProvider(ctx context.Context, s domain.Scope, _ *nothing) (*answer[Provider], error) {
	return answered(showProvider)(a.Settings.Provider(ctx, s))
}

func (a *api) updateProvider(ctx context.Context, s domain.Scope, in *struct{ Body NewProvider }) (*answer[Provider], error) {
	return answered(showProvider)(a.Settings.UpdateProvider(ctx, s, in.Body.domain()))
}

func (a *api) getStorage(ctx context.Context, s domain.Scope, _ *nothing) (*answer[Storage], error) {
	return answered(showStorage)(a.Settings.StorageOf(ctx, s))
}

func (a *api) updateStorage(ctx context.Context, s domain.Scope, in *struct{ Body NewStorage }) (*answer[Storage], error) {
	return answered(showStorage)(a.Settings.UpdateStorage(ctx, s, in.Body.domain()))
}
