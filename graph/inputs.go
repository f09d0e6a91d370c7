package graph

import (
	"context"
	"net/url"

	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/graph/model"
)

// jobChange returns the fields to change. Null fields do not change, except schedule: null removes
// it.
func jobChange(in model.UpdateJobInput) job.Change {
	c := job.Change{
		Name: in.Name, Description: in.Description, Command: in.Command, Tasks: given(in.Tasks),
		MaxRetries: in.MaxRetries, TimeoutSeconds: in.TimeoutSeconds, Environment: given(in.Environment), Parameters: given(in.Parameters),
		MaxConcurrentRuns: in.MaxConcurrentRuns, Files: given(in.Files),
		Compute: in.Compute, ComputeFallback: in.ComputeFallback,
	}
	if schedule, set := in.Schedule.ValueOK(); set {
		c.Schedule = &schedule
	}
	return c
}

// given returns nil for a list that was left out or null.
func given[T any](list []T) *[]T {
	if list == nil {
		return nil
	}
	return &list
}

// setUpURL returns the console's page for the one-time token; nil without a token.
func setUpURL(ctx context.Context, token string, m identity.Member) *string {
	if token == "" {
		return nil
	}
	query := url.Values{"token": {token}, "email": {m.User.Email}}
	return optional(requestOf(ctx).origin + "/setup?" + query.Encode())
}
