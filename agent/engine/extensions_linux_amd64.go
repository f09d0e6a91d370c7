package engine

import "embed"

//go:embed all:extensions/linux_amd64
var embedded embed.FS
