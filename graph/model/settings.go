package model

import (
	"github.com/millpond/millpond/domain/machine"
)

// ProviderSettings are a workspace's provider as the schema shows it: empty text is null.
type ProviderSettings struct{ machine.ProviderSettings }

// Role returns the role to assume.
func (p ProviderSettings) Role() *string { return optional(p.ProviderSettings.Role) }

// ExternalID returns the external id of the role.
func (p ProviderSettings) ExternalID() *string { return optional(p.ProviderSettings.ExternalID) }

// StorageSettings are a workspace's storage as the schema shows it: empty text is null.
type StorageSettings struct{ machine.StorageSettings }

// Role returns the role to assume.
func (s StorageSettings) Role() *string { return optional(s.StorageSettings.Role) }

// ExternalID returns the external id of the role.
func (s StorageSettings) ExternalID() *string { return optional(s.StorageSettings.ExternalID) }
