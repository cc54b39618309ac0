// Command jsonl is a subscriber that appends the audit log to a rotating file of JSON lines. It owns the files it was
// given the path of and nothing else. A record is acknowledged only when it is on disk, and is never split over two
// files. Records come from the host, in order; files go to whoever ships them.
package main

import (
	"syscall"

	"github.com/yett-dev/yett/sdk/plugin"
)

func main() {
	// files get the mode that the settings name as they are made: a confined plugin cannot change it later
	syscall.Umask(0o027)
	plugin.Serve(newPlugin())
}
