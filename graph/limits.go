package graph

import (
	"context"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// Bounds of an operation. The console's largest page costs less than half of the limit.
const (
	maxQuery      = 64 << 10 // bytes of text; large values belong in variables
	maxTokens     = 5000
	maxFields     = 1000 // with every fragment expanded
	maxDepth      = 12
	maxIntrospect = 20 // depth below __schema and __type; the usual tools need it
	maxCost       = 20_000
)

// limits refuses operations that cost more than any page needs, before they run. It has two of
// gqlgen's hooks. The first runs before parsing and validation, whose cost grows with the square of
// the fields; the second runs after them.
type limits struct {
	schema graphql.ExecutableSchema
}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationParameterMutator
	graphql.OperationContextMutator
} = limits{}

// ExtensionName implements graphql.HandlerExtension.
func (limits) ExtensionName() string { return "limits" }

// Validate implements graphql.HandlerExtension.
func (limits) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters bounds the text and its expansion. The executor refuses a text that
// cannot be parsed.
func (limits) MutateOperationParameters(_ context.Context, p *graphql.RawParams) *gqlerror.Error {
	if len(p.Query) > maxQuery {
		return refusal(domain.Errorf(domain.CodeTooLarge, "The query has %d bytes and the limit is %d; pass large values as variables.", len(p.Query), maxQuery))
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: p.Query}, maxTokens)
	if err != nil {
		return nil
	}
	m := measure{fragments: doc.Fragments, known: map[string]size{}}
	total := size{}
	for _, op := range doc.Operations {
		total = total.beside(m.set(op.SelectionSet))
	}
	switch {
	case total.fields > maxFields:
		return refusal(domain.Errorf(domain.CodeTooLarge, "The query asks for more than %d fields; split it.", maxFields))
	case total.depth > maxDepth || total.introspection > maxIntrospect:
		return refusal(domain.Errorf(domain.CodeTooLarge, "The query is nested deeper than %d levels; split it.", maxDepth))
	}
	return nil
}

// MutateOperationContext bounds the cost, and refuses what is not public to callers without a
// credential: the schema too. Subscriptions come by WebSocket, which does not open without one.
func (l limits) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	cost := complexity.Calculate(ctx, l.schema, op.Operation, op.Variables)
	if cost > maxCost {
		return refusal(domain.Errorf(domain.CodeTooLarge, "The query costs %d and the limit is %d; ask for fewer items at once (first), or for fewer fields of them.", cost, maxCost))
	}
	_, err := auth.From(ctx)
	op.DisableIntrospection = err != nil
	if err != nil && op.Operation.Operation != ast.Subscription && !isPublic(op.Operation.SelectionSet) {
		return refusal(domain.AsError(err))
	}
	return nil
}

// size is the size of a selection.
type size struct {
	fields        int
	depth         int
	introspection int // depth of selections of the schema itself
}

func (s size) beside(o size) size {
	return size{
		fields: min(s.fields+o.fields, maxFields+1),
		depth:  max(s.depth, o.depth), introspection: max(s.introspection, o.introspection),
	}
}

// measure adds up selections. It measures each fragment once, however often it is spread, so that
// nested fragments are cheap to refuse.
type measure struct {
	fragments ast.FragmentDefinitionList
	known     map[string]size
}

func (m measure) set(set ast.SelectionSet) size {
	var total size
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			total = total.beside(m.field(s))
		case *ast.InlineFragment:
			total = total.beside(m.set(s.SelectionSet))
		case *ast.FragmentSpread:
			total = total.beside(m.fragment(s.Name))
		}
	}
	return total
}

func (m measure) field(f *ast.Field) size {
	s := m.set(f.SelectionSet)
	s.fields++
	if f.Name == "__schema" || f.Name == "__type" {
		s.introspection, s.depth = s.depth, 0
	}
	s.depth++
	return s
}

func (m measure) fragment(name string) size {
	if s, known := m.known[name]; known {
		return s
	}
	m.known[name] = size{} // a cycle ends here; validation refuses it
	if def := m.fragments.ForName(name); def != nil {
		m.known[name] = m.set(def.SelectionSet)
	}
	return m.known[name]
}

// publicFields are the root fields that need no credential.
var publicFields = map[string]bool{"instance": true, "viewer": true, "login": true, "setUp": true, "__typename": true}

// isPublic reports whether all root fields of an operation are public.
func isPublic(set ast.SelectionSet) bool {
	for _, s := range set {
		public := true
		switch s := s.(type) {
		case *ast.Field:
			public = publicFields[s.Name]
		case *ast.InlineFragment:
			public = isPublic(s.SelectionSet)
		case *ast.FragmentSpread:
			public = s.Definition != nil && isPublic(s.Definition.SelectionSet)
		}
		if !public {
			return false
		}
	}
	return true
}
