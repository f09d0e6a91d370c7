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
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// The headers that say where a log stands. In an answer that follows, they come as trailers once they are known.
const (
	attemptHeader    = "X-Attempt"
	sizeHeader       = "X-Log-Size"
	nextOffsetHeader = "X-Log-Next-Offset"
)

// logSandbox keeps what a process wrote from ever being a page of ours: it shares the console's origin.
const logSandbox = "default-src 'none'; sandbox"

// logQuery says which log is asked for, and how.
type logQuery struct {
	run      domain.RunID
	key      string // of the task; empty for a single command
	attempt  int    // 0 for the latest
	offset   int64  // -1 where it was not given
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

// serveLog answers with a log. An error is returned only as long as nothing was sent.
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

// logSize is how many bytes are stored; none before the first attempt.
func (a *api) logSize(ctx context.Context, s domain.Scope, attempt *domain.Attempt) (int64, error) {
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
			return q, domain.Invalid("attempt", "attempt is %q; it must be a number from 1 on. Leave it out for the latest.", shorten(values.Get("attempt")))
		}
		q.attempt = n
	}
	if values.Has("offset") {
		n, err := strconv.ParseInt(values.Get("offset"), 10, 64)
		if err != nil || n < 0 {
			return q, domain.Invalid("offset", "offset is %q; it must be a number of bytes from 0 on.", shorten(values.Get("offset")))
		}
		q.offset = n
	}
	switch format := values.Get("format"); format {
	case "", "text":
	case "json":
		q.json = true
	default:
		return q, domain.Invalid("format", "format is %q; it must be text or json.", shorten(format))
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
		return false, domain.Invalid(name, "%s is %q; it must be true or false.", name, shorten(v))
	}
}

// pathParam is chi's parameter as it was meant, since chi matches the escaped path.
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

// logAnswer is one answer with a log, or a part of it.
type logAnswer struct {
	*api
	w       http.ResponseWriter
	r       *http.Request
	scope   domain.Scope
	query   logQuery
	attempt *domain.Attempt // nil before the first
	size    int64           // bytes stored when the request came
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

// extent tells how much is coming, where that is known beforehand.
func (l *logAnswer) extent(h http.Header) {
	if l.query.follow {
		h.Set("X-Accel-Buffering", "no") // proxies that know it pass lines on at once
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

// disposition makes a browser save the log under a name that says what it is.
func (l *logAnswer) disposition(h http.Header) error {
	run, err := l.Runs.Get(l.r.Context(), l.scope, l.query.run)
	if err != nil {
		return err
	}
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(run.JobName, l.query, l.attempt)}))
	return nil
}

func fileName(job string, q logQuery, attempt *domain.Attempt) string {
	parts := []string{plainName(job), string(q.run)}
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

// plainName is a name that every file system takes: what is neither a letter nor a digit becomes a dash.
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

// body sends the bytes. The status is out, so what goes wrong now cuts the connection: a log that is not whole must not look whole.
func (l *logAnswer) body() {
	if l.r.Method == http.MethodHead {
		return
	}
	deadline := http.NewResponseController(l.w)
	defer func() { _ = deadline.SetWriteDeadline(time.Time{}) }()
	send := l.stored
	if l.query.follow {
		send = l.followed
	}
	err := send()
	if err == nil {
		return
	}
	if !errors.Is(err, errClient) {
		l.translate(l.r.Context(), err) // for the log
	}
	panic(http.ErrAbortHandler)
}

// stored sends what was there when the request came.
func (l *logAnswer) stored() error {
	out := l.sink()
	for offset := l.part.from; offset < l.part.to; {
		page, err := l.Logs.Read(l.r.Context(), l.scope, l.attempt.ID, offset, int(min(domain.MaxLogPage, l.part.to-offset)))
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
