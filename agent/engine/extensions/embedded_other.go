//go:build !linux || (!amd64 && !arm64)

package extensions

import "embed"

var embedded embed.FS // this platform has no extensions
