package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// MetricValue is a number, or the text NaN, Infinity or -Infinity.
type MetricValue float64

// MarshalJSON implements json.Marshaler.
func (v MetricValue) MarshalJSON() ([]byte, error) { return appendValue(nil, float64(v)), nil }

func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *MetricValue) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"NaN"`:
		*v = MetricValue(math.NaN())
		return nil
	case `"Infinity"`:
		*v = MetricValue(math.Inf(1))
		return nil
	case `"-Infinity"`:
		*v = MetricValue(math.Inf(-1))
		return nil
	}
	var number float64
	err := json.Unmarshal(b, &number)
	*v = MetricValue(number)
	if err != nil || string(b) == "null" {
		return errNotANumber()
	}
	return nil
}

func errNotANumber() error {
	return domain.Invalid("value", `The value of a metric is a number, or "NaN", "Infinity" or "-Infinity".`)
}

// Schema implements huma.SchemaProvider.
func (MetricValue) Schema(huma.Registry) *huma.Schema {
	return documented("A number, or the text NaN, Infinity or -Infinity.", 0.25,
		map[string]any{"type": "number"}, map[string]any{"type": "string", "enum": []string{"NaN", "Infinity", "-Infinity"}})
}

// documented is a schema that shows alternatives, and leaves it to the type to refuse others: its
// messages are clearer.
func documented(text string, example any, alternatives ...map[string]any) *huma.Schema {
	return &huma.Schema{Description: text, Examples: []any{example}, Extensions: map[string]any{"oneOf": alternatives}}
}

// MetricTime is a time of a metric in milliseconds.
type MetricTime int64

// MarshalJSON implements json.Marshaler.
func (t MetricTime) MarshalJSON() ([]byte, error) { return appendTime(nil, int64(t)), nil }

func appendTime(b []byte, ms int64) []byte {
	b = append(b, '"')
	b = time.UnixMilli(ms).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	return append(b, '"')
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *MetricTime) UnmarshalJSON(b []byte) error {
	var at time.Time
	if json.Unmarshal(b, &at) == nil && string(b) != "null" {
		*t = MetricTime(at.UnixMilli())
		return nil
	}
	ms, err := strconv.ParseInt(string(b), 10, 64)
	*t = MetricTime(ms)
	if err != nil {
		return domain.Invalid("timestamp", "A timestamp is a time in ISO 8601, or a whole number of milliseconds since 1970.")
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (MetricTime) Schema(huma.Registry) *huma.Schema {
	return documented("ISO 8601 in UTC, with milliseconds; in requests also a whole number of milliseconds since 1970.", "2026-03-01T08:30:00.000Z",
		map[string]any{"type": "string", "format": "date-time"}, map[string]any{"type": "integer"})
}

// NewMetric is a point to log.
type NewMetric struct {
	Key       string       `json:"key" example:"loss" doc:"At most 250 letters, digits, spaces and _-.:/ in a path's shortest form."`
	Value     *MetricValue `json:"value"`
	Step      int64        `json:"step,omitempty" doc:"0 by default."`
	Timestamp *MetricTime  `json:"timestamp,omitempty" doc:"Now by default."`
}

// LoggedMetric is a point as it was stored.
type LoggedMetric struct {
	Key       string      `json:"key" example:"loss"`
	Value     MetricValue `json:"value"`
	Step      int64       `json:"step"`
	Timestamp MetricTime  `json:"timestamp"`
}

// LastMetric is a metric with its latest point.
type LastMetric struct {
	LoggedMetric
	Points int64 `json:"points" doc:"Number of its points."`
}

// MetricPoint is a point of a metric's history.
type MetricPoint struct {
	Step      int64       `json:"step"`
	Value     MetricValue `json:"value"`
	Timestamp MetricTime  `json:"timestamp"`
}

// MetricHistory is a metric's whole history.
type MetricHistory struct {
	Data []MetricPoint `json:"data"`
}

// MetricBatch is points to log at once.
type MetricBatch struct {
	Metrics []NewMetric `json:"metrics"`
}

// UnmarshalJSON implements json.Unmarshaler. It accepts the array alone too.
func (m *MetricBatch) UnmarshalJSON(b []byte) error {
	if bytes.Contains(b, []byte("null")) {
		if err := withoutNulls(b); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var err error
	if isArray(b) {
		err = d.Decode(&m.Metrics)
	} else {
		type plain MetricBatch
		err = d.Decode((*plain)(m))
	}
	if field, unknown := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); unknown {
		return domain.Invalid("body", "There is no field %s here; leave it out.", field)
	}
	return err
}

func isArray(b []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) }

// withoutNulls refuses null for the points, and for each point's fields but the timestamp.
func withoutNulls(b []byte) error {
	var batch struct{ Metrics []map[string]json.RawMessage }
	var err error
	if isArray(b) {
		err = json.Unmarshal(b, &batch.Metrics)
	} else {
		err = json.Unmarshal(b, &batch)
	}
	if err == nil && batch.Metrics == nil {
		return domain.Invalid("body", "The value of \"metrics\" cannot be null.")
	}
	for i, point := range batch.Metrics {
		for field, value := range point {
			if string(value) == "null" && field != "timestamp" {
				return domain.Invalid("body", "The value of \"metrics[%d].%s\" cannot be null.", i, field)
			}
		}
	}
	return nil // the decoder says what is wrong otherwise
}

// Schema implements huma.SchemaProvider.
func (MetricBatch) Schema(r huma.Registry) *huma.Schema {
	points := map[string]any{"type": "array", "minItems": 1, "maxItems": tracking.MaxPoints, "items": r.Schema(reflect.TypeFor[NewMetric](), true, "NewMetric")}
	return documented("The points, as the field metrics or as the array alone.", map[string]any{"metrics": []any{map[string]any{"key": "loss", "value": 0.25, "step": 1}}},
		map[string]any{"type": "object", "required": []string{"metrics"}, "properties": map[string]any{"metrics": points}}, points)
}

// Logged is how many points were logged.
type Logged struct {
	Logged int `json:"logged"`
}

func showLastMetric(m tracking.Metric) LastMetric {
	return LastMetric{LoggedMetric: showLogged(m.Point), Points: m.Points}
}

func showLogged(p tracking.Point) LoggedMetric {
	return LoggedMetric{Key: p.Key, Value: MetricValue(p.Value), Step: p.Step, Timestamp: MetricTime(p.At)}
}

func (n NewMetric) point(now time.Time) (tracking.Point, error) {
	if n.Value == nil {
		return tracking.Point{}, errNotANumber()
	}
	p := tracking.Point{Key: n.Key, Step: n.Step, At: now.UnixMilli(), Value: float64(*n.Value)}
	if n.Timestamp != nil {
		p.At = int64(*n.Timestamp)
	}
	return p, nil
}

func (a *api) trackingMetricRoutes() {
	const path = "/experiments/{id}/runs/{run}/metrics"
	tags, failures := []string{"Experiments"}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "log-metric", Tags: tags, Summary: "Log a point of a metric", Errors: failures,
		Description: "Decided here: the answer is the point as it was stored. The same point again changes nothing. The latest value of a metric is the greatest by step, time and value. " +
			"429 if the workspace has no room for it (max_metric_points), 409 for a deleted run.",
	}, a.logMetric)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path + "/batch", OperationID: "log-metrics", Tags: tags, Summary: "Log points of metrics, all or none", Errors: failures,
		Description: "Decided here: the body is {\"metrics\": […]} or the array alone, of 1 to 1,000 points. The answer is the number of points.",
	}, a.logMetrics)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: path + "/{key}", OperationID: "get-metric-history", Tags: tags, Summary: "Get a metric's whole history",
		Description: "Decided here: points are in the order of time, step and value. The history is never cut, and has no cursor. A key that the run does not have has no points. A slash in the key is sent as %2F. " +
			"With max_points, a longer history is divided into parts with about as many points each. The answer has the lowest and the highest value of each part, the first that is NaN or infinite, and the first and the last point of all. Extremes can be missing for some seconds after more than 100,000 points were logged, and for a while after points before others.",
		Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{typeJSON: {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[MetricHistory](), true, "MetricHistory")}},
		}},
	}, a.getMetricHistory)
}

func (a *api) logMetric(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Body NewMetric `example:"{\"key\":\"loss\",\"value\":0.25,\"step\":1}"`
},
) (*answer[LoggedMetric], error) {
	p, err := in.Body.point(a.Clock.Now())
	if err != nil {
		return nil, err
	}
	if err := a.TrackingRuns.LogPoints(ctx, s, in.id(), in.run(), []tracking.Point{p}); err != nil {
		return nil, err
	}
	return &answer[LoggedMetric]{showLogged(p)}, nil
}

func (a *api) logMetrics(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Body MetricBatch
},
) (*answer[Logged], error) {
	n := len(in.Body.Metrics)
	if n == 0 || n > tracking.MaxPoints {
		return nil, domain.Invalid("metrics", "A batch has 1 to %d points; this one has %d.", tracking.MaxPoints, n)
	}
	now, points := a.Clock.Now(), make([]tracking.Point, n)
	for i, m := range in.Body.Metrics {
		var err error
		if points[i], err = m.point(now); err != nil {
			return nil, err
		}
	}
	if err := a.TrackingRuns.LogPoints(ctx, s, in.id(), in.run(), points); err != nil {
		return nil, err
	}
	return &answer[Logged]{Logged{n}}, nil
}

// historyAnswer is an answer whose body is written in pieces.
type historyAnswer struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

func (a *api) getMetricHistory(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Key       string `path:"key" doc:"The metric's key; a slash in it is sent as %2F." example:"loss"`
	MaxPoints int    `query:"max_points" minimum:"10" maximum:"10000" doc:"For charts: the answer has at most this many points. Without it, the whole history."`
},
) (*historyAnswer, error) {
	if in.MaxPoints > 0 {
		c, err := a.TrackingRuns.Chart(ctx, s, in.id(), in.run(), in.Key, in.MaxPoints)
		if err != nil {
			return nil, err
		}
		pages := func(yield func([]tracking.Point, error) bool) { yield(c.Points, nil) }
		return &historyAnswer{ContentType: typeJSON, Body: written(func(w io.Writer) error { return writeHistory(w, pages) })}, nil
	}
	pages, err := a.TrackingRuns.History(ctx, s, in.id(), in.run(), in.Key)
	if err != nil {
		return nil, err
	}
	return &historyAnswer{ContentType: typeJSON, Body: written(func(w io.Writer) error { return writeHistory(w, pages) })}, nil
}

func writeHistory(w io.Writer, pages iter.Seq2[[]tracking.Point, error]) error {
	b := []byte(`{"data":[`)
	first := true
	for page, err := range pages {
		if err != nil {
			return err
		}
		for _, p := range page {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = strconv.AppendInt(append(b, `{"step":`...), p.Step, 10)
			b = appendValue(append(b, `,"value":`...), p.Value)
			b = appendTime(append(b, `,"timestamp":`...), p.At)
			b = append(b, '}')
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := io.WriteString(w, string(b)+"]}")
	return err
}
