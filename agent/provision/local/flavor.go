package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Flavors implements machine.Provider. A flavor is available if it fits beside the existing
// machines.
func (p *Provider) Flavors(_ context.Context, s machine.ProviderSettings) ([]machine.Flavor, error) {
	if err := checkSettings(s); err != nil {
		return nil, err
	}
	t, err := p.usage("", p.records.get)
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

// flavors are the sizes of machines that fit on this host while it has no other machine.
func (h host) flavors() []machine.Flavor {
	var all []machine.Flavor
	for _, n := range powers(h.cores) {
		all = append(all, machine.Flavor{Name: fmt.Sprintf("cpu.%d", n), Cores: n, Memory: h.share(n)})
	}
	for slug, of := range h.models() {
		for _, n := range powers(len(of)) {
			name, cores := "gpu."+slug, max(1, h.cores*n/len(h.gpus))
			if n > 1 {
				name = fmt.Sprintf("%s.%d", name, n)
			}
			all = append(all, machine.Flavor{Name: name, Cores: cores, Memory: h.share(cores), GPUs: n, GPU: h.gpus[of[0]].model})
		}
	}
	slices.SortFunc(all, func(a, b machine.Flavor) int {
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

func (h host) flavor(name string) (machine.Flavor, error) {
	all := h.flavors()
	names := make([]string, len(all))
	for i, f := range all {
		if names[i] = f.Name; f.Name == name {
			return f, nil
		}
	}
	return machine.Flavor{}, domain.Invalid("flavor", "The flavor %q is not available on this host; choose %s.", name, strings.Join(names, ", "))
}

// TrinoMemory is the smallest memory of a flavor that can run Trino, in bytes. Trino gets three
// eighths of a machine's memory; the rest is for DuckDB and the agent.
const TrinoMemory = 3 << 30

// CheckWriteEngine implements machine.Provider.
func (p *Provider) CheckWriteEngine(_ context.Context, s machine.ProviderSettings, f machine.Flavor, engine string) error {
	if err := checkSettings(s); err != nil {
		return err
	}
	switch {
	case engine == machine.EngineDuckDB:
		return nil
	case engine != machine.EngineTrino:
		return domain.Invalid(writeEngine, "There is no write engine %q; choose duckdb or trino.", engine)
	case f.Memory < TrinoMemory:
		return domain.Invalid(writeEngine, "Trino needs a machine with at least 3 GiB of memory, and a %s machine has %d MiB; choose a larger flavor, or the write engine duckdb.",
			f.Name, f.Memory>>20)
	case p.options.Trino == nil:
		return domain.Invalid(writeEngine, "Trino is not installed on this host; run `millpond engine install trino` there, or choose the write engine duckdb.")
	}
	if err := p.options.Trino(); err != nil {
		return domain.Invalid(writeEngine, "Trino is not available on this host: %v. Do that there, or choose the write engine duckdb.", err)
	}
	return nil
}

const writeEngine = "write_engine" // the field

// usage is the part of the host that existing machines use.
type usage struct {
	made    []record
	unknown error // set if a machine's part is unknown: then no other machine fits
}

// usage reads the part of the host that all machines except one use.
func (p *Provider) usage(but domain.MachineID, read func(machineDir) (record, error)) (usage, error) {
	all, err := p.machineDirs()
	if err != nil {
		return usage{}, err
	}
	var t usage
	for _, m := range all {
		if m.id == but {
			continue
		}
		r, err := read(m)
		switch {
		case err == nil && !r.Released:
			t.made = append(t.made, r)
		case err != nil && !m.unmade(err) && p.runs(m):
			t.unknown = domain.Errorf(domain.CodeConflict, "The part of this host that %s uses is unknown, because its record %s is lost or cannot be read, "+
				"so nothing else is started here. Stop or delete %s, then try again.", m.id, m.path(recordFile), m.id)
		}
	}
	return t, nil
}

// runs reports whether a process of a machine without a record is still there, or may be.
func (p *Provider) runs(m machineDir) bool {
	left, err := remains(m.data(), []string{p.groups.path(m)})
	return err != nil || len(left) > 0
}

// fits reports whether a machine of the flavor fits beside others.
func (h host) fits(f machine.Flavor, made []record) bool {
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

// full says why there is no room. It does not name machines of another workspace.
func (h host) full(f machine.Flavor, made []record, workspace domain.WorkspaceID) error {
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
	return domain.Errorf(domain.CodeConflict, "A %s machine does not fit on this host now: %s taken by %s. %s.", f.Name, h.used(f, made), enumerate(by), h.advice(f, made, own))
}

// used says how much of the resources that the flavor needs is in use.
func (h host) used(f machine.Flavor, made []record) string {
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
func (h host) advice(f machine.Flavor, made []record, own []string) string {
	smaller := slices.ContainsFunc(h.flavors(), func(g machine.Flavor) bool { return g.GPU == f.GPU && h.fits(g, made) })
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

// enumerate joins one or more words: a, b and c.
func enumerate(all []string) string {
	last := len(all) - 1
	if last < 1 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}
