package mlflow

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/rest/httpx"
)

// Bounds of histories, from MLflow.
const (
	maxBulkRuns    = 100
	maxBulkPoints  = 25_000
	maxSampled     = 2_500 // of each run
	pagePoints     = 5_000 // are read at once
	pieceBytes     = 32 << 10
	bytesOfHistory = pagePoints*80 + 2*pieceBytes // about what an answer holds at once
)

// history writes points as they are read. So an answer of any length holds one page.
type history struct {
	c     *call
	key   []byte // in JSON
	run   []byte // in JSON; nil if the points do not say their run
	b     []byte
	began bool
}

func newHistory(c *call, key string) (*history, error) {
	if err := httpx.Hold(c.Context(), bytesOfHistory); err != nil {
		return nil, err
	}
	return &history{c: c, key: quoted(key)}, nil
}

func (h *history) add(points []tracking.Point) error {
	for _, p := range points {
		if h.began || len(h.b) > 0 {
			h.b = append(h.b, ',')
		} else {
			h.b = append(h.b, `{"metrics":[`...)
		}
		h.b = appendPoint(h.b, h.key, p)
		if h.run != nil {
			h.b = append(append(h.b, `,"run_id":`...), h.run...)
		}
		h.b = append(h.b, '}')
		if len(h.b) >= pieceBytes {
			if err := h.send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends what is ready. It fails if the client has left.
func (h *history) send() error {
	h.c.w.Header().Set("Content-Type", "application/json")
	h.began = true
	_, err := h.c.w.Write(h.b)
	h.b = h.b[:0]
	return err
}

// end ends the answer, with the token of the next page if there is one. After an error, an answer
// that has begun is cut off: the client must not take it for whole.
func (h *history) end(next string, err error) error {
	if err != nil {
		if h.began {
			panic(http.ErrAbortHandler)
		}
		return err
	}
	if h.began || len(h.b) > 0 {
		h.b = append(h.b, ']')
	} else {
		h.b = append(h.b, '{')
	}
	if next != "" {
		h.b = append(append(append(h.b, `,"next_page_token":"`...), next...), '"')
	}
	h.b = append(h.b, '}', '\n')
	_ = h.send() // fails if the client left; nothing can be reported then
	return nil
}

// read adds the run's points after the position, at most that many. It returns how many it added,
// and the last position if there are more.
func (f *face) read(h *history, id domain.TrackingRunID, key string, after *tracking.Position, most int64) (added int64, more *tracking.Position, err error) {
	for {
		limit := int(min(pagePoints, most-added+1))
		points, err := f.Runs.Points(h.c.Context(), h.c.scope, id, key, after, limit)
		if err != nil {
			return added, nil, err
		}
		last := len(points) < limit
		if int64(len(points)) > most-added { // one more than wanted: there is another page
			points, more, last = points[:most-added], after, true
			if len(points) > 0 {
				at := points[len(points)-1].Position()
				more = &at
			}
		}
		if err := h.add(points); err != nil {
			return added, nil, err
		}
		added += int64(len(points))
		if last {
			return added, more, nil
		}
		at := points[len(points)-1].Position()
		after = &at
	}
}

func (f *face) getHistory(c *call) error {
	var key, token text
	var most integer
	id, err := c.readRun(need("metric_key", &key), may("page_token", &token), may("max_results", &most))
	if err != nil {
		return err
	}
	if most.sent && most.n <= 0 {
		return refuse(http.StatusBadRequest, invalidParameter, "Invalid value %d for parameter 'max_results' supplied. It must be a positive integer.", most.n)
	}
	after, err := position(token.s)
	if err != nil {
		return err
	}
	h, err := newHistory(c, key.s)
	if err != nil {
		return err
	}
	next := ""
	_, more, err := f.read(h, id, key.s, after, min(most.orElse(math.MaxInt64), math.MaxInt64-1))
	if more != nil {
		next = tokenOf(*more)
	}
	return h.end(next, ofRun(err, id))
}

// tokenOf returns the token of the page that begins after the position.
func tokenOf(p tracking.Position) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.At))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Step))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, math.Float64bits(p.Value)))
}

