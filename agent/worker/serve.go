package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// handler serves the requests of the control plane.
func (s *session) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+fmt.Sprintf(agent.AttemptPath, "{id}"), s.putAttempt)
	mux.HandleFunc("POST "+fmt.Sprintf(agent.CancelPath, "{id}"), s.cancelAttempt)
	if s.w.options.SQL != nil {
		mux.HandleFunc(agent.StatementsPath, s.sql)
		mux.HandleFunc(agent.StatementsPath+"/", s.sql)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.ready:
			mux.ServeHTTP(w, r)
		case <-s.tunnel.Done():
		}
	})
}

func (s *session) putAttempt(w http.ResponseWriter, r *http.Request) {
	var in agent.Attempt
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&in); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			answer(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The attempt is over %d bytes.", bodyLimit))
			return
		}
		answer(w, http.StatusBadRequest, fmt.Sprintf("The attempt cannot be read: %v.", err))
		return
	}
	if in.ID != r.PathValue("id") {
		answer(w, http.StatusBadRequest, "The attempt's id differs from the id in the URL.")
		return
	}
	var bad invalidError
	err := s.w.start(in)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, &bad):
		answer(w, http.StatusBadRequest, bad.message)
	default:
		s.w.log.Error("an attempt could not be accepted", "attempt", in.ID, "error", err)
		answer(w, http.StatusServiceUnavailable, fmt.Sprintf("The agent cannot accept the attempt now: %v.", err))
	}
}

// sql passes the request to the engines. The machine is not idle meanwhile.
func (s *session) sql(w http.ResponseWriter, r *http.Request) {
	s.w.statements.Add(1)
	defer func() {
		s.w.busy()
		s.w.statements.Add(-1)
	}()
	s.w.options.SQL.ServeHTTP(w, r)
}

func (s *session) cancelAttempt(w http.ResponseWriter, r *http.Request) {
	if a := s.w.find(r.PathValue("id")); a != nil {
		a.cancel()
	}
	w.WriteHeader(http.StatusNoContent)
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(agent.Error{Error: message})
}

// cancel asks the attempt's process to end.
func (a *attempt) cancel() {
	a.order(shim.Order{Cancel: &shim.CancelOrder{Grace: time.Duration(a.spec.GraceSeconds) * time.Second}})
}
