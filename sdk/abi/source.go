//go:build !wasip1

package abi

import "embed"

// Source is this package's own source, for projects that must build without a network. Guests do not carry it.
//
//go:embed *.go README.md
var Source embed.FS
