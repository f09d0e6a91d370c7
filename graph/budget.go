package graph

import (
	"context"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"

	"github.com/millpond/millpond/domain"
)

// Bounds of one response for what its price does not include: the length of lists without pages,
// and the number of logs.
const (
	maxValues = 500_000    // fields of items of lists without pages
	maxTails  = 8 << 20    // bytes of log ends
	minTail   = 64 << 10   // counted per log end at least, because a log end takes two transactions
	maxCells  = 20_000_000 // values of results: 16 MiB of them become about 100 MiB in JSON
)

// budget is the rest of a response's bounds.
type budget struct {
	mu                   sync.Mutex
	values, tails, cells int
}

type budgetKey struct{}

func withBudget(ctx context.Context) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{values: maxValues, tails: maxTails, cells: maxCells})
}

func (b *budget) spend(left *int, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > *left {
		return false
	}
	*left -= n
	return true
}

// affordRows counts the requested fields of n items.
func affordRows(ctx context.Context, n int) error {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if ok && !b.spend(&b.values, n*len(graphql.CollectFieldsCtx(ctx, nil))) {
		return domain.Errorf(domain.CodeTooLarge, "The answer would have more than %d fields of lists without pages, such as tasks, attempts, samples and columns; ask for fewer runs, machines or tables at once, or for fewer fields of them.", maxValues)
	}
	return nil
}

// affordTail counts a log end.
func affordTail(ctx context.Context, bytes int) error {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if ok && !b.spend(&b.tails, max(bytes, minTail)) {
		return domain.Errorf(domain.CodeTooLarge, "The answer would have more than %d ends of logs, or more than %d bytes of them; ask for fewer, or for an attempt's by attemptLog.", maxTails/minTail, maxTails)
	}
	return nil
}

// affordCells counts the values of a chunk of a result.
func affordCells(ctx context.Context, n int) error {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if ok && !b.spend(&b.cells, n) {
		return domain.Errorf(domain.CodeTooLarge, "The answer would have more than %d values of results; ask for one chunk at once, or for the result in Arrow by the REST API.", maxCells)
	}
	return nil
}

// asksFor reports whether the current field selects one of the fields.
func asksFor(ctx context.Context, fields ...string) bool {
	return slices.ContainsFunc(graphql.CollectFieldsCtx(ctx, nil), func(f graphql.CollectedField) bool { return slices.Contains(fields, f.Name) })
}
