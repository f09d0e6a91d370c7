package domain

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRunEvents(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const good = `{"eventType":"START","eventTime":"2026-03-01T13:00:00.123456+01:00","producer":"p","schemaURL":"s","run":{"runId":"01957c2e-8a4b-7c3d-9e1f-000000000001","facets":{"x":{"deep":[{}]}}},
		"job":{"namespace":"n","name":"j"},"inputs":[{"namespace":"a","name":"b","facets":{"schema":{"fields":[]}}}]}`
	change := func(old, fresh string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, fresh, 1)
	}
	for name, c := range map[string]struct {
		body, says string
		code       Code
	}{
		"one":                {body: good},
		"several":            {body: " [" + good + "," + good + "]"},
		"none":               {"[]", "no event", CodeInvalid},
		"without a type":     {body: change(`"eventType":"START",`, "")},
		"not JSON":           {"{", "not JSON", CodeInvalid},
		"a string":           {`"x"`, "cannot be", CodeInvalid},
		"wrong type":         {change(`"START"`, "7"), "eventType", CodeInvalid},
		"unknown type":       {change("START", "BEGIN"), "START, RUNNING", CodeInvalid},
		"in an array":        {"[" + good + "," + change("START", "BEGIN") + "]", "[1].eventType", CodeInvalid},
		"no run":             {change(`"run":`, `"ran":`), "RunEvent", CodeInvalid},
		"no job":             {change(`"job":`, `"work":`), "job is missing", CodeInvalid},
		"no UUID":            {change("01957c2e-", "run-"), "UUID", CodeInvalid},
		"no producer":        {change(`"producer":"p",`, ""), "producer", CodeInvalid},
		"no time":            {change("2026-03-01T13", "yesterday"), "eventTime", CodeInvalid},
		"the future":         {change("2026-03-01T13", "2027-03-01T13"), "clock", CodeInvalid},
		"no name":            {change(`"name":"b"`, `"name":""`), "inputs[0]", CodeInvalid},
		"no namespace":       {change(`"namespace":"n",`, ""), "job has no namespace", CodeInvalid},
		"a long name":        {change(`"name":"b"`, `"name":"`+strings.Repeat("b", 2000)+`"`), "2000 bytes", CodeInvalid},
		"too many":           {"[" + strings.Repeat("{},", 1000) + "{}]", "at most 1000", CodeInvalid},
		"too large":          {change(`"name":"b"`, `"name":"`+strings.Repeat("b", MaxLineageBody)+`"`), "at most", CodeTooLarge},
		"too many datasets":  {change(`"inputs":[`, `"inputs":[`+strings.Repeat(`{"namespace":"a","name":"b"},`, 1000)), "1001 datasets", CodeInvalid},
		"a facet of no sort": {change(`"schema":{"fields":[]}`, `"columnLineage":{"fields":[]}`), "fields", CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := ParseRunEvents([]byte(c.body), now)
			if c.code == "" {
				require.NoError(t, err)
				for _, e := range events {
					require.Equal(t, now, e.at, "of what is ahead by a little, it is now")
				}
				return
			}
			require.True(t, IsCode(err, c.code), "%v", err)
			require.Contains(t, AsError(err).Message, c.says)
			require.Less(t, len(AsError(err).Message), 1000)
		})
	}
}
