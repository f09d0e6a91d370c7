package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millpond/millpond/domain"
)

// Flavors implements domain.Provider. One is available when it fits beside the machines that are made now.
func (p *Provider) Flavors(_ context.Context, s domain.ProviderSettings) ([]domain.Flavor, error) {
	if err := checkSettings(s); err != nil {
		return nil, err
	}
	t, err := p.taken("", p.records.get)
	if err != nil {
		return nil, err
	}
	all := p.host.flavors()
	for i := range all {
		all[i].Available = t.unknown == nil && p.host.fits(all[i], t.made)
		all[i].Limits = p.groups.unenforced()
	}
	return all, nil
}

// flavors are the sizes of machines that this host can hold, one at a time.
func (h host) flavors() []domain.Flavor {
	var all []domain.Flavor
	for _, n := range powers(h.cores) {
		all = append(all, domain.Flavor{Name: fmt.Sprintf("cpu.%d", n), Cores: n, Memory: h.share(n)})
	}
	for slug, of := range h.models() {
		for _, n := range powers(len(of)) {
			name, cores := "gpu."+slug, max(1, h.cores*n/len(h.gpus))
			if n > 1 {
				name = fmt.Sprintf("%s.%d", name, n)
			}
			all = append(all, domain.Flavor{Name: name, Cores: cores, Memory: h.share(cores), GPUs: n, GPU: h.gpus[of[0]].model})
		}
	}
	slices.SortFunc(all, func(a, b domain.Flavor) int {
		return cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.Memory, b.Memory), strings.Compare(a.Name, b.Name))
	})
	return all
}

// powers are the powers of two up to n, and n.
func powers(n int) []int {
	var all []int
	for i := 1; i <= n; i *= 2 {
		all = append(all, i)
	}
	if len(all) > 0 && all[len(all)-1] != n {
		all = append(all, n)
	}
	return all
}

func (h host) flavor(name string) (domain.Flavor, error) {
	all := h.flavors()
	names := make([]string, len(all))
	for i, f := range all {
		if names[i] = f.Name; f.Name == name {
			return f, nil
		}
	}
	return domain.Flavor{}, domain.Invalid("flavor", "The flavor %q is not to be had on this host; choose %s.", name, strings.Join(names, ", "))
}

// TrinoMemory is the memory of the smallest flavor that can have Trino, which gets three eighths of it, in bytes; the rest is for DuckDB and the agent.
const TrinoMemory = 3 << 30

// CheckWriteEngine implements domain.Provider.
func (p *Provider) CheckWriteEngine(_ context.Context, s domain.ProviderSettings, f domain.Flavor, engine string) error {
	if err := checkSettings(s); err != nil {
		return err
	}
	switch {
	case engine == domain.EngineDuckDB:
		return nil
	case engine != domain.EngineTrino:
		return domain.Invalid(writeEngine, "There is no write engine %q; choose duckdb or trino.", engine)
	case f.Memory < TrinoMemory:
		return domain.Invalid(writeEngine, "Trino needs a machine with 3 GiB of memory at least, and one of the flavor %s has %d MiB; choose a larger one, or the write engine duckdb.",
			f.Name, f.Memory>>20)
	case p.options.Trino == nil:
		return domain.Invalid(writeEngine, "Trino is not installed on this host; run `millpond engine install trino` there, or choose the write engine duckdb.")
	}
	if err := p.options.Trino(); err != nil {
		return domain.Invalid(writeEngine, "Trino is not to be had on this host: %v. Do that there, or choose the write engine duckdb.", err)
	}
	return nil
}

const writeEngine = "write_engine" // the field

// taken is what the machines that are made take of the host.
type taken struct {
	made    []record
	unknown error // of a machine of which it is not known: none fits beside it
}

// taken reads what machines take, but the one.
func (p *Provider) taken(but domain.MachineID, read func(place) (record, error)) (taken, error) {
	all, err := p.places()
	if err != nil {
		return taken{}, err
	}
	var t taken
	for _, m := range all {
		if m.id == but {
			continue
		}
		r, err := read(m)
		switch {
		case err == nil && !r.Released:
			t.made = append(t.made, r)
		case err != nil && !m.unmade(err):
			t.unknown = domain.Errorf(domain.CodeConflict, "It is not known what %s takes of this host, since its record %s is lost or cannot be read, "+
				"so nothing else is started here. Stop or delete %s, then try again.", m.id, m.path(recordFile), m.id)
		}
	}
	return t, nil
}

// fits says whether a machine of the flavor fits beside others.
func (h host) fits(f domain.Flavor, made []record) bool {
	return f.Cores <= h.freeCores(made) && (f.GPUs == 0 || len(h.freeGPUs(f.GPU, made)) >= f.GPUs)
}

func (h host) freeCores(made []record) int {
	free := h.cores
	for _, r := range made {
		free -= r.Cores
	}
	return free
}

func (h host) freeGPUs(model string, made []record) []int {
	var free []int
	for i, g := range h.gpus {
		if g.model == model && !slices.ContainsFunc(made, func(r record) bool { return slices.Contains(r.GPUs, i) }) {
			free = append(free, i)
		}
	}
	return free
}

// full says why there is no room. It names none of another workspace's machines.
func (h host) full(f domain.Flavor, made []record, workspace domain.WorkspaceID) error {
	var own []string
	for _, r := range made {
		if r.Ref.Workspace == workspace {
			own = append(own, string(r.Ref.Machine))
		}
	}
	slices.Sort(own)
	by := own
	switch others := len(made) - len(own); {
	case others == 1:
		by = append([]string{"1 machine of another workspace"}, own...)
	case others > 1:
		by = append([]string{fmt.Sprintf("%d machines of other workspaces", others)}, own...)
	}
	return domain.Errorf(domain.CodeConflict, "A machine of flavor %s does not fit on this host now: %s taken by %s. %s.", f.Name, h.used(f, made), enumerate(by), h.advice(f, made, own))
}

// used says how much of what the flavor needs is taken.
func (h host) used(f domain.Flavor, made []record) string {
	cores := h.cores - max(0, h.freeCores(made))
	said := fmt.Sprintf("%d of its %d cores", cores, h.cores)
	if f.GPUs > 0 {
		all := len(h.freeGPUs(f.GPU, nil))
		return said + fmt.Sprintf(" and %d of its %d GPUs %s are", all-len(h.freeGPUs(f.GPU, made)), all, f.GPU)
	}
	if cores == 1 {
		return said + " is"
	}
	return said + " are"
}

// advice says what to do when the flavor does not fit.
func (h host) advice(f domain.Flavor, made []record, own []string) string {
	smaller := slices.ContainsFunc(h.flavors(), func(g domain.Flavor) bool { return g.GPU == f.GPU && h.fits(g, made) })
	switch {
	case len(own) == 0 && smaller:
		return "Choose a smaller flavor"
	case len(own) == 0:
		return "Try again when there is room"
	}
	said := "Stop it"
	if len(own) > 1 {
		said = "Stop one of them"
	}
	if smaller {
		said += " or choose a smaller flavor"
	}
	return said
}

// enumerate joins what is one thing or more: a, b and c.
func enumerate(all []string) string {
	last := len(all) - 1
	if last < 1 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}
