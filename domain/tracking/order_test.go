package tracking

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runOrders are items of order_by over runs.
var runOrders = map[string]Order{
	"metrics.loss":                        {Entity: MetricEntity, Key: "loss"},
	"metrics.loss DESC":                   {Entity: MetricEntity, Key: "loss", Descending: true},
	"metric.`val loss` \t dEsC":           {Entity: MetricEntity, Key: "val loss", Descending: true},
	`params."a b" asc`:                    {Entity: ParamEntity, Key: "a b"},
	"parameter.'a b'":                     {Entity: ParamEntity, Key: "a b"},
	"`tags`.mlflow.user":                  {Entity: TagEntity, Key: "mlflow.user"},
	"tags.desc desc":                      {Entity: TagEntity, Key: "desc", Descending: true},
	"start_time ASC":                      {Entity: Attribute, Key: "start_time"},
	"attributes.end_time":                 {Entity: Attribute, Key: "end_time"},
	"Created\nDESC":                       {Entity: Attribute, Key: "start_time", Descending: true},
	"run.created":                         {Entity: Attribute, Key: "start_time"},
	`"run_id"`:                            {Entity: Attribute, Key: "run_id"},
	"attr.`artifact_uri` DESC":            {Entity: Attribute, Key: "artifact_uri", Descending: true},
	"metrics." + strings.Repeat("本", 250): {Entity: MetricEntity, Key: strings.Repeat("本", 250)},
}

var refusedRunOrders = map[string]string{
	"":                                 "Invalid order_by clause ''. Could not be parsed.",
	" metrics.a":                       "Invalid order_by clause ' metrics.a'. Could not be parsed.",
	" metrics.a DESC":                  "Invalid order_by clause ' metrics.a DESC'. Could not be parsed.",
	"metrics.a ":                       "Invalid order_by clause 'metrics.a '. Could not be parsed.",
	"metrics.a DESC ":                  "Invalid order_by clause 'metrics.a DESC '. Could not be parsed.",
	"metrics.a DESC NULLS LAST":        "Invalid order_by clause 'metrics.a DESC NULLS LAST'. Could not be parsed.",
	"metrics.`a`DESC":                  "Invalid order_by clause 'metrics.`a`DESC'. Could not be parsed.",
	"metrics.a, metrics.b":             "Invalid order_by clause 'metrics.a, metrics.b'. Could not be parsed.",
	"metrics.a;":                       "Invalid order_by clause 'metrics.a;'. Could not be parsed.",
	"metrics.a > 1":                    "Invalid order_by clause 'metrics.a > 1'. Could not be parsed.",
	"`metrics.a":                       "Invalid order_by clause '`metrics.a'. Could not be parsed.",
	"'start_time'":                     "Invalid order_by clause ''start_time''. Could not be parsed.",
	"1":                                "Invalid order_by clause '1'. Could not be parsed.",
	"metrics.a descending":             "Invalid ordering key in order_by clause 'metrics.a descending'.",
	"loss":                             "Invalid attribute key 'loss' specified. Valid keys are '{'artifact_uri', 'end_time', 'run_id', 'run_name', 'start_time', 'status', 'user_id'}'",
	"`metrics.a`":                      "Invalid entity type '`metrics'. Valid values are ['metric', 'parameter', 'tag', 'attribute', 'dataset']",
	"dataset.name":                     "Invalid identifier type 'dataset'",
	"metrics.``":                       "order_by has an empty metric key; give a key.",
	"metrics.a\x00":                    "order_by holds a NUL byte; leave it out.",
	"metrics.`\xff`":                   "order_by is not valid UTF-8.",
	strings.Repeat("x", 2049):          "order_by has 2049 bytes; use at most 2048.",
	"tags." + strings.Repeat("x", 251): "order_by has the key '" + strings.Repeat("x", 200) + "…', which is too long; use at most 250 characters.",
}

func TestRunOrder(t *testing.T) {
	for item, want := range runOrders {
		got, err := ParseRunOrder([]string{item})
		require.NoError(t, err, "%q", item)
		require.Equal(t, []Order{want}, got, "%q", item)
	}
	for item, want := range refusedRunOrders {
		got, err := ParseRunOrder([]string{"metrics.first", item})
		requireRefused(t, err, "order_by", want, item)
		require.Nil(t, got)
	}
	got, err := ParseRunOrder(nil)
	require.NoError(t, err)
	require.Empty(t, got)

	got, err = ParseRunOrder([]string{"params.a", "metrics.a DESC", "start_time"})
	require.NoError(t, err)
	require.Equal(t, []Order{
		{Entity: ParamEntity, Key: "a"}, {Entity: MetricEntity, Key: "a", Descending: true}, {Entity: Attribute, Key: "start_time"},
	}, got)
	_, err = ParseRunOrder([]string{"start_time", "metrics.a", "created DESC"})
	requireRefused(t, err, "order_by", "`order_by` contains duplicate fields: ['start_time', 'metrics.a', 'created DESC']", "")

	var most []string
	for i := range maxOrders {
		most = append(most, "metrics.m"+strconv.Itoa(i))
	}
	got, err = ParseRunOrder(most)
	require.NoError(t, err)
	require.Len(t, got, maxOrders)
	_, err = ParseRunOrder(append(slices.Clone(most), "run_id"))
	requireRefused(t, err, "order_by", "order_by has 21 items; use at most 20.", "")
}

func TestExperimentOrder(t *testing.T) {
	got, err := ParseExperimentOrder([]string{"name", "attribute.creation_time DESC", "name DESC", "last_update_time asc", "experiment_id"})
	require.NoError(t, err)
	require.Equal(t, []Order{
		{Entity: Attribute, Key: "name"},
		{Entity: Attribute, Key: "creation_time", Descending: true},
		{Entity: Attribute, Key: "last_update_time"},
		{Entity: Attribute, Key: "experiment_id"},
	}, got)
	for item, want := range map[string]string{
		"tags.a":     "Invalid order_by entity: tag",
		"metrics.a":  "Invalid entity type 'metrics'. Valid entity types are ('attribute', 'tag', 'tags')",
		"start_time": "Invalid attribute key 'start_time' specified. Valid keys are '{'creation_time', 'experiment_id', 'last_update_time', 'name'}'",
		"name x":     "Invalid ordering key in order_by clause 'name x'.",
	} {
		got, err := ParseExperimentOrder([]string{item})
		requireRefused(t, err, "order_by", want, item)
		require.Nil(t, got)
	}
}
