package engine

import "embed"

//go:embed all:extensions/linux_arm64
var embedded embed.FS
