// Package openlineage sends OpenLineage events to a receiver over HTTP.
package openlineage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
)

// defaultPath is the path of a receiver if its address has none.
const defaultPath = "/api/v1/lineage"

// sendTime bounds the sending of one event.
const sendTime = 15 * time.Second

// receiver sends OpenLineage events over HTTP.
type receiver struct {
	url    string
	token  string
	client *http.Client
}

// New returns the receiver at the address, which gets the token as a bearer. It is nil without an
// address. It fails if the address is not an HTTP address.
func New(address, token string) (lineage.Receiver, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // no receiver
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--openlineage-url is %q; give an address such as https://marquez.example.com", address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = defaultPath
	}
	client := &http.Client{Timeout: sendTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &receiver{url: u.String(), token: token, client: client}, nil
}

// Receive implements lineage.Receiver. A wrong address, a refused token and an outage can all
// be fixed, so the event can be sent again.
func (r *receiver) Receive(ctx context.Context, event []byte) error {
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
		return domain.Errorf(domain.CodeInvalid, "The OpenLineage receiver answered %s: %s", res.Status, answer)
	}
	return fmt.Errorf("the OpenLineage receiver at %s answered %s: %s", r.url, res.Status, answer)
}
