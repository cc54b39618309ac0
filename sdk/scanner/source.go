//go:build !wasip1

package scanner

import "embed"

// Source is this package's own source, for projects that must build without a network. Guests do not carry it.
//
//go:embed *.go README.md rust/yett.rs c/yett.h assemblyscript/yett.ts
var Source embed.FS
