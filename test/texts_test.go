package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stumbles are phrases that slow a reader down: each has a plainer form.
var stumbles = regexp.MustCompile(`(?i)\b(of which|whose matter|anew|(is|are) told|who has|has the turn|of its own accord|is not to be had|is to be gone|what is refused of)\b`)

// TestAPITextsArePlain holds that the texts of both APIs have none of those phrases.
func TestAPITextsArePlain(t *testing.T) {
	schemas, err := filepath.Glob("../graph/schema/*.graphqls")
	require.NoError(t, err)
	require.NotEmpty(t, schemas)
	for _, file := range append(schemas, "../rest/openapi.yaml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			require.NotRegexp(t, stumbles, line, "%s:%d", file, i+1)
		}
	}
}
