// Package web holds the console: its build, embedded, and the handler that serves it.
package web

import "embed"

// Dist is the console's build, with each text file compressed beside itself. It holds nothing but
// .gitkeep in a binary built without `make web`; Handler then serves a page that says so.
//
//go:embed all:dist
var Dist embed.FS
