package extensions

import "embed"

//go:embed all:linux_amd64
var embedded embed.FS
