package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
)

// machine is an agent that enrolls, and the control plane's tokens for it.
type machine struct {
	*control
	o     Options
	log   *said
	mu    sync.Mutex
	fresh map[string]bool // unused bootstrap tokens
	asked []string
	count int
}

// newMachine returns a machine. The control plane accepts each of the bootstrap tokens once, and
// the last token that it issued.
func newMachine(t *testing.T, fresh ...string) *machine {
	c := newControl(t)
	o := c.options()
	m := &machine{control: c, o: o, log: &said{}, fresh: map[string]bool{}}
	for _, boot := range fresh {
		m.fresh[boot] = true
	}
	dir := filepath.Dir(o.Dir)
	m.o.Token, m.o.TokenFile, m.o.BootstrapFile = "", filepath.Join(dir, "token"), filepath.Join(dir, "bootstrap")
	m.o.Log = slog.New(slog.NewTextHandler(m.log, nil))
	c.token = "none yet"
	m.answer(m.exchange)
	return m
}

func (m *machine) answer(f func(w http.ResponseWriter, boot string)) { m.control.enroll.Store(&f) }

func (m *machine) exchange(w http.ResponseWriter, boot string) {
	token, ok := m.use(boot)
	if !ok {
		answer(w, http.StatusUnauthorized, "used or expired")
		return
	}
	_ = json.NewEncoder(w).Encode(agent.Enrollment{AgentID: "agt_1", Token: token})
}

func (m *machine) use(boot string) (token string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, boot)
	if !m.fresh[boot] {
		return "", false
	}
	delete(m.fresh, boot)
	m.count++
	token = fmt.Sprint("token-", m.count)
	m.control.mu.Lock()
	defer m.control.mu.Unlock()
	m.control.token = token
	return token, true
}

func (m *machine) write(path, secret string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
}

func (m *machine) requireEnrolled(token string) {
	m.t.Helper()
	b, err := os.ReadFile(m.o.TokenFile)
	require.NoError(m.t, err)
	require.Equal(m.t, token+"\n", string(b))
	info, err := os.Stat(m.o.TokenFile)
	require.NoError(m.t, err)
	require.Equal(m.t, os.FileMode(0o600), info.Mode())
	waitFor(m.t, func() bool { return !fileExists(m.o.BootstrapFile) })
	require.NoFileExists(m.t, m.o.TokenFile+".next")
	for _, secret := range append(m.asked, "token-1", "token-2") {
		require.NotContains(m.t, m.log.String(), secret, "a secret is in the log")
	}
}

func TestAMachineEnrollsOnce(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.BootstrapFile, "boot-1")
	stop := m.agent(m.o)
	m.requireEnrolled("token-1")
	require.Contains(t, m.log.String(), "enrolled with the bootstrap token")
	stop()
	m.cut()
	m.agent(m.o)
	require.Equal(t, []string{"boot-1"}, m.asked)
}

func TestANewBootstrapTokenGoesBeforeAnOldToken(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.TokenFile, "token-of-before")
	m.write(m.o.BootstrapFile, "boot-1")
	m.agent(m.o)
	m.requireEnrolled("token-1")
}

func TestAnEmptyBootstrapFileIsNone(t *testing.T) {
	m := newMachine(t)
	m.control.token = "token-of-before"
	m.write(m.o.TokenFile, "token-of-before")
	m.write(m.o.BootstrapFile, "")
	m.agent(m.o)
	require.Empty(t, m.asked)
}

// TestACrashAfterTheTokenIsKept: the bootstrap token still exists, but is used.
func TestACrashAfterTheTokenIsKept(t *testing.T) {
	m := newMachine(t)
	m.control.token = "token-0"
	m.write(m.o.TokenFile, "token-0")
	m.write(m.o.BootstrapFile, "boot-0")
	m.agent(m.o)
	m.requireEnrolled("token-0")
	require.Equal(t, []string{"boot-0"}, m.asked)
	require.Contains(t, m.log.String(), "used or expired")
}

// TestALostAnswerIsFinalWithoutAToken: the token was exchanged, so only the provider can help.
func TestALostAnswerIsFinalWithoutAToken(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.BootstrapFile, "boot-1")
	m.answer(func(w http.ResponseWriter, boot string) {
		_, _ = m.use(boot)
		m.answer(m.exchange)
		panic(http.ErrAbortHandler)
	})
	err := Run(t.Context(), m.o)
	_, final := errors.AsType[*tunnel.FinalError](err)
	require.True(t, final)
	require.ErrorContains(t, err, "used or expired")
	require.ErrorContains(t, err, "start the machine again")
	require.Equal(t, []string{"boot-1", "boot-1"}, m.asked)
	require.FileExists(t, m.o.BootstrapFile, "it may be of use to whoever looks into this")
}

func TestALostAnswerIsMadeGoodByAnotherBootstrapToken(t *testing.T) {
	m := newMachine(t, "boot-1", "boot-2")
	m.write(m.o.BootstrapFile, "boot-1")
	m.answer(func(_ http.ResponseWriter, boot string) {
		_, _ = m.use(boot)
		m.answer(func(w http.ResponseWriter, boot string) {
			if boot == "boot-1" {
				assertNoError(t, os.WriteFile(m.o.BootstrapFile, []byte("boot-2"), 0o600)) // by the provider, during the exchange
			}
			m.exchange(w, boot)
		})
		panic(http.ErrAbortHandler)
	})
	m.agent(m.o)
	m.requireEnrolled("token-2")
	require.Equal(t, []string{"boot-1", "boot-1", "boot-2"}, m.asked)
}

