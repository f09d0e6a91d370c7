package graph

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
)

// rootDepth is how many levels are selected below a field of the roots.
const rootDepth = 5

// selector writes selections of all fields.
type selector struct {
	schema *ast.Schema
	asked  map[string]bool
}

// of selects every field of the type, down to the given depth. Lists in lists have one item and
// logs one byte, so that the query stays within the limits.
func (s *selector) of(name string, depth int) string {
	def := s.schema.Types[name]
	if def.Kind != ast.Object {
		return ""
	}
	if name == "LakeTable" && depth < rootDepth {
		return " { id fullName columns { name } }" // its details are selected on the table itself
	}
	if name == "TrackingRun" && depth < rootDepth {
		return " { id name metrics { key value } }" // likewise
	}
	var b strings.Builder
	for _, field := range def.Fields {
		inner := s.schema.Types[field.Type.Name()]
		if strings.HasPrefix(field.Name, "__") || inner.Kind == ast.Object && depth == 0 {
			continue
		}
		sub := s.of(field.Type.Name(), depth-1)
		if inner.Kind == ast.Object && sub == "" {
			continue
		}
		s.asked[name+"."+field.Name] = true
		b.WriteString(" " + field.Name)
		var args []string
		for _, arg := range []string{"first: 1", "bytes: 1", "n: 0", `key: "` + secret + `_loss"`} {
			name, _, _ := strings.Cut(arg, ":")
			if field.Arguments.ForName(name) != nil {
				args = append(args, arg)
			}
		}
		if len(args) > 0 {
			b.WriteString("(" + strings.Join(args, " ") + ")")
		}
		b.WriteString(sub)
	}
	if b.Len() == 0 {
		return ""
	}
	return " {" + b.String() + " }"
}

func requireAllAsked(t *testing.T, schema *ast.Schema, asked map[string]bool) {
	for name, def := range schema.Types {
		if def.Kind != ast.Object || def.BuiltIn || def == schema.Subscription {
			continue
		}
		for _, field := range def.Fields {
			if !strings.HasPrefix(field.Name, "__") {
				require.True(t, asked[name+"."+field.Name], "%s.%s is asked for by no row", name, field.Name)
			}
		}
	}
}
