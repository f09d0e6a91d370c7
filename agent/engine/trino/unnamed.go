package trino

import (
	_ "embed" // embeds a replacement for a class of the JDK
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"syscall"
)

// patchModule and patchClass are the module and the class that unnamed replaces.
const (
	patchModule = "jdk.security.auth"
	patchClass  = "com/sun/security/auth/module/UnixSystem.class"
)

// unnamed replaces the JDK's class that asks the system for the user's name. Its source says why.
// It is built by
//
//go:generate javac -source 17 -target 17 -g:none --patch-module jdk.security.auth=unnamed unnamed/com/sun/security/auth/module/UnixSystem.java
//go:embed unnamed/com/sun/security/auth/module/UnixSystem.class
var unnamed []byte

// nameUser returns the JVM arguments that give its user a name, and writes the files that they
// need.
func (l layout) nameUser(c *syscall.Credential) ([]string, error) {
	uid := os.Getuid()
	if c != nil {
		uid = int(c.Uid)
	}
	if _, err := user.LookupId(fmt.Sprint(uid)); err == nil {
		return nil, nil
	}
	patch := filepath.Join(l.dir, "patch")
	file := filepath.Join(patch, patchClass)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	return []string{"-Duser.name=trino", "--patch-module=" + patchModule + "=" + patch}, os.WriteFile(file, unnamed, 0o600)
}
