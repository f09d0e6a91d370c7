package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/millpond/millpond/graph/generated"
)

func testSchema() graphql.ExecutableSchema {
	return generated.NewExecutableSchema(generated.Config{Complexity: costs()})
}

// cost validates the operation as the server does, and returns its cost.
func cost(t *testing.T, query string, vars map[string]any) int {
	t.Helper()
	es := testSchema()
	require.Nil(t, limits{}.MutateOperationParameters(t.Context(), &graphql.RawParams{Query: query}))
	doc, errs := gqlparser.LoadQueryWithRules(es.Schema(), query, rules.NewDefaultRules())
	require.Empty(t, errs)
	require.Len(t, doc.Operations, 1)
	return complexity.Calculate(t.Context(), es, doc.Operations[0], vars)
}

func TestEveryOperationOfTheConsoleIsValidAndWithinTheLimits(t *testing.T) {
	text, err := os.ReadFile("../web/src/gql/operations.json")
	if os.IsNotExist(err) {
		t.Skip("the console's operations are not here")
	}
	require.NoError(t, err)
	var operations map[string]struct{ Name, Text string }
	require.NoError(t, json.Unmarshal(text, &operations))
	require.NotEmpty(t, operations)
	// The console's largest pages have 50 items and 256 KiB of a log.
	vars := map[string]any{"first": 50, "maxBytes": 256 << 10, "count": 100}
	for _, op := range operations {
		t.Run(op.Name, func(t *testing.T) {
			c := cost(t, op.Text, vars)
			t.Logf("costs %d", c)
			require.LessOrEqual(t, c, maxCost)
		})
	}
}

