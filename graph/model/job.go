package model

import (
	"github.com/millpond/millpond/domain"
)

// CreateJobInput is a new job with its idempotency key.
type CreateJobInput struct {
	domain.NewJob
	IdempotencyKey *string
}
