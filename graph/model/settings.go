package model

import (
	"github.com/millpond/millpond/domain"
)

// ProviderSettings are a workspace's provider as the schema shows it: text that is empty is null.
type ProviderSettings struct{ domain.ProviderSettings }

// Role is to be assumed.
func (p ProviderSettings) Role() *string { return optional(p.ProviderSettings.Role) }

// ExternalID is for the role.
func (p ProviderSettings) ExternalID() *string { return optional(p.ProviderSettings.ExternalID) }

// StorageSettings are a workspace's storage as the schema shows it: text that is empty is null.
type StorageSettings struct{ domain.StorageSettings }

// Role is to be assumed.
func (s StorageSettings) Role() *string { return optional(s.StorageSettings.Role) }

// ExternalID is for the role.
func (s StorageSettings) ExternalID() *string { return optional(s.StorageSettings.ExternalID) }
