package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// lineagePath is where receivers of OpenLineage take events, where the address of theirs has no path of its own.
const lineagePath = "/api/v1/lineage"

// lineageTime bounds one event on its way.
const lineageTime = 15 * time.Second

// lineageReceiver sends events of OpenLineage over HTTP.
type lineageReceiver struct {
	url    string
	token  string
	client *http.Client
}

// newLineageReceiver is nil without an address.
func newLineageReceiver(address, token string) (domain.LineageReceiver, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // nobody is told
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--openlineage-url is %q; give an address such as https://marquez.example.com", address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = lineagePath
	}
	client := &http.Client{Timeout: lineageTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &lineageReceiver{url: u.String(), token: token, client: client}, nil
}

// Receive implements domain.LineageReceiver. What is wrong with the address, the token or the moment may be right at the next time.
func (r *lineageReceiver) Receive(ctx context.Context, event []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(event))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("sending an OpenLineage event: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // for the message alone
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusRequestEntityTooLarge || res.StatusCode == http.StatusUnprocessableEntity:
		return domain.Errorf(domain.CodeInvalid, "The receiver of OpenLineage answered %s: %s", res.Status, answer)
	}
	return fmt.Errorf("the receiver of OpenLineage at %s answered %s: %s", r.url, res.Status, answer)
}

// emitLineage tells the receiver of OpenLineage what runs and statements do, until ctx ends.
func (s *server) emitLineage(ctx context.Context) {
	emitter := &domain.LineageEmitter{
		Store: s.store, Outbox: s.store.System(), Receiver: s.config.lineage, Clock: s.services.Clock, URL: s.url, CatalogURL: s.services.Lineages.CatalogURL,
		Report: func(err error) { s.log.Error("OpenLineage", "error", err) },
	}
	s.loop(ctx, "OpenLineage", houseEvery, "", emitter.Deliver)
}

// lineageTimeout bounds the question for the share of statements whose lineage is known.
const lineageTimeout = 2 * time.Second

// lineageShare is, of the statements of the last day that name tables, the share whose lineage is known; NaN where there are none.
func (s *server) lineageShare() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), lineageTimeout)
	defer cancel()
	c, err := s.store.System().LineageCoverage(ctx, time.Now().Add(-24*time.Hour))
	share, ok := c.Share()
	if err != nil || !ok {
		return math.NaN()
	}
	return share
}
