package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// part returns the path of a download until the server is installed.
func (i *installer) part() string {
	return filepath.Join(i.Dir, downloadDir, archiveName(i.pins.trino.version)+".part")
}

func archiveName(version string) string { return "trino-server-" + version + ".tar.gz" }

// downloaded returns the number of bytes of earlier calls.
func (i *installer) downloaded() int64 {
	info, err := os.Stat(i.part())
	if err != nil {
		return 0
	}
	return min(info.Size(), i.pins.trino.size)
}

// fromMirror downloads the server's archive over HTTP. It resumes an interrupted download.
func (i *installer) fromMirror(ctx context.Context) (string, error) {
	address, err := mirrored(i.Mirror, i.pins.trino.version)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(i.part()), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(i.part(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	d := &download{
		client: &http.Client{Transport: transport}, url: address, what: "Trino " + i.pins.trino.version, size: i.pins.trino.size, to: f,
		pause: i.pause, idle: i.idle, say: i.say,
	}
	return i.part(), errors.Join(d.run(ctx), f.Close())
}

// discard removes a download with the wrong content, which a resumption would not fix.
func (i *installer) discard(ctx context.Context) error {
	if i.Mirror == "" || ctx.Err() != nil {
		return nil
	}
	return os.Remove(i.part())
}

// mirrored returns the archive's address in a Maven repository. An address that ends in .tar.gz is
// returned as it is.
func mirrored(mirror, version string) (*url.URL, error) {
	u, err := url.Parse(mirror)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--mirror is not the address of a web server; give the http or https URL of a Maven repository, or of the archive, which ends in .tar.gz")
	}
	if strings.HasSuffix(u.Path, ".tar.gz") {
		return u, nil
	}
	return u.JoinPath("io", "trino", "trino-server", version, archiveName(version)), nil
}

// download is a download in progress.
type download struct {
	client *http.Client
	url    *url.URL
	what   string
	size   int64
	to     *os.File
	pause  time.Duration
	idle   time.Duration
	say    func(format string, args ...any)

	have int64
	told int64 // reported tenths
}

// downloadTries bounds the consecutive attempts without progress.
const downloadTries = 5

// errRefused is a failure that a retry would repeat.
var errRefused = errors.New("a retry would fail too")

func (d *download) run(ctx context.Context) error {
	info, err := d.to.Stat()
	if err != nil {
		return err
	}
	if d.have = info.Size(); d.have > d.size {
		if err := d.restart(); err != nil {
			return err
		}
	}
	if d.have > 0 && d.have < d.size {
		d.say("Resuming the download: %s of %s are here.", size(d.have), size(d.size))
	}
	most, pause := d.have, d.pause
	for tries := 1; d.have < d.size; tries++ {
		err := d.some(ctx)
		if err == nil || errors.Is(err, errRefused) || ctx.Err() != nil {
			return err
		}
		if d.have > most {
			most, tries, pause = d.have, 1, d.pause
		}
		if tries >= downloadTries {
			return fmt.Errorf("the download of %s broke off %d times at %s of %s; run this again to resume: %w", d.what, tries, size(d.have), size(d.size), err)
		}
		d.say("The download broke off at %s of %s (%v); resuming in %s.", size(d.have), size(d.size), err, pause)
		if err := wait(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
	return nil
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart discards the downloaded bytes.
func (d *download) restart() error {
	d.have, d.told = 0, 0
	return d.to.Truncate(0)
}

// some downloads over one connection, until the end or until no data arrives for too long.
func (d *download) some(ctx context.Context) error {
	heard, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(d.idle, cancel)
	defer silence.Stop()
	err := d.transfer(heard, func() { silence.Reset(d.idle) })
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return fmt.Errorf("no data arrived for %s", d.idle)
	}
	return err
}

func (d *download) transfer(ctx context.Context, heard func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if d.have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
	} else {
		d.say("Fetching %s (%s).", d.url.Redacted(), size(d.size))
	}
	res, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := d.accept(res); err != nil {
		return err
	}
	_, err = io.Copy(d, &attentive{from: io.LimitReader(res.Body, d.size-d.have), heard: heard})
	if err == nil && d.have < d.size {
		return io.ErrUnexpectedEOF
	}
	return err
}

// accept checks an answer's header. It restarts the download if the server does not resume it.
func (d *download) accept(res *http.Response) error {
	switch status := res.StatusCode; {
	case status == http.StatusPartialContent:
		return d.goesOn(res.Header.Get("Content-Range"))
	case status == http.StatusOK:
		if res.ContentLength >= 0 && res.ContentLength != d.size {
			return d.otherSize(strconv.FormatInt(res.ContentLength, 10))
		}
		return d.restart()
	case status == http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(errors.New("the mirror's file is shorter than what is here"), d.restart())
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return fmt.Errorf("the mirror answered %s", res.Status)
	}
	return fmt.Errorf("the mirror answered %s for %s; give the URL of a Maven repository that has %s, or of its archive, with --mirror: %w", res.Status, d.url.Redacted(), d.what, errRefused)
}

func (d *download) goesOn(contentRange string) error {
	span, total, _ := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "/")
	if total != "" && total != "*" && total != strconv.FormatInt(d.size, 10) {
		return d.otherSize(total)
	}
	if !strings.HasPrefix(span, strconv.FormatInt(d.have, 10)+"-") {
		return errors.Join(fmt.Errorf("the mirror answered with the range %q, which was not asked for", contentRange), d.restart())
	}
	return nil
}

func (d *download) otherSize(said string) error {
	return fmt.Errorf("the mirror's file has %s bytes, and the archive of %s has %d; give the URL of a Maven repository that has it, or of the archive, with --mirror: %w", said, d.what, d.size, errRefused)
}

// Write implements io.Writer. It appends b to the file and reports each tenth.
func (d *download) Write(b []byte) (int, error) {
	n, err := d.to.WriteAt(b, d.have)
	d.have += int64(n)
	if tenths := d.have * 10 / d.size; tenths > d.told && d.have < d.size {
		d.told = tenths
		d.say("%s of %s.", size(d.have), size(d.size))
	}
	return n, err
}

// attentive calls heard after each read.
type attentive struct {
	from  io.Reader
	heard func()
}

// Read implements io.Reader.
func (a *attentive) Read(b []byte) (int, error) {
	n, err := a.from.Read(b)
	a.heard()
	return n, err
}
