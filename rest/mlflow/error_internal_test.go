package mlflow

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestEveryCodeHasAnAnswer: and of those that clients repeat for minutes, only what may pass by
// itself.
func TestEveryCodeHasAnAnswer(t *testing.T) {
	passing := map[domain.Code]bool{domain.CodeRate: true, domain.CodeUnavailable: true, domain.CodeInternal: true}
	for _, c := range domain.Codes {
		o, ok := codes[c]
		require.True(t, ok, c)
		repeated := o.status == http.StatusTooManyRequests || o.status == http.StatusRequestTimeout || o.status >= 500
		require.Equal(t, passing[c], repeated, c)
		require.NotEmpty(t, o.code, c)
	}
	require.Len(t, codes, len(domain.Codes))
	require.Equal(t, internalError, translated(&domain.Error{Code: "new"}).code)
}
