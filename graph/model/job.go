package model

import (
	"github.com/millpond/millpond/domain"
)

// CreateJobInput is a new job, and the key under which it is made once.
type CreateJobInput struct {
	domain.NewJob
	IdempotencyKey *string
}
