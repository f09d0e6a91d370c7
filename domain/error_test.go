package domain

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestEveryCodeIsListed reads the constants: transports' tables are tested against Codes.
func TestEveryCodeIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, c := range Codes {
		require.False(t, listed[string(c)], "%s is listed twice", c)
		listed[string(c)] = true
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "Code" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		require.True(t, listed[value], "%s is not in Codes", value)
		found++
		return true
	})
	require.Equal(t, len(Codes), found)
}

func TestErrors(t *testing.T) {
	cause := errors.New("pq: no route to host")
	err := error(Errorf(CodeUnavailable, "Try again.").Because(cause))
	require.Equal(t, "Try again.: pq: no route to host", err.Error(), "for the log")
	require.Equal(t, "Try again.", AsError(err).Message, "for people")
	require.ErrorIs(t, err, cause)
	require.True(t, IsCode(fmt.Errorf("starting: %w", err), CodeUnavailable))
	require.False(t, IsCode(err, CodeInternal))
	require.False(t, IsCode(nil, CodeInternal))

	hidden := AsError(cause)
	require.Equal(t, CodeInternal, hidden.Code)
	require.NotContains(t, hidden.Message, "pq")
	require.ErrorIs(t, hidden, cause)

	require.Equal(t, `There is no run "run_1" in this workspace.`, NotFound("run", RunID("run_1")).Message)
	require.Equal(t, "limit", Invalid("limit", "x").Field)
}

// TestMessagesRepeatLittleOfWhatWasSent checks the bound maxEchoed.
func TestMessagesRepeatLittleOfWhatWasSent(t *testing.T) {
	long := strings.Repeat("é", 25_000)
	for _, err := range []*Error{
		Invalid("email", "%q is not an e-mail address.", long), NotFound("run", RunID(long)), Errorf(CodeInvalid, "%s: %s.", "x", errors.New(long)),
	} {
		require.Less(t, len(err.Message), 2*maxEchoed)
		require.True(t, utf8.ValidString(err.Message))
		require.Contains(t, err.Message, "…")
	}
}

// TestAFullDiskIsUnavailable checks that the message gives the reason, and no path of the host.
func TestAFullDiskIsUnavailable(t *testing.T) {
	for _, no := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		e := AsError(fmt.Errorf("keeping it: %w", &fs.PathError{Op: "write", Path: "/var/lib/millpond/x", Err: no}))
		require.Equal(t, CodeUnavailable, e.Code)
		require.Contains(t, e.Message, "full")
		require.NotContains(t, e.Message, "/var")
	}
	require.Equal(t, CodeInternal, AsError(syscall.EIO).Code)
}
