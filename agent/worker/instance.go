package worker

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

const instanceFile = "instance"

var instanceID = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// instanceOf is the random name of an agent's directory, by which the control plane tells two agents with one token apart. It is made once; a file that a
// machine's crash has left without one counts as none.
func instanceOf(dir string) (string, error) {
	path := filepath.Join(dir, instanceFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if instanceID.Match(b) {
		return string(b), nil
	}
	id := rand.Text()
	next := path + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(id)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	return id, os.Rename(next, path)
}
