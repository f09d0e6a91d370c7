package lineage

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
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
		code       domain.Code
	}{
		"one":                {body: good},
		"several":            {body: " [" + good + "," + good + "]"},
		"none":               {"[]", "no event", domain.CodeInvalid},
		"without a type":     {body: change(`"eventType":"START",`, "")},
		"not JSON":           {"{", "not JSON", domain.CodeInvalid},
		"a string":           {`"x"`, "cannot be", domain.CodeInvalid},
		"wrong type":         {change(`"START"`, "7"), "eventType", domain.CodeInvalid},
		"unknown type":       {change("START", "BEGIN"), "START, RUNNING", domain.CodeInvalid},
		"in an array":        {"[" + good + "," + change("START", "BEGIN") + "]", "[1].eventType", domain.CodeInvalid},
		"no run":             {change(`"run":`, `"ran":`), "RunEvent", domain.CodeInvalid},
		"no job":             {change(`"job":`, `"work":`), "job is missing", domain.CodeInvalid},
		"no UUID":            {change("01957c2e-", "run-"), "UUID", domain.CodeInvalid},
		"no producer":        {change(`"producer":"p",`, ""), "producer", domain.CodeInvalid},
		"no time":            {change("2026-03-01T13", "yesterday"), "eventTime", domain.CodeInvalid},
		"the future":         {change("2026-03-01T13", "2027-03-01T13"), "clock", domain.CodeInvalid},
		"no name":            {change(`"name":"b"`, `"name":""`), "inputs[0]", domain.CodeInvalid},
		"no namespace":       {change(`"namespace":"n",`, ""), "job has no namespace", domain.CodeInvalid},
		"a long name":        {change(`"name":"b"`, `"name":"`+strings.Repeat("b", 2000)+`"`), "2000 bytes", domain.CodeInvalid},
		"too many":           {"[" + strings.Repeat("{},", 1000) + "{}]", "at most 1000", domain.CodeInvalid},
		"too large":          {change(`"name":"b"`, `"name":"`+strings.Repeat("b", MaxBody)+`"`), "at most", domain.CodeTooLarge},
		"too many datasets":  {change(`"inputs":[`, `"inputs":[`+strings.Repeat(`{"namespace":"a","name":"b"},`, 1000)), "1001 datasets", domain.CodeInvalid},
		"a facet of no sort": {change(`"schema":{"fields":[]}`, `"columnLineage":{"fields":[]}`), "fields", domain.CodeInvalid},
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
			require.True(t, domain.IsCode(err, c.code), "%v", err)
			require.Contains(t, domain.AsError(err).Message, c.says)
			require.Less(t, len(domain.AsError(err).Message), 1000)
		})
	}
}
