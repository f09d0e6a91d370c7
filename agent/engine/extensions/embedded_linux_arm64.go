package extensions

import "embed"

//go:embed all:linux_arm64
var embedded embed.FS
