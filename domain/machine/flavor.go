package machine

import (
	"context"
	"strings"

	"github.com/millpond/millpond/domain"
)

// Flavors returns the flavors that the workspace's provider offers, with the current price of an
// hour of each.
func (m *Machines) Flavors(ctx context.Context, s domain.Scope) ([]Flavor, error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, err
	}
	var settings ProviderSettings
	var prices map[string]Price
	err := m.Store.In(ctx, s, func(tx Tx) (err error) {
		if settings, err = tx.Provider(ctx); err != nil {
			return err
		}
		prices, err = tx.Prices(ctx, settings.Kind, settings.Region, m.Clock.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	provider, err := m.Providers.of(settings.Kind)
	if err != nil {
		return nil, err
	}
	flavors, err := provider.Flavors(ctx, settings)
	for i := range flavors {
		flavors[i].Price = prices[flavors[i].Name]
	}
	return flavors, err
}

// flavor refuses a flavor that the provider does not have.
func flavor(kind Kind, all []Flavor, name string) (Flavor, error) {
	names := make([]string, len(all))
	for i, f := range all {
		if f.Name == name {
			return f, nil
		}
		names[i] = f.Name
	}
	return Flavor{}, domain.Invalid(kind.size(), "There is no %s %q; use one of: %s.", kind.size(), name, strings.Join(names, ", "))
}

// known checks that the provider has the size and the image.
func (m *Machines) known(ctx context.Context, p ProviderSettings, size, image *string) error {
	provider, err := m.Providers.of(p.Kind)
	if err != nil {
		return err
	}
	if size != nil {
		all, err := provider.Flavors(ctx, p)
		if err != nil {
			return err
		}
		if _, err := flavor(m.Kind, all, *size); err != nil {
			return err
		}
	}
	if image != nil && *image != "" {
		_, err = provider.Resolve(ctx, p, *image)
	}
	return err
}

// fits refuses to start a machine that has no room now, if this server can tell. The provider
// enforces its limits in any case.
func (m *Machines) fits(ctx context.Context, s domain.Scope, id domain.MachineID) error {
	machine, err := m.Get(ctx, s, id)
	if err != nil || !machine.Resting() {
		return err // Apply refuses a state that is wrong
	}
	provider := m.Providers[machine.Provider]
	if provider == nil {
		return nil
	}
	settings, err := m.settings(ctx, s)
	if err != nil {
		return err
	}
	all, err := provider.Flavors(ctx, settings)
	if err != nil {
		return err
	}
	f, err := flavor(m.Kind, all, machine.Flavor)
	if err != nil {
		return err
	}
	if !f.Available {
		return domain.Errorf(domain.CodeConflict, "There is no room for a machine of the %s %s now; stop another machine, or choose a smaller one.", m.Kind.size(), f.Name)
	}
	return nil
}
