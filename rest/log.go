package rest

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/rest/httpx"
)

// The headers that give the position in a log. A followed answer sends them as trailers, once they
// are known.
const (
	attemptHeader    = "X-Attempt"
	sizeHeader       = "X-Log-Size"
	nextOffsetHeader = "X-Log-Next-Offset"
)

// logSandbox keeps a browser from rendering a process's output as one of our pages: it shares the
// console's origin.
const logSandbox = "default-src 'none'; sandbox"

// logQuery selects a log and its form.
type logQuery struct {
	run      domain.RunID
	key      string // of the task; empty for a single command
	attempt  int    // 0 for the latest
	offset   int64  // -1 if not given
	follow   bool
	json     bool
	download bool
}

func (a *api) logRoutes(r chi.Router) {
	a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[LogLine](), true, "")
	for _, op := range []*huma.Operation{runLogs(), taskLogs()} {
		a.OpenAPI().AddOperation(op)
		r.Get(op.Path, func(w http.ResponseWriter, r *http.Request) {
			if err := a.serveLog(w, r, op); err != nil {
				a.fail(w, r, err)
			}
		})
	}
}

// serveLog answers with a log. It returns an error only if nothing was sent.
func (a *api) serveLog(w http.ResponseWriter, r *http.Request, op *huma.Operation) error {
	scope, err := auth.From(r.Context())
	if err != nil {
		return err
	}
	if err := checkQuery(op, r.URL.Query()); err != nil {
		return err
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	q, err := parseLogQuery(r)
	if err != nil {
		return err
	}
	attempt, err := a.Runs.Attempt(r.Context(), scope, q.run, q.key, q.attempt)
	if err != nil {
		return err
	}
	size, err := a.logSize(r.Context(), scope, attempt)
	if err != nil {
		return err
	}
	part, err := q.part(r.Header, size)
	if err != nil {
		return outside(err, size)
	}
	l := &logAnswer{api: a, w: w, r: r, scope: scope, query: q, attempt: attempt, size: size, part: part}
	if err := l.head(); err != nil {
		return err
	}
	l.body()
	return nil
}

// logSize returns how many bytes are stored: 0 before the first attempt.
func (a *api) logSize(ctx context.Context, s domain.Scope, attempt *job.Attempt) (int64, error) {
	if attempt == nil {
		return 0, nil
	}
	sizes, err := a.Logs.Sizes(ctx, s, []domain.AttemptID{attempt.ID})
	return sizes[attempt.ID], err
}

func parseLogQuery(r *http.Request) (logQuery, error) {
	q := logQuery{run: domain.RunID(pathParam(r, "id")), key: pathParam(r, "key"), offset: -1}
	values := r.URL.Query()
	if values.Has("attempt") {
		n, err := strconv.Atoi(values.Get("attempt"))
		if err != nil || n < 1 {
			return q, domain.Invalid("attempt", "attempt is %q; it must be a number from 1 on. Leave it out for the latest.", httpx.Shorten(values.Get("attempt")))
		}
		q.attempt = n
	}
	if values.Has("offset") {
		n, err := strconv.ParseInt(values.Get("offset"), 10, 64)
		if err != nil || n < 0 {
			return q, domain.Invalid("offset", "offset is %q; it must be a number of bytes from 0 on.", httpx.Shorten(values.Get("offset")))
		}
		q.offset = n
	}
	switch format := values.Get("format"); format {
	case "", "text":
	case "json":
		q.json = true
	default:
		return q, domain.Invalid("format", "format is %q; it must be text or json.", httpx.Shorten(format))
	}
	var err error
	if q.follow, err = boolean(values, "follow"); err != nil {
		return q, err
	}
	q.download, err = boolean(values, "download")
	return q, err
}

func boolean(values url.Values, name string) (bool, error) {
	if !values.Has(name) {
		return false, nil
	}
	switch v := values.Get(name); v {
	case "", "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	default:
		return false, domain.Invalid(name, "%s is %q; it must be true or false.", name, httpx.Shorten(v))
	}
}

// pathParam returns chi's parameter decoded, because chi matches the escaped path.
func pathParam(r *http.Request, name string) string {
	v := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return v
	}
	if plain, err := url.PathUnescape(v); err == nil {
		return plain
	}
	return v
}

// logAnswer is one answer with a log, or a part of a log.
type logAnswer struct {
	*api
	w       http.ResponseWriter
	r       *http.Request
	scope   domain.Scope
	query   logQuery
	attempt *job.Attempt // nil before the first
	size    int64        // bytes stored when the request arrived
	part    part
}

// head sends the status and the headers.
func (l *logAnswer) head() error {
	h := l.w.Header()
	h.Set("Content-Security-Policy", logSandbox)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if l.query.json {
		h.Set("Content-Type", "application/x-ndjson; charset=utf-8")
	}
	h.Set(sizeHeader, strconv.FormatInt(l.size, 10))
	if l.attempt != nil {
		h.Set(attemptHeader, strconv.Itoa(l.attempt.Number))
	}
	if l.query.download {
		if err := l.disposition(h); err != nil {
			return err
		}
	}
	l.extent(h)
	l.w.WriteHeader(l.part.status)
	return nil
}

// extent sets the length of the answer, if it is known beforehand.
func (l *logAnswer) extent(h http.Header) {
	if l.query.follow {
		h.Set("X-Accel-Buffering", "no") // proxies that support it forward lines at once
		return
	}
	h.Set(nextOffsetHeader, strconv.FormatInt(l.part.to, 10))
	if l.query.json {
		return
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(l.part.to-l.part.from, 10))
	if l.part.status == http.StatusPartialContent {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", l.part.from, l.part.to-1, l.size))
	}
}

// disposition makes a browser save the log under a descriptive name.
func (l *logAnswer) disposition(h http.Header) error {
	run, err := l.Runs.Get(l.r.Context(), l.scope, l.query.run)
	if err != nil {
		return err
	}
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(run.JobName, l.query, l.attempt)}))
	return nil
}

func fileName(j string, q logQuery, attempt *job.Attempt) string {
	parts := []string{plainName(j), string(q.run)}
	if q.key != "" {
		parts = append(parts, q.key)
	}
	if attempt != nil {
		parts = append(parts, fmt.Sprintf("attempt-%d", attempt.Number))
	}
	extension := ".log"
	if q.json {
		extension = ".ndjson"
	}
	return strings.Join(parts, "_") + extension
}

// plainName returns a name that every file system accepts: a dash replaces all but letters and
// digits.
func plainName(name string) string {
	dashed := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '-'
	}, name)
	words := strings.FieldsFunc(dashed, func(r rune) bool { return r == '-' })
	return strings.Join(words, "-")
}

// body sends the bytes. An error now cuts the connection, because the status is already sent: an
// incomplete log must not look complete.
func (l *logAnswer) body() {
	if l.r.Method == http.MethodHead {
		return
	}
	send := l.stored
	if l.query.follow {
		send = l.followed
	}
	err := send()
	if err == nil {
		return
	}
	if !errors.Is(err, errClient) {
		l.translate(l.r.Context(), err) // logs it
	}
	panic(http.ErrAbortHandler)
}

// stored sends the bytes that were stored when the request arrived.
func (l *logAnswer) stored() error {
	out := l.sink()
	for offset := l.part.from; offset < l.part.to; {
		page, err := l.Logs.Read(l.r.Context(), l.scope, l.attempt.ID, offset, int(min(job.MaxLogPage, l.part.to-offset)))
		if err != nil {
			return err
		}
		if err := out.write(page.Chunks); err != nil {
			return err
		}
		offset = page.Next
	}
	return out.end()
}
