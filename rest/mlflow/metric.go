package mlflow

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// metric is a point in the protocol.
type metric struct{ tracking.Point }

// MarshalJSON implements json.Marshaler.
func (m metric) MarshalJSON() ([]byte, error) {
	return append(appendPoint(make([]byte, 0, 128), quoted(m.Key), m.Point), '}'), nil
}

// appendPoint appends the point without the closing brace. key is JSON.
func appendPoint(b, key []byte, p tracking.Point) []byte {
	b = append(append(b, `{"key":`...), key...)
	b = appendDouble(append(b, `,"value":`...), p.Value)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), p.At, 10)
	return strconv.AppendInt(append(b, `,"step":`...), p.Step, 10)
}

// appendDouble appends a value as MLflow's server does, whose database has no infinity.
func appendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 0):
		f = math.Copysign(math.MaxFloat64, f)
	}
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// log stores a batch and answers with an empty object.
func (f *face) log(c *call, id domain.TrackingRunID, b tracking.Batch) error {
	if err := f.Runs.Log(c.Context(), c.scope, "", id, b); err != nil {
		return ofRun(err, id)
	}
	return c.done()
}

// point is a metric of a request. Its model and dataset are ignored.
type point struct {
	Key             text
	Value           double
	Timestamp, Step integer
}

func (p *point) field(name []byte) value {
	switch string(name) {
	case "key":
		return &p.Key
	case "value":
		return &p.Value
	case "timestamp":
		return &p.Timestamp
	case "step":
		return &p.Step
	}
	return nil
}

func (p *point) fields(at string) []field {
	return []field{need(at+"key", &p.Key), need(at+"value", &p.Value), need(at+"timestamp", &p.Timestamp), may(at+"step", &p.Step)}
}

// sound is check without its cost.
func (p *point) sound() bool {
	return p.Key.s != "" && p.Value.sent && p.Timestamp.sent && p.Key.bad == nil && p.Value.bad == nil && p.Timestamp.bad == nil && p.Step.bad == nil
}

func (p *point) point() tracking.Point {
	return tracking.Point{Key: p.Key.s, Value: p.Value.f, At: p.Timestamp.n, Step: p.Step.n}
}

func (f *face) logMetric(c *call) error {
	var p point
	id, err := c.readRun(p.fields("")...)
	if err != nil {
		return err
	}
	return f.log(c, id, tracking.Batch{Points: []tracking.Point{p.point()}})
}

func (f *face) logParameter(c *call) error {
	var key, value text
	id, err := c.readRun(need("key", &key), may("value", &value))
	if err != nil {
		return err
	}
	return f.log(c, id, tracking.Batch{Parameters: []tracking.Pair{{Key: key.s, Value: value.s}}})
}

func (f *face) setTag(c *call) error {
	var key, value text
	id, err := c.readRun(need("key", &key), may("value", &value))
	if err != nil {
		return err
	}
	return f.log(c, id, tracking.Batch{Tags: []tracking.Pair{{Key: key.s, Value: value.s}}})
}

func (f *face) deleteTag(c *call) error {
	var key text
	id, err := c.readRun(need("key", &key))
	if err != nil {
		return err
	}
	if err := f.Runs.DeleteTag(c.Context(), c.scope, "", id, key.s); err != nil {
		return ofRun(err, id)
	}
	return c.done()
}

func (f *face) logBatch(c *call) error {
	var metrics list[point]
	var params, tags list[tag]
	c.maxBody = maxBatch
	id, err := c.readRun(may("metrics", &metrics), may("params", &params), may("tags", &tags))
	if domain.IsCode(err, domain.CodeTooLarge) {
		return tooLargeBatch(c.ContentLength)
	}
	if err == nil {
		err = validRunID(id)
	}
	if err != nil {
		return err
	}
	b := tracking.Batch{Points: make([]tracking.Point, len(metrics.items))}
	for i := range metrics.items {
		p := &metrics.items[i]
		if !p.sound() {
			return check(p.fields(fmt.Sprintf("metrics[%d].", i))...)
		}
		b.Points[i] = p.point()
	}
	if b.Parameters, err = pairsOf("params", params); err != nil {
		return err
	}
	if b.Tags, err = pairsOf("tags", tags); err != nil {
		return err
	}
	return f.log(c, id, b)
}

func tooLargeBatch(size int64) error {
	got := "a larger request"
	if size > maxBatch {
		got = fmt.Sprintf("a request of size %d", size)
	}
	return refuse(http.StatusBadRequest, invalidParameter, "Batched logging API requests must be at most %d bytes, got %s.", maxBatch, got)
}

var runIDs = regexp.MustCompile(`^[a-zA-Z0-9][\w\-]{0,255}$`)

func validRunID(id domain.TrackingRunID) error {
	if runIDs.MatchString(string(id)) {
		return nil
	}
	return refuse(http.StatusBadRequest, invalidParameter, "Invalid value %s for parameter 'run_id' supplied.", string(quoted(string(id))))
}
