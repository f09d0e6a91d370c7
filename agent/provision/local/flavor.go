package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/millpond/millpond/domain"
)

// Flavors implements domain.Provider. One is available when it fits beside the machines that are made now.
func (p *Provider) Flavors(_ context.Context, s domain.ProviderSettings) ([]domain.Flavor, error) {
	if err := checkSettings(s); err != nil {
		return nil, err
	}
	taken, err := p.taken("")
	if err != nil {
		return nil, err
	}
	all := p.host.flavors()
	for i := range all {
		all[i].Available = p.host.fits(all[i], taken)
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

// taken are the records of the machines that are made, but the one.
func (p *Provider) taken(but domain.MachineID) ([]record, error) {
	all, err := p.places()
	if err != nil {
		return nil, err
	}
	var taken []record
	for _, m := range all {
		if m.id == but {
			continue
		}
		r, err := m.read()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			p.log.Error("what a machine takes of the host is not known", "machine", m.id, "error", err)
			continue
		}
		if !r.Released {
			taken = append(taken, r)
		}
	}
	return taken, nil
}

// fits says whether a machine of the flavor fits beside others.
func (h host) fits(f domain.Flavor, taken []record) bool {
	return f.Cores <= h.freeCores(taken) && (f.GPUs == 0 || len(h.freeGPUs(f.GPU, taken)) >= f.GPUs)
}

func (h host) freeCores(taken []record) int {
	free := h.cores
	for _, r := range taken {
		free -= r.Cores
	}
	return free
}

func (h host) freeGPUs(model string, taken []record) []int {
	var free []int
	for i, g := range h.gpus {
		if g.model == model && !slices.ContainsFunc(taken, func(r record) bool { return slices.Contains(r.GPUs, i) }) {
			free = append(free, i)
		}
	}
	return free
}

// full says why there is no room. It names none of another workspace's machines.
func (h host) full(f domain.Flavor, taken []record, workspace domain.WorkspaceID) error {
	var own []string
	for _, r := range taken {
		if r.Ref.Workspace == workspace {
			own = append(own, fmt.Sprintf("%s (%s)", r.Ref.Machine, r.Flavor))
		}
	}
	slices.Sort(own)
	running := strings.Join(own, ", ")
	switch others := len(taken) - len(own); {
	case others > 0 && running != "":
		running += fmt.Sprintf(" and %d of other workspaces", others)
	case others > 0:
		running = fmt.Sprintf("%d machines of other workspaces", others)
	case running == "":
		running = "no machine"
	}
	free := fmt.Sprintf("%d of its %d cores are free", max(0, h.freeCores(taken)), h.cores)
	if f.GPUs > 0 {
		free += fmt.Sprintf(", and %d of the GPUs", len(h.freeGPUs(f.GPU, taken)))
	}
	return domain.Errorf(domain.CodeConflict, "A machine of flavor %s does not fit on this host now: %s; there is %s. Stop one of them, or choose a smaller flavor.", f.Name, free, running)
}
