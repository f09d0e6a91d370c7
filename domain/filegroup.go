package domain

import (
	"crypto/sha256"
	"encoding/binary"
)

// The range of workspaces' groups, both ends included. It lies between the ranges of systemd
// (containers below, foreign groups above), and outside the usual ranges of /etc/subgid.
const (
	FirstFileGroup = 0x70000000
	LastFileGroup  = 0x7ffdffff
)

// FileGroup returns the number of the operating system's group whose processes may open the
// workspace's table files on a server that runs as root. It is computed from the id alone, so all
// servers and agents of a host agree without a file.
func (ws WorkspaceID) FileGroup() uint32 {
	sum := sha256.Sum256([]byte(ws))
	return FirstFileGroup + binary.BigEndian.Uint32(sum[:])%(LastFileGroup-FirstFileGroup+1)
}
