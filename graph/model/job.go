package model

import (
	"github.com/millpond/millpond/domain/job"
)

// CreateJobInput is a new job with its idempotency key.
type CreateJobInput struct {
	job.NewJob
	IdempotencyKey *string
}
