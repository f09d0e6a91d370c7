package machine

import (
	"context"
	"strings"

	"github.com/millpond/millpond/domain"
)

// Settings reads and writes a workspace's provider and storage.
type Settings struct {
	Store     domain.Store[Tx]
	Clock     domain.Clock
	Providers Providers
	Objects   domain.Objects
	Storage   string // URL of the server's own storage
}

// Provider returns the workspace's registered provider.
func (c *Settings) Provider(ctx context.Context, s domain.Scope) (p ProviderSettings, err error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.SettingsRead); err != nil {
		return p, err
	}
	err = c.Store.In(ctx, s, func(tx Tx) (err error) {
		p, err = tx.Provider(ctx)
		return err
	})
	return p, err
}

// UpdateProvider tests the provider and registers it.
func (c *Settings) UpdateProvider(ctx context.Context, s domain.Scope, p ProviderSettings) (ProviderSettings, error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.ProviderUpdate); err != nil {
		return ProviderSettings{}, err
	}
	if p.Kind != ProviderLocal {
		return ProviderSettings{}, domain.Invalid("kind", "The provider %q is not available; only %q is.", p.Kind, ProviderLocal)
	}
	if p.Region == "" {
		p.Region = DefaultProvider.Region
	}
	provider, err := c.Providers.of(p.Kind)
	if err != nil {
		return ProviderSettings{}, err
	}
	if err := provider.Check(ctx, p); err != nil {
		return ProviderSettings{}, err
	}
	p.UpdatedAt = new(c.Clock.Now())
	err = c.Store.In(ctx, s, func(tx Tx) error {
		if err := tx.SaveProvider(ctx, p); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.ProviderUpdate, "workspace", s.Workspace())
	})
	return p, err
}

// StorageOf returns the workspace's registered storage, or else the server's own.
func (c *Settings) StorageOf(ctx context.Context, s domain.Scope) (p StorageSettings, err error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.SettingsRead); err != nil {
		return p, err
	}
	err = c.Store.In(ctx, s, func(tx Tx) (err error) {
		p, err = tx.Storage(ctx)
		return err
	})
	if p.URL == "" {
		p.URL = c.Storage
	}
	return p, err
}

// UpdateStorage registers the storage after a test: it writes an object, reads it back and
// compares. Only the server's own files are supported.
func (c *Settings) UpdateStorage(ctx context.Context, s domain.Scope, p StorageSettings) (StorageSettings, error) {
	if err := domain.Authorize(ctx, c.Store, s, domain.StorageUpdate); err != nil {
		return StorageSettings{}, err
	}
	if err := c.validStorage(p); err != nil {
		return StorageSettings{}, err
	}
	if err := c.tryStorage(ctx, s); err != nil {
		return StorageSettings{}, err
	}
	p.UpdatedAt = new(c.Clock.Now())
	err := c.Store.In(ctx, s, func(tx Tx) error {
		if err := tx.SaveStorage(ctx, p); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.StorageUpdate, "workspace", s.Workspace())
	})
	return p, err
}

func (c *Settings) validStorage(p StorageSettings) error {
	scheme, _, _ := strings.Cut(p.URL, ":")
	switch {
	case p.URL == c.Storage && p.Role == "" && p.ExternalID == "":
		return nil
	case p.URL == "":
		return domain.Invalid("url", "The storage has no url; give %s, the only one that is supported.", c.Storage)
	case scheme != "file":
		return domain.Invalid("url", "Storage of the kind %q is not supported; only files are: %s.", scheme, c.Storage)
	case p.URL != c.Storage:
		return domain.Invalid("url", "Of the server's files, only %s is for workspaces.", c.Storage)
	}
	return domain.Invalid("role", "Storage in files takes no role and no external id; leave them out.")
}

func (c *Settings) tryStorage(ctx context.Context, s domain.Scope) error {
	probe := domain.NewSecret()
	key := string(s.Workspace()) + "/probe/" + probe
	if err := c.Objects.Put(ctx, key, []byte(probe)); err != nil {
		return domain.Invalid("url", "Nothing can be written to %s.", c.Storage).Because(err)
	}
	back, err := c.Objects.Get(ctx, key)
	if err != nil || string(back) != probe {
		return domain.Invalid("url", "What was written to %s cannot be read back.", c.Storage).Because(err)
	}
	if err := c.Objects.Delete(ctx, key); err != nil {
		return domain.Invalid("url", "What was written to %s cannot be deleted.", c.Storage).Because(err)
	}
	return nil
}
