package tracking

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// runFilters are filters over runs and their conditions.
var runFilters = map[string][]Condition{
	"": nil,

	// Entities, their other names, and quoted keys.
	"metrics.loss > 1":            {{Entity: MetricEntity, Key: "loss", Op: OpGreater, Number: 1}},
	"metric.loss<=1":              {{Entity: MetricEntity, Key: "loss", Op: OpLessOrEqual, Number: 1}},
	"`metrics`.`val loss` = 1":    {{Entity: MetricEntity, Key: "val loss", Op: OpEqual, Number: 1}},
	`metrics."train/loss.1" = 1`:  {{Entity: MetricEntity, Key: "train/loss.1", Op: OpEqual, Number: 1}},
	"metrics.'train loss'=1":      {{Entity: MetricEntity, Key: "train loss", Op: OpEqual, Number: 1}},
	"metrics.val.top5.1st = 1":    {{Entity: MetricEntity, Key: "val.top5.1st", Op: OpEqual, Number: 1}},
	"metrics.5_fold = 1":          {{Entity: MetricEntity, Key: "5_fold", Op: OpEqual, Number: 1}},
	"metrics.in = 1":              {{Entity: MetricEntity, Key: "in", Op: OpEqual, Number: 1}},
	"metrics.created = 1":         {{Entity: MetricEntity, Key: "created", Op: OpEqual, Number: 1}},
	"metrics.損失 = 1":              {{Entity: MetricEntity, Key: "損失", Op: OpEqual, Number: 1}},
	"params.lr = '0.1'":           {{Entity: ParamEntity, Key: "lr", Op: OpEqual, Text: "0.1"}},
	"param.lr = '0.1'":            {{Entity: ParamEntity, Key: "lr", Op: OpEqual, Text: "0.1"}},
	"parameter.lr = '0.1'":        {{Entity: ParamEntity, Key: "lr", Op: OpEqual, Text: "0.1"}},
	"parameters.lr = '0.1'":       {{Entity: ParamEntity, Key: "lr", Op: OpEqual, Text: "0.1"}},
	"tag.team != 'x'":             {{Entity: TagEntity, Key: "team", Op: OpNotEqual, Text: "x"}},
	"tags.mlflow.user = 'x'":      {{Entity: TagEntity, Key: "mlflow.user", Op: OpEqual, Text: "x"}},
	"tags.`mlflow.user` = 'x'":    {{Entity: TagEntity, Key: "mlflow.user", Op: OpEqual, Text: "x"}},
	"dataset.name LIKE 'a%'":      {{Entity: DatasetEntity, Key: "name", Op: OpLike, Text: "a%"}},
	"datasets.`digest` = 'a'":     {{Entity: DatasetEntity, Key: "digest", Op: OpEqual, Text: "a"}},
	"dataset.context IN ('a')":    {{Entity: DatasetEntity, Key: "context", Op: OpIn, List: []string{"a"}}},
	"status = 'RUNNING'":          {{Entity: Attribute, Key: "status", Op: OpEqual, Text: "RUNNING"}},
	"attributes.user_id = 'x'":    {{Entity: Attribute, Key: "user_id", Op: OpEqual, Text: "x"}},
	"attribute.run_name='x'":      {{Entity: Attribute, Key: "run_name", Op: OpEqual, Text: "x"}},
	"attr.`Run name` = 'x'":       {{Entity: Attribute, Key: "run_name", Op: OpEqual, Text: "x"}},
	`"run name" = 'x'`:            {{Entity: Attribute, Key: "run_name", Op: OpEqual, Text: "x"}},
	"`Run Name` = 'x'":            {{Entity: Attribute, Key: "run_name", Op: OpEqual, Text: "x"}},
	"run.artifact_uri ILIKE '%x'": {{Entity: Attribute, Key: "artifact_uri", Op: OpILike, Text: "%x"}},

	// Texts are as written; either quote may hold the other.
	`params.a = "it's"`:      {{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: "it's"}},
	"params.a = 'it''s'":     {{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: "it''s"}},
	`params.a = 'it\'s'`:     {{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: `it\'s`}},
	`params.a = 'C:\'`:       {{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: `C:\`}},
	"params.a = ''":          {{Entity: ParamEntity, Key: "a", Op: OpEqual}},
	"params.a = 'x AND y;'":  {{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: "x AND y;"}},
	"params.a='x\n-- ü'":     {{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: "x\n-- ü"}},
	`params.a LIKE '50\%\\'`: {{Entity: ParamEntity, Key: "a", Op: OpLike, Text: `50\%\\`}},

	// Numbers.
	"metrics.a>-.5":                    {{Entity: MetricEntity, Key: "a", Op: OpGreater, Number: -.5}},
	"metrics.a > 5.":                   {{Entity: MetricEntity, Key: "a", Op: OpGreater, Number: 5}},
	"metrics.a > 1.5E-3":               {{Entity: MetricEntity, Key: "a", Op: OpGreater, Number: .0015}},
	"metrics.a > 1e+20":                {{Entity: MetricEntity, Key: "a", Op: OpGreater, Number: 1e20}},
	"metrics.a < 1e400":                {{Entity: MetricEntity, Key: "a", Op: OpLess, Number: math.Inf(1)}},
	"metrics.a > -1e400":               {{Entity: MetricEntity, Key: "a", Op: OpGreater, Number: math.Inf(-1)}},
	"start_time >= 1664067852747":      {{Entity: Attribute, Key: "start_time", Op: OpGreaterOrEqual, Int: 1664067852747}},
	"end_time != 9223372036854775807":  {{Entity: Attribute, Key: "end_time", Op: OpNotEqual, Int: math.MaxInt64}},
	"created > -9223372036854775808":   {{Entity: Attribute, Key: "start_time", Op: OpGreater, Int: math.MinInt64}},
	"Created = 1e3":                    {{Entity: Attribute, Key: "start_time", Op: OpEqual, Int: 1000}},
	"created > 1.5":                    {{Entity: Attribute, Key: "start_time", Op: OpGreater, Int: 1}},
	"created >= 1.5":                   {{Entity: Attribute, Key: "start_time", Op: OpGreaterOrEqual, Int: 2}},
	"attributes.created < -1.5":        {{Entity: Attribute, Key: "start_time", Op: OpLess, Int: -1}},
	"attributes.\"created\" <= -1.5":   {{Entity: Attribute, Key: "start_time", Op: OpLessOrEqual, Int: -2}},
	"attributes.'end_time' <= 00123":   {{Entity: Attribute, Key: "end_time", Op: OpLessOrEqual, Int: 123}},
	"attribute.`start_time` <= 1.0e+3": {{Entity: Attribute, Key: "start_time", Op: OpLessOrEqual, Int: 1000}},

	// Lists.
	"run_id IN ('a', \"b\")":    {{Entity: Attribute, Key: "run_id", Op: OpIn, List: []string{"a", "b"}}},
	"run_id not\tin('a','b',)":  {{Entity: Attribute, Key: "run_id", Op: OpNotIn, List: []string{"a", "b"}}},
	`dataset.name IN ('a\'\\')`: {{Entity: DatasetEntity, Key: "name", Op: OpIn, List: []string{`a'\`}}},
	`dataset.name IN ('\u00e9')`: {
		{Entity: DatasetEntity, Key: "name", Op: OpIn, List: []string{"é"}},
	},

	// Existence.
	"tags.a IS NULL":          {{Entity: TagEntity, Key: "a", Op: OpIsNull}},
	"params.a is \n not null": {{Entity: ParamEntity, Key: "a", Op: OpIsNotNull}},

	// Several conditions, white space, keywords in any case, and an AND at an end.
	"params.a='x'AND params.b iLIKE'y'": {
		{Entity: ParamEntity, Key: "a", Op: OpEqual, Text: "x"}, {Entity: ParamEntity, Key: "b", Op: OpILike, Text: "y"},
	},
	"\u00a0tags.a\u2003=\v'x'\r\nand\tmetrics.b\n>\f1 ": {
		{Entity: TagEntity, Key: "a", Op: OpEqual, Text: "x"}, {Entity: MetricEntity, Key: "b", Op: OpGreater, Number: 1},
	},
	"tags.`a\\` = 'x' AND tags.`b` = 'y'": {
		{Entity: TagEntity, Key: `a\`, Op: OpEqual, Text: "x"}, {Entity: TagEntity, Key: "b", Op: OpEqual, Text: "y"},
	},
	"AND metrics.a = 1 and ": {{Entity: MetricEntity, Key: "a", Op: OpEqual, Number: 1}},
}

// refusedRunFilters are refused filters over runs, with the message, or its start.
var refusedRunFilters = map[string]string{
	// Shapes.
	" ":                                 "Invalid filter ' '. Could not be parsed.",
	"AND":                               "Invalid filter 'AND'. Could not be parsed.",
	"metrics.a":                         "Invalid clause(s) in filter string: 'metrics.a'",
	"metrics.a >":                       "Invalid clause(s) in filter string: 'metrics.a', '>'",
	"metrics.a = = 1":                   "Invalid clause(s) in filter string: 'metrics.a', '=', '='",
	"metrics.a > 1 OR metrics.b > 1":    "Invalid clause(s) in filter string: 'OR'",
	"metrics.a > 1 metrics.b > 1":       "Invalid clause(s) in filter string: 'metrics.b'",
	"metrics.a > 1 AND AND tags.b = ''": "Invalid clause(s) in filter string: 'AND', 'tags.b'",
	"(metrics.a > 1)":                   "Invalid clause(s) in filter string: '('",
	"metrics.a > 1;":                    "Invalid clause(s) in filter string: ';'",
	"metrics.a > 1; tags.b = 'x'": "Search filter contained multiple expression 'metrics.a > 1; tags.b = 'x''. " +
		"Provide AND-ed expression list.",
	"metrics.a > 1 -- why":          "Invalid clause(s) in filter string: '-'",
	"/* why */ metrics.a > 1":       "Invalid clause(s) in filter string: '/'",
	"1 < metrics.a":                 "Invalid comparison clause. Expected 'Identifier' found '1'",
	"'start_time' > 1":              "Invalid comparison clause. Expected 'Identifier' found ''start_time''",
	"params.a = 'x":                 "Invalid clause(s) in filter string: 'params.a', '=', '''",
	`tags.a = 'x\' AND tags.b = ''`: "Invalid clause(s) in filter string: '''",
	"`metrics.a > 1":                "Invalid clause(s) in filter string: '`'",
	"run_id IN 'a'":                 "Invalid clause(s) in filter string: 'run_id', 'IN', ''a''",
	"run_id IN ('a'":                "Invalid clause(s) in filter string: 'run_id', 'IN', '('",
	"run_id IN (('a'))":             "Invalid clause(s) in filter string: 'run_id', 'IN', '('",
	"status IS 'RUNNING'":           "Invalid clause(s) in filter string: 'status', 'IS', ''RUNNING''",
	"tags.a NOT NULL":               "Invalid clause(s) in filter string: 'tags.a', 'NOT', 'NULL'",
	"tags.a IS":                     "Invalid clause(s) in filter string: 'tags.a', 'IS'",
	"metrics.a BETWEEN 1 AND 2":     "Invalid clause(s) in filter string: 'metrics.a', 'BETWEEN'",
	"metrics.a-b > 1":               "Invalid clause(s) in filter string: 'metrics.a', '-'",
	"metrics. a > 1":                "Invalid clause(s) in filter string: 'metrics.', 'a'",
	"metrics.a DESC > 1":            "Invalid clause(s) in filter string: 'metrics.a', 'DESC'",
	"metrics.'a'.b > 1":             "Invalid clause(s) in filter string: 'metrics.'a'', '.'",
	"metrics.a > 12a":               "Invalid clause(s) in filter string: 'metrics.a', '>', '12a'",
	"metrics.a > 0x1F":              "Invalid clause(s) in filter string: 'metrics.a', '>', '0x1F'",
	"metrics.a > +1":                "Invalid clause(s) in filter string: 'metrics.a', '>', '+'",

	// Keys.
	"loss > 1":          "Invalid attribute key 'loss' specified. Valid keys are '{'artifact_uri', 'end_time', 'run_id', 'run_name', 'start_time', 'status', 'user_id'}'",
	"experiment_id='0'": "Invalid attribute key 'experiment_id' specified. Valid keys are '{",
	"RUN_ID = 'x'":      "Invalid attribute key 'RUN_ID' specified. Valid keys are '{",
	"Metrics.a > 1":     "Invalid entity type 'Metrics'. Valid values are ['metric', 'parameter', 'tag', 'attribute', 'dataset']",
	"`metrics.a` > 1":   "Invalid entity type '`metrics'. Valid values are [",
	`"tags".a = 'x'`:    `Invalid entity type '"tags"'. Valid values are [`,
	"`tags``.` = 'x'":   "Invalid entity type 'tags`'. Valid values are [",
	"dataset.size='x'":  "Invalid dataset key 'size' specified. Valid keys are '{'name', 'digest', 'context'}'",
	"metrics. > 1":      "filter has an empty metric key; give a key.",
	"tags.`` = 'x'":     "filter has an empty tag key; give a key.",
	"tags." + strings.Repeat("ü", 251) + " = 'x'": "filter has the key '" + strings.Repeat("ü", 100) + "…', which is too long; use at most 250 characters.",

	// Values.
	"metrics.a > '5'":                "Expected numeric value type for metric. Found '5'",
	"metrics.a > NaN":                "Expected numeric value type for metric. Found NaN",
	"metrics.a = metrics.b":          "Expected numeric value type for metric. Found metrics.b",
	"metrics.a IN (1,2)":             "Expected numeric value type for metric. Found (1,2)",
	"created > 'now'":                "Expected numeric value type for numeric attribute: start_time. Found 'now'",
	"created > 1e19":                 "Invalid value for numeric attribute 'start_time': '1e19'",
	"created = 1.5":                  "Invalid value for numeric attribute 'start_time': '1.5'",
	"created < 9223372036854775808":  "Invalid value for numeric attribute 'start_time': '9223372036854775808'",
	"created > -9223372036854775809": "Invalid value for numeric attribute 'start_time': '-9223372036854775809'",
	"params.a = 5":                   "Expected a quoted string value for parameter (e.g. 'my-value'). Got value 5",
	"params.a IN ('b')":              "Expected a quoted string value for parameter (e.g. 'my-value'). Got value ('b')",
	"tags.a = 5":                     "Expected a quoted string value for tag (e.g. 'my-value'). Got value 5",
	"status = 5":                     "Expected a quoted string value for attributes. Got value 5",
	"dataset.name = 5":               "Expected a quoted string value for dataset attributes. Got value 5",
	"tags.a = b":                     "Parameter value is either not quoted or unidentified quote types used for string value b. Use either single or double quotes.",
	"tags.a = `b`":                   "Parameter value is either not quoted or unidentified quote types used for string value `b`. Use either single or double quotes.",
	`tags.a = "b"."c"`:               `Parameter value is either not quoted or unidentified quote types used for string value "b"."c". Use either single or double quotes.`,
	"tags.a LIKE 'b\\'":              "filter has a LIKE pattern that ends with a single backslash; write two.",
	`tags.a ILIKE 'b\\\'`:            "filter has a LIKE pattern that ends with a single backslash; write two.",

	// Lists.
	"run_id IN ()":          "While parsing a list in the query, expected a non-empty list of string values, but got empty list",
	"run_id IN ('a' 'b')":   "While parsing a list in the query, expected a non-empty list of string values, but got ill-formed list.",
	"run_id IN ('a''b')":    "While parsing a list in the query, expected a non-empty list of string values, but got ill-formed list.",
	"run_id IN (,)":         "While parsing a list in the query, expected a non-empty list of string values, but got ill-formed list.",
	"run_id IN ('a', b)":    "While parsing a list in the query, expected a non-empty list of string values, but got ill-formed list.",
	`run_id IN ('\x00')`:    "While parsing a list in the query, expected a non-empty list of string values, but got ill-formed list.",
	"run_id IN ('a', 1)":    "While parsing a list in the query, expected string value, punctuation, or whitespace, but got different type in list: ('a', 1)",
	"status IN ('RUNNING')": "Only ['run_id'] attributes support comparison with a list of quoted string values.",
	"run_id = ('a')":        "Invalid comparator '=' for a list of values; use IN or NOT IN.",

	// Operators.
	"metrics.a LIKE 1":       "Invalid comparator 'LIKE' not one of '{'=', '!=', '>', '>=', '<', '<='}'",
	"created == 1":           "Invalid comparator '==' not one of '{'=', '!=', '>', '>=', '<', '<='}'",
	"params.a > 'x'":         "Invalid comparator '>' not one of '{'=', '!=', 'LIKE', 'ILIKE', 'IS NULL', 'IS NOT NULL'}'",
	"tags.a not like 'x'":    "Invalid comparator 'NOT LIKE' not one of '{",
	"tags.a RLIKE 'x'":       "Invalid comparator 'RLIKE' not one of '{",
	"tags.a <> 'x'":          "Invalid comparator '<>' not one of '{",
	"status ~ 'x'":           "Invalid comparator '~' not one of '{'=', '!=', 'LIKE', 'ILIKE', 'IN', 'NOT IN'}'",
	"dataset.name < 'x'":     "Invalid comparator '<' not one of '{",
	"metrics.a IS NULL":      "IS NULL / IS NOT NULL is only supported for tags and params, not for 'metric' 'a'",
	"end_time IS NOT NULL":   "IS NULL / IS NOT NULL is only supported for tags and params, not for 'attribute' 'end_time'",
	"dataset.name is null":   "IS NULL / IS NOT NULL is only supported for tags and params, not for 'dataset' 'name'",
	"tags.a = 'x\x00'":       "filter holds a NUL byte; leave it out.",
	"tags.a = '\xff'":        "filter is not valid UTF-8.",
	"metrics.a > 1 \x01 AND": "Invalid clause(s) in filter string: '\x01'",
}

var experimentFilters = map[string][]Condition{
	"":                                nil,
	"name LIKE 'x%'":                  {{Entity: Attribute, Key: "name", Op: OpLike, Text: "x%"}},
	"attribute.name != \"x\"":         {{Entity: Attribute, Key: "name", Op: OpNotEqual, Text: "x"}},
	"`name` ilike 'x'":                {{Entity: Attribute, Key: "name", Op: OpILike, Text: "x"}},
	"experiment_id = '0'":             {{Entity: Attribute, Key: "experiment_id", Op: OpEqual, Text: "0"}},
	"experiment_id not in ('1','-2')": {{Entity: Attribute, Key: "experiment_id", Op: OpNotIn, List: []string{"1", "-2"}}},
	"creation_time > 5":               {{Entity: Attribute, Key: "creation_time", Op: OpGreater, Int: 5}},
	"last_update_time<=-5":            {{Entity: Attribute, Key: "last_update_time", Op: OpLessOrEqual, Int: -5}},
	"tags.a = 'x' AND tag.b IS NULL":  {{Entity: TagEntity, Key: "a", Op: OpEqual, Text: "x"}, {Entity: TagEntity, Key: "b", Op: OpIsNull}},
}

var refusedExperimentFilters = map[string]string{
	"metrics.a > 1":          "Invalid entity type 'metrics'. Valid entity types are ('attribute', 'tag', 'tags')",
	"attributes.name = 'x'":  "Invalid entity type 'attributes'. Valid entity types are (",
	"created > 1":            "Invalid attribute key 'created' specified. Valid keys are '{'creation_time', 'experiment_id', 'last_update_time', 'name'}'",
	"name IN ('x')":          "Only ['experiment_id'] attributes support comparison with a list of quoted string values.",
	"name > 'x'":             "Invalid comparator '>' not one of '{",
	"name IS NULL":           "IS NULL / IS NOT NULL is only supported for tags, not for attribute 'name'",
	"experiment_id = 0":      "Expected a quoted string value for attributes. Got value 0",
	"experiment_id = 'x'":    "Invalid experiment ID 'x'. Experiment ID must be a valid integer.",
	"experiment_id = '007'":  "Invalid experiment ID '007'. Experiment ID must be a valid integer.",
	"experiment_id IN ('')":  "Invalid experiment ID ''. Experiment ID must be a valid integer.",
	"experiment_id LIKE '1'": "Invalid comparator 'LIKE' not one of '{'=', '!=', 'IN', 'NOT IN'}'",
	"creation_time > 1.5":    "Invalid value for numeric attribute 'creation_time': '1.5'",
	"tags.a IN ('x')":        "Expected a quoted string value for tag (e.g. 'my-value'). Got value ('x')",
}

func TestFilters(t *testing.T) {
	for filter, want := range runFilters {
		got, err := ParseRunFilter(filter)
		require.NoError(t, err, "%q", filter)
		require.Equal(t, want, got, "%q", filter)
	}
	for filter, want := range experimentFilters {
		got, err := ParseExperimentFilter(filter)
		require.NoError(t, err, "%q", filter)
		require.Equal(t, want, got, "%q", filter)
	}
}

func TestRefusedFilters(t *testing.T) {
	for filter, want := range refusedRunFilters {
		got, err := ParseRunFilter(filter)
		requireRefused(t, err, "filter", want, filter)
		require.Nil(t, got)
	}
	for filter, want := range refusedExperimentFilters {
		got, err := ParseExperimentFilter(filter)
		requireRefused(t, err, "filter", want, filter)
		require.Nil(t, got)
	}
}

// requireRefused takes the whole message, or its start if it names a set.
func requireRefused(t *testing.T, err error, field, want string, input any) {
	t.Helper()
	require.True(t, domain.IsCode(err, domain.CodeInvalid), "%q: %v", input, err)
	require.Equal(t, field, domain.AsError(err).Field)
	if strings.HasSuffix(want, "{") || strings.HasSuffix(want, "[") || strings.HasSuffix(want, "(") && !strings.HasSuffix(want, "'(") {
		require.True(t, strings.HasPrefix(err.Error(), want), "%q: %v", input, err)
		return
	}
	require.Equal(t, want, err.Error(), "%q", input)
}

func TestFilterBounds(t *testing.T) {
	conditions := strings.Repeat("metrics.a > 1 AND ", maxConditions)
	got, err := ParseRunFilter(conditions)
	require.NoError(t, err)
	require.Len(t, got, maxConditions)
	_, err = ParseRunFilter(conditions + "metrics.a > 1")
	requireRefused(t, err, "filter", "filter has more than 100 conditions; use fewer.", "")

	run := fmt.Sprintf(`"%032x", `, 1)
	got, err = ParseRunFilter("attributes.run_id NOT IN (" + strings.Repeat(run, maxListed) + ")")
	require.NoError(t, err)
	require.Len(t, got[0].List, maxListed)
	for _, end := range []string{"'b'", "'b')", "'b', 'c', 'd')"} {
		_, err = ParseRunFilter("run_id IN (" + strings.Repeat("'a', ", maxListed) + end)
		requireRefused(t, err, "filter", "filter has a list of more than 10000 values; use fewer.", "")
	}

	text := strings.Repeat("x", maxFilter-len("tags.a = ''"))
	got, err = ParseRunFilter("tags.a = '" + text + "'")
	require.NoError(t, err)
	require.Equal(t, text, got[0].Text)
	_, err = ParseRunFilter("tags.a = '" + text + "' ")
	requireRefused(t, err, "filter", "filter has 524289 bytes; use at most 524288.", "")

	key := strings.Repeat("本", maxSearchKey)
	got, err = ParseRunFilter("tags.`" + key + "` = 'x'")
	require.NoError(t, err)
	require.Equal(t, key, got[0].Key)
}

// TestHugeFilters ends in time only because no character is read more often than a few times.
func TestHugeFilters(t *testing.T) {
	for _, part := range []string{
		"'", `"`, "`", `\'`, "''", "`\"'", "a.'", "1", "1a", "-", ".", "1.", "a", "a.", "=", "(", ")", ",", "'a',", "NOT ", "IS ", " ", "ü", "AND ", "`.", `".`,
	} {
		for _, start := range []string{"", "tags.a = ", "run_id IN ('a', "} {
			_, err := ParseRunFilter((start + strings.Repeat(part, maxFilter))[:maxFilter])
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%q: %v", start+part, err)
			require.Less(t, len(err.Error()), 1000)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for filter := range runFilters {
		f.Add(filter)
	}
	for filter := range refusedRunFilters {
		f.Add(filter)
	}
	for filter := range experimentFilters {
		f.Add(filter)
	}
	for item := range runOrders {
		f.Add(item)
	}
	for item := range refusedRunOrders {
		f.Add(item)
	}
	f.Fuzz(func(t *testing.T, input string) {
		conditions, err := ParseRunFilter(input)
		requireSound(t, conditions, err, "filter")
		for _, c := range conditions {
			requireSoundCondition(t, c)
		}
		conditions, err = ParseExperimentFilter(input)
		requireSound(t, conditions, err, "filter")
		for _, c := range conditions {
			requireSoundCondition(t, c)
			require.Contains(t, []Entity{Attribute, TagEntity}, c.Entity)
		}
		for _, parse := range []func([]string) ([]Order, error){ParseRunOrder, ParseExperimentOrder} {
			orders, err := parse([]string{input})
			requireSound(t, orders, err, "order_by")
			for _, o := range orders {
				requireSoundKey(t, o.Key)
				require.NotEqual(t, DatasetEntity, o.Entity)
			}
		}
	})
}

// requireSound allows a result or an error of the caller's, never both.
func requireSound[T any](t *testing.T, found []T, err error, field string) {
	t.Helper()
	require.LessOrEqual(t, len(found), maxConditions)
	if err != nil {
		require.Empty(t, found)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
		require.Equal(t, field, domain.AsError(err).Field)
	}
}

func requireSoundKey(t *testing.T, key string) {
	t.Helper()
	require.NotEmpty(t, key)
	require.LessOrEqual(t, utf8.RuneCountInString(key), maxSearchKey)
	require.NoError(t, domain.ValidText("key", key, maxFilter))
}

func requireSoundCondition(t *testing.T, c Condition) {
	t.Helper()
	requireSoundKey(t, c.Key)
	listed := c.Op == OpIn || c.Op == OpNotIn
	require.Equal(t, listed, len(c.List) > 0)
	require.LessOrEqual(t, len(c.List), maxListed)
	for _, text := range append(slices.Clone(c.List), c.Text) {
		require.NoError(t, domain.ValidText("text", text, maxFilter))
	}
	require.False(t, math.IsNaN(c.Number))
	require.True(t, c.Number == 0 || c.Entity == MetricEntity)
	require.True(t, c.Int == 0 || c.Entity == Attribute && strings.HasSuffix(c.Key, "_time"))
	require.True(t, c.Text == "" || c.Entity != MetricEntity && c.List == nil)
}
