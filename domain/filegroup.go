package domain

import (
	"crypto/sha256"
	"encoding/binary"
)

// The groups of workspaces, both ends included: a range that neither systemd (its containers end below, what it calls foreign begins above) nor the usual ranges of
// /etc/subgid give to anybody.
const (
	FirstFileGroup = 0x70000000
	LastFileGroup  = 0x7ffdffff
)

// FileGroup is the number of the operating system's group whose processes open the workspace's tables where these are files of a server that is root. It follows from
// the id alone, so that all servers and agents of a host agree, and no file of theirs says it.
func (ws WorkspaceID) FileGroup() uint32 {
	sum := sha256.Sum256([]byte(ws))
	return FirstFileGroup + binary.BigEndian.Uint32(sum[:])%(LastFileGroup-FirstFileGroup+1)
}
