//go:build !linux || (!amd64 && !arm64)

package engine

import "embed"

var embedded embed.FS // there are no extensions for this platform
