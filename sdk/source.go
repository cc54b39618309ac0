//go:build !wasip1

package sdk

import "embed"

// Source is this package's own source, for projects that must build without a network. Guests do not carry it.
//
//go:embed *.go
var Source embed.FS