func TestAControlPlaneInTroubleIsAskedAgain(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.BootstrapFile, "boot-1")
	troubles := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { answer(w, http.StatusServiceUnavailable, "starting") },
		func(w http.ResponseWriter) { answer(w, http.StatusNotFound, "an older one") },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, "{}") },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
	}
	var n int
	m.answer(func(w http.ResponseWriter, boot string) {
		if n++; n > len(troubles) {
			m.exchange(w, boot)
			return
		}
		troubles[n-1](w)
	})
	m.agent(m.o)
	m.requireEnrolled("token-1")
	for _, said := range []string{"starting", "an older one", "it has no token", "reading the answer"} {
		require.Contains(t, m.log.String(), said)
	}
}

func TestARefusedTokenLeadsToTheBootstrapToken(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.control.token = "token-of-before"
	m.write(m.o.TokenFile, "token-of-before")
	m.agent(m.o)
	require.Empty(t, m.asked)
	m.write(m.o.BootstrapFile, "boot-1")
	m.control.mu.Lock()
	m.control.token = "token-1"
	m.control.mu.Unlock()
	m.cut()
	m.session()
	m.requireEnrolled("token-1")
}

// TestABootstrapTokenThatComesWithTheRefusal: it is written after the agent has checked for one.
func TestABootstrapTokenThatComesWithTheRefusal(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.TokenFile, "token-of-before")
	c, err := newCredential(m.o)
	require.NoError(t, err)
	refused := &tunnel.FinalError{Status: http.StatusUnauthorized}
	require.False(t, c.renewed(refused))
	m.write(m.o.BootstrapFile, "boot-1")
	require.True(t, c.renewed(refused))
	require.False(t, c.renewed(&tunnel.FinalError{Status: http.StatusUpgradeRequired}))
	require.False(t, c.renewed(io.ErrUnexpectedEOF))
	c.refused = "boot-1"
	require.False(t, c.renewed(refused))
}

func TestTokensThatAreAllRefusedAreFinal(t *testing.T) {
	m := newMachine(t)
	m.write(m.o.TokenFile, "token-of-before")
	m.write(m.o.BootstrapFile, "boot-0")
	err := Run(t.Context(), m.o)
	require.ErrorContains(t, err, "no agent has this token")
	require.Equal(t, []string{"boot-0"}, m.asked)
}

func TestAMachineWithoutAnyTokenSaysSo(t *testing.T) {
	m := newMachine(t)
	err := Run(t.Context(), m.o)
	require.ErrorContains(t, err, m.o.TokenFile)
	require.ErrorContains(t, err, m.o.BootstrapFile)
	m.o.BootstrapFile = ""
	require.ErrorContains(t, Run(t.Context(), m.o), "There is no token in "+m.o.TokenFile)
	m.o.TokenFile = ""
	require.ErrorContains(t, Run(t.Context(), m.o), "The agent has no token")
	m.o.BootstrapFile = "somewhere"
	require.ErrorContains(t, Run(t.Context(), m.o), "--token-file")
}

// TestATokenThatCannotBeKeptIsUsedAndKeptLater: a full disk at the time of the answer must not lose
// the machine.
func TestATokenThatCannotBeKeptIsUsedAndKeptLater(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.BootstrapFile, "boot-1")
	require.NoError(t, os.Mkdir(m.o.TokenFile, 0o755)) // a file cannot replace it
	m.agent(m.o)
	require.FileExists(t, m.o.BootstrapFile)
	require.Contains(t, m.log.String(), "could not be stored")
	require.NoError(t, os.Remove(m.o.TokenFile))
	m.cut()
	m.session()
	m.requireEnrolled("token-1")
	require.Equal(t, []string{"boot-1"}, m.asked)
}

func TestNothingIsSpentWhereNoTokenCouldBeKept(t *testing.T) {
	m := newMachine(t, "boot-1")
	m.write(m.o.BootstrapFile, "boot-1")
	dir := filepath.Dir(m.o.TokenFile) + "/later"
	m.o.TokenFile = dir + "/token"
	c, err := newCredential(m.o)
	require.NoError(t, err)
	c.log = m.o.Log
	_, err = c.current(t.Context())
	require.ErrorContains(t, err, "making the file of the agent's token")
	require.Empty(t, m.asked)
	require.NoError(t, os.Mkdir(dir, 0o755))
	token, err := c.current(t.Context())
	require.NoError(t, err)
	require.Equal(t, "token-1", token)
	m.requireEnrolled("token-1")
}

// TestATokenSurvivesItsFile: a replacement of the file in two steps does not end the agent.
func TestATokenSurvivesItsFile(t *testing.T) {
	m := newMachine(t)
	m.control.token = "token-0"
	m.write(m.o.TokenFile, "token-0")
	m.agent(m.o)
	require.NoError(t, os.Remove(m.o.TokenFile))
	m.cut()
	m.session()
	m.write(m.o.TokenFile, "token-9")
	m.control.mu.Lock()
	m.control.token = "token-9"
	m.control.mu.Unlock()
	m.cut()
	m.session()
}

func TestEveryCrashOfAnEnrollmentIsOvercome(t *testing.T) {
	steps := []string{"before it is asked", "after the answer", "with the token in its file"}
	for i, step := range steps {
		t.Run(step, func(t *testing.T) {
			m := newMachine(t, "boot-1", "boot-2")
			m.write(m.o.BootstrapFile, "boot-1")
			if i > 0 {
				_, _ = m.use("boot-1")
				m.write(m.o.TokenFile+".next", "half of a tok")
			}
			if i > 1 {
				m.write(m.o.TokenFile, "token-1")
			}
			if i == 1 { // the token is lost: the provider writes another bootstrap token
				require.Error(t, Run(t.Context(), m.o))
				m.write(m.o.BootstrapFile, "boot-2")
			}
			m.agent(m.o)
			m.requireEnrolled(map[bool]string{true: "token-2", false: "token-1"}[i == 1])
		})
	}
}
