//go:build !linux

package prochost

import (
	"os"

	"github.com/yett-dev/yett/core/supervise"
)

func memoryFile([]byte, *supervise.User) (*os.File, error) { return nil, errNoMemory }