func TestCosts(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		vars  map[string]any
		want  int
	}{
		"a field":              {`{ instance { version } }`, nil, costRead + 1},
		"a page":               {`{ runs(first: 10) { edges { node { id } } } }`, nil, costRead + 10*3},
		"the default page":     {`{ runs { edges { node { id } } } }`, nil, costRead + 50*3},
		"a length of too much": {`{ runs(first: 1000000) { edges { node { id } } } }`, nil, costRead + 200*3},
		"a negative length":    {`{ runs(first: -5) { edges { node { id } } } }`, nil, costRead + 3},
		"a list in a list":     {`{ jobs(first: 10) { edges { node { runs(first: 10) { edges { node { id } } } } } } }`, nil, costRead + 10*(2+costRead+10*3)},
		"a fragment":           {`{ runs(first: 10) { edges { node { ...F } } } } fragment F on Run { id status }`, nil, costRead + 10*4},
		"log bytes":            {`query($n: Int) { attemptLog(attempt: "a", maxBytes: $n) { eof } }`, map[string]any{"n": 1 << 20}, costRead + 1 + 4096},
		"a huge tail":          {`{ run(id: "r") { attempts { logTail(bytes: 2000000000) } } }`, nil, 2 + fewAttempts*(costRead+1+7812500)},
		"sparklines":           {`{ computeInstances { edges { node { metrics { at cpu memory } } } } }`, nil, costRead + 50*(2+costRead+10*3)},
		"a machine's log":      {`{ warehouse(id: "w") { log(bytes: 2560) } }`, nil, costRead + costRead + 10},
		"a page of tables":     {`{ database(id: "d") { tables(first: 10) { edges { node { name columns { name type } } } } } }`, nil, costRead + costRead + 10*(3+costRead+10*2)},
		"samples of a page":    {`{ database(id: "d") { tables(first: 10) { edges { node { sample { rows } } } } } }`, nil, costRead + costRead + 10*(2+2*costFiles+1)},
		"a piece of a result":  {`{ statement(id: "s") { chunk(n: 0) { rows } } }`, nil, costRead + costResult + 1},
		"a graph":              {`{ lineage(table: "t", depth: 10) { root } }`, nil, 4*costRead*10 + 1},
		"aliases of a login":   {`mutation { a: login(input: {email: "a", password: "b"}) { viewer { id } } b: login(input: {email: "a", password: "b"}) { viewer { id } } }`, nil, 2 * (costHash + 2)},
	} {
		got := cost(t, c.query, c.vars)
		if name == "a huge tail" {
			require.Greater(t, got, maxCost, name)
			continue
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestEveryFieldOfTheRootsIsPriced(t *testing.T) {
	for _, root := range []any{costs().Query, costs().Mutation} {
		v := reflect.ValueOf(root)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			require.Equal(t, strings.HasPrefix(name, "__"), v.Field(i).IsNil(), "%s has no cost", name)
		}
	}
}

func TestAbuseIsRefused(t *testing.T) {
	w := newWorld(t, quick)
	me := bearer(w.tenant("acme").admin.token)
	nested := func(levels int) string {
		return "{ jobs(first: 1) { edges { node { latestRun " + strings.Repeat("{ job { latestRun ", levels) + "{ id }" + strings.Repeat(" } }", levels) + " } } } }"
	}
	var bomb strings.Builder
	bomb.WriteString("{ ...F0 }")
	for i := range 60 { // 2^60 fields when expanded
		fmt.Fprintf(&bomb, " fragment F%d on Query { ...F%d ...F%d }", i, i+1, i+1)
	}
	bomb.WriteString(" fragment F60 on Query { instance { version } }")
	for name, c := range map[string]struct{ query, code string }{
		"depth":             {nested(20), "TOO_LARGE"},
		"a page of pages":   {`{ jobs(first: 200) { edges { node { runs(first: 200) { edges { node { id } } } } } } }`, "TOO_LARGE"},
		"aliases":           {"{ " + repeated(1001, "a%d: __typename ") + "}", "TOO_LARGE"},
		"aliases of a read": {"{ " + repeated(400, "a%d: instance { needsSetup } ") + "}", "TOO_LARGE"},
		"logins":            {"mutation { " + repeated(11, `a%d: login(input: {email: "a@b.c", password: "x"}) { viewer { id } } `) + "}", "TOO_LARGE"},
		"a fragment bomb":   {bomb.String(), "TOO_LARGE"},
		"a fragment circle": {`{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }`, "INVALID"},
		"text":              {"{ instance { version } } #" + strings.Repeat("x", maxQuery), "TOO_LARGE"},
		"tokens":            {"{ " + strings.Repeat("instance ", maxTokens) + "}", "INVALID"},
		"open braces":       {strings.Repeat("{a", 2000), "INVALID"},
		"directives":        {"{ instance { version " + strings.Repeat("@include(if: true) ", 100) + "} }", "INVALID"},
		"first of 0":        {`{ runs(first: 0) { edges { cursor } } }`, "INVALID"},
		"first of 201":      {`{ runs(first: 201) { edges { cursor } } }`, "INVALID"},
		"first too big":     {`{ runs(first: 99999999999999999999) { edges { cursor } } }`, "INVALID"},
		"a cursor":          {`{ runs(after: "zzz") { edges { cursor } } }`, "INVALID"},
	} {
		res := w.query(me, c.query, nil)
		require.Equal(t, http.StatusOK, res.Status, name)
		require.Equal(t, c.code, res.code(), "%s: %s", name, res.Body)
	}
	require.NotContains(t, w.log.String(), "internal error")
}

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// introspection is the query of GraphiQL and code generators.
const introspection = `query IntrospectionQuery { __schema { queryType { name } mutationType { name } subscriptionType { name } types { ...FullType }
 directives { name description locations args { ...InputValue } } } }
fragment FullType on __Type { kind name description fields(includeDeprecated: true) { name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason }
 inputFields { ...InputValue } interfaces { ...TypeRef } enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason } possibleTypes { ...TypeRef } }
fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }`

func TestTheSchemaIsShownToThoseSignedIn(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	require.Equal(t, "UNAUTHENTICATED", w.query(nobody, introspection, nil).code())
	require.Equal(t, "UNAUTHENTICATED", w.query(nobody, `{ ...F } fragment F on Query { __type(name: "Run") { name } }`, nil).code())
	data := w.ok(bearer(a.viewer.token), introspection, nil)
	require.Equal(t, "Query", at(data, "__schema", "queryType", "name"))
}

// An operation is public only if all its root fields are, however they are written.
func TestStrangersHaveThePublicFieldsAlone(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	for _, query := range []string{
		`{ jobs(first: 1) { edges { node { id } } } }`,
		`{ instance { version } jobs(first: 1) { edges { node { id } } } }`,
		`{ instance: overview { agents } }`,
		`{ ... { overview { agents } } }`,
		`{ ...F } fragment F on Query { instance { version } ...G } fragment G on Query { overview { agents } }`,
		`mutation { deleteJob(input: {id: "job_1"}) { id } }`,
	} {
		res := w.query(nobody, query, nil)
		require.Equal(t, "UNAUTHENTICATED", res.code(), query)
		require.Nil(t, res.Data, query)
	}
	for _, query := range []string{
		`{ __typename instance { version } }`, `{ viewer { role } }`,
		`{ ...F } fragment F on Query { ... { overview: instance { version } } }`,
	} {
		w.ok(nobody, query, nil)
	}
	w.ok(bearer(a.viewer.token), `{ instance { version } jobs(first: 1) { edges { node { id } } } }`, nil)
}

// The schema files are the contract: the generated schema matches them.
func TestGeneratedSchemaIsTheFiles(t *testing.T) {
	es := testSchema()
	for _, name := range []string{"schema", "agent", "apikey", "compute", "job", "machine", "quota", "run", "settings", "user", "warehouse"} {
		text, err := os.ReadFile("schema/" + name + ".graphqls")
		require.NoError(t, err)
		found := false
		for _, def := range es.Schema().Types {
			found = found || def.Position != nil && def.Position.Src.Name == "../schema/"+name+".graphqls" && def.Position.Src.Input == string(text)
		}
		require.True(t, found, "schema/%s.graphqls is newer than what is generated from it: run go generate ./graph", name)
	}
}