// position is the reverse of tokenOf. It returns nil for the first page.
func position(token string) (*tracking.Position, error) {
	if token == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != 24 {
		return nil, domain.Invalid("page_token", "Invalid page token: use the token of the previous page as it came.")
	}
	return &tracking.Position{
		At: int64(binary.BigEndian.Uint64(b)), Step: int64(binary.BigEndian.Uint64(b[8:])), Value: math.Float64frombits(binary.BigEndian.Uint64(b[16:])),
	}, nil
}

// getHistoryBulk answers with the histories of several runs, by run, up to a bound in all. Runs
// that do not exist have no points.
func (f *face) getHistoryBulk(c *call) error {
	var ids texts
	var key text
	var most integer
	if err := c.read(may("run_id", &ids), may("metric_key", &key), may("max_results", &most)); err != nil {
		return err
	}
	if err := boundRuns("GetMetricHistoryBulk request cannot specify more than %d run_ids. Received %d run_ids.", ids); err != nil {
		return err
	}
	switch {
	case len(ids.items) == 0:
		return refuse(http.StatusBadRequest, invalidParameter, "GetMetricHistoryBulk request must specify at least one run_id.")
	case key.s == "":
		return refuse(http.StatusBadRequest, invalidParameter, "GetMetricHistoryBulk request must specify a metric_key.")
	case most.n < 0:
		return invalid("max_results", strconv.AppendInt(nil, most.n, 10))
	}
	h, err := newHistory(c, key.s)
	if err != nil {
		return err
	}
	left := min(maxBulkPoints, most.orElse(maxBulkPoints))
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids.strings()))) {
		if left == 0 {
			break
		}
		h.run = quoted(id)
		added, _, failed := f.read(h, domain.TrackingRunID(id), key.s, nil, left)
		if left -= added; failed != nil && !domain.IsCode(failed, domain.CodeNotFound) {
			return h.end("", failed)
		}
	}
	return h.end("", nil)
}

func boundRuns(format string, ids texts) error {
	if n := len(ids.items); n > maxBulkRuns {
		return refuse(http.StatusBadRequest, invalidParameter, format, maxBulkRuns, n)
	}
	return nil
}

// getHistoryInterval answers with points of each run, evenly from its history. Runs that do not
// exist have no points.
func (f *face) getHistoryInterval(c *call) error {
	var ids texts
	var key text
	var start, end, most integer
	err := c.read(need("run_ids", &ids), need("metric_key", &key), may("start_step", &start), may("end_step", &end), may("max_results", &most))
	if err == nil {
		err = boundRuns("GetMetricHistoryBulkInterval request must specify at most %d run_ids. Received %d run_ids."+hint, ids)
	}
	if err != nil {
		return err
	}
	part := tracking.Part{Most: int(most.orElse(maxSampled))}
	switch {
	case part.Most < 1 || part.Most > maxSampled:
		return refuse(http.StatusBadRequest, invalidParameter, "max_results must be between 1 and %d."+hint, maxSampled)
	case start.sent != end.sent:
		return refuse(http.StatusBadRequest, invalidParameter, "If either start step or end step are specified, both must be specified.")
	case start.n > end.n:
		return refuse(http.StatusBadRequest, invalidParameter, "end_step must be greater than start_step. Found start_step=%d and end_step=%d.", start.n, end.n)
	case start.sent:
		part.From, part.To = &start.n, &end.n
	}
	h, err := newHistory(c, key.s)
	if err != nil {
		return err
	}
	for _, id := range ids.strings() {
		points, err := f.Runs.Sample(c.Context(), c.scope, domain.TrackingRunID(id), key.s, part)
		if err == nil {
			h.run = quoted(id)
			err = h.add(points)
		}
		if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return h.end("", err)
		}
	}
	return h.end("", nil)
}
