package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"github.com/millpond/millpond/domain"
)

const (
	imagesDir   = "images"
	imageName   = "millpond"
	binaryFile  = "millpond"
	versionFile = "version" // of the binary, for people
)

var pinned = regexp.MustCompile(`^` + imageName + `:([^@\s]+)@sha256:([0-9a-f]{64})$`)

// images are binaries stored by their checksums. A machine keeps its binary when the server's own
// is replaced.
type images struct {
	dir     string
	source  string // the binary that new machines get
	version string

	mu   sync.Mutex
	sums map[identity]string
}

// identity identifies a file's content, unless somebody manipulates the clock.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func (s *images) binary(sum string) string      { return filepath.Join(s.dir, sum, binaryFile) }
func (s *images) versionFile(sum string) string { return filepath.Join(s.dir, sum, versionFile) }

// resolve machineLock an image's name into an immutable reference, and stores the image.
func (s *images) resolve(image string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := pinned.FindStringSubmatch(image); m != nil {
		return image, s.confirm(m[1], m[2])
	}
	own := imageName + ":" + s.version
	switch image {
	case "", "default", imageName, own:
		sum, err := s.current()
		return own + "@sha256:" + sum, err
	}
	return "", domain.Invalid("image", "The image %q is not known here; choose default, %s or %s.", image, imageName, own)
}

// confirm checks that an image is stored here and has the given version.
func (s *images) confirm(said, sum string) error {
	if _, err := s.find(sum); err != nil {
		return err
	}
	version, err := s.versionOf(sum)
	if err == nil && version != said {
		return domain.Invalid("image", "The image with this checksum is version %s, not %s; write %s:%s@sha256:%s.", version, said, imageName, version, sum)
	}
	return err
}

func (s *images) versionOf(sum string) (string, error) {
	if current, err := s.sum(s.source); err == nil && current == sum {
		return s.version, nil
	}
	b, err := os.ReadFile(s.versionFile(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return "", damaged(sum)
	}
	return string(b), err
}

// open returns the path of a reference's binary. It checks that the binary is complete and
// unchanged.
func (s *images) open(ref string) (string, error) {
	m := pinned.FindStringSubmatch(ref)
	if m == nil {
		return "", domain.Invalid("image", "The image reference %q does not belong to this provider; update the image while the machine is stopped.", ref)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(m[2])
}

// find returns the path of a stored binary. It stores the current binary again if that is missing
// or damaged.
func (s *images) find(sum string) (string, error) {
	path := s.binary(sum)
	if found, err := s.sum(path); err == nil && found == sum {
		return path, nil
	}
	current, err := s.current()
	if err != nil {
		return "", err
	}
	if current != sum {
		return "", damaged(sum)
	}
	return path, nil
}

func damaged(sum string) error {
	return domain.Invalid("image", "The image with the checksum %s… is missing or damaged on this host; update the machine's image while it is stopped.", sum[:12])
}

// current stores the current binary if it is not stored yet, and returns its checksum.
func (s *images) current() (string, error) {
	sum, err := s.sum(s.source)
	if err != nil {
		return "", fmt.Errorf("reading the server's binary: %w", err)
	}
	if stored, err := s.sum(s.binary(sum)); err != nil || stored != sum {
		if err := s.store(sum); err != nil {
			return "", fmt.Errorf("storing the server's binary as an image: %w", err)
		}
	}
	if version, err := os.ReadFile(s.versionFile(sum)); err == nil && string(version) == s.version {
		return sum, nil
	}
	if err := replaceFile(s.versionFile(sum), []byte(s.version)); err != nil {
		return "", fmt.Errorf("storing the version of the server's binary: %w", err)
	}
	return sum, nil
}

func (s *images) store(sum string) error {
	if err := os.MkdirAll(filepath.Dir(s.binary(sum)), passable()); err != nil {
		return err
	}
	in, err := os.Open(s.source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(s.dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }() // already renamed on success
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, hash), in)
	if err := errors.Join(err, out.Chmod(0o555), out.Sync(), out.Close()); err != nil {
		return err
	}
	if copied := hex.EncodeToString(hash.Sum(nil)); copied != sum {
		return fmt.Errorf("%s was replaced while it was read; try again", s.source)
	}
	return os.Rename(out.Name(), s.binary(sum))
}

// sum returns the checksum of a file. It is computed once for each content.
func (s *images) sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	id, err := identify(info)
	if err != nil {
		return "", err
	}
	if sum, known := s.sums[id]; known {
		return sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	if s.sums == nil {
		s.sums = map[identity]string{}
	}
	s.sums[id] = hex.EncodeToString(hash.Sum(nil))
	return s.sums[id], nil
}

func identify(info fs.FileInfo) (identity, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return identity{}, fmt.Errorf("%s is not a regular file", info.Name())
	}
	return identity{dev: stat.Dev, ino: stat.Ino, size: stat.Size, mtime: stat.Mtim, ctime: stat.Ctim}, nil
}

// prune removes images that no record names. It keeps the next machine's image.
func (s *images) prune(used map[string]bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	current, err := s.sum(s.source)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		if sum := e.Name(); e.IsDir() && sum != current && !used[sum] {
			failed = append(failed, os.RemoveAll(filepath.Join(s.dir, sum)))
		}
	}
	return errors.Join(failed...)
}

// pruneImages removes the images that no machine can be started with again.
func (p *Provider) pruneImages() error {
	unlock, err := p.lockHost()
	if err != nil {
		return err
	}
	defer unlock()
	all, err := p.machineDirs()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, m := range all {
		r, err := m.read()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // it may name any image
			return nil
		}
		if ref := pinned.FindStringSubmatch(r.Image); ref != nil {
			used[ref[2]] = true
		}
	}
	return p.images.prune(used)
}
