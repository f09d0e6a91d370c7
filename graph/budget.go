package graph

import (
	"context"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"

	"github.com/millpond/millpond/domain"
)

// Bounds of one response, for what its price cannot foretell: how long lists are that are not paged, and how many things have a log.
const (
	maxValues = 500_000    // fields of the items of such lists
	maxTails  = 8 << 20    // bytes of the ends of logs
	minTail   = 64 << 10   // what each end counts at least, because it is two transactions however short it is
	maxCells  = 20_000_000 // values of results: some 16 MiB of them take a hundred in JSON
)

// budget is what one response may still spend.
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

// affordRows counts what is asked of each of the field's n items.
func affordRows(ctx context.Context, n int) error {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if ok && !b.spend(&b.values, n*len(graphql.CollectFieldsCtx(ctx, nil))) {
		return domain.Errorf(domain.CodeTooLarge, "The answer would have more than %d fields of what is not paged, such as tasks, attempts, samples and columns; ask for fewer runs, machines or tables at once, or for fewer fields of them.", maxValues)
	}
	return nil
}

// affordTail counts the end of a log.
func affordTail(ctx context.Context, bytes int) error {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if ok && !b.spend(&b.tails, max(bytes, minTail)) {
		return domain.Errorf(domain.CodeTooLarge, "The answer would have more than %d ends of logs, or more than %d bytes of them; ask for fewer, or for an attempt's by attemptLog.", maxTails/minTail, maxTails)
	}
	return nil
}

// affordCells counts the values of a piece of a result.
func affordCells(ctx context.Context, n int) error {
	b, ok := ctx.Value(budgetKey{}).(*budget)
	if ok && !b.spend(&b.cells, n) {
		return domain.Errorf(domain.CodeTooLarge, "The answer would have more than %d values of results; ask for one piece at once, or for the result in Arrow by the REST API.", maxCells)
	}
	return nil
}

// asksFor says whether one of the fields is asked of what the current field returns.
func asksFor(ctx context.Context, fields ...string) bool {
	return slices.ContainsFunc(graphql.CollectFieldsCtx(ctx, nil), func(f graphql.CollectedField) bool { return slices.Contains(fields, f.Name) })
}
