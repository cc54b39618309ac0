package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/confine/intruder"
)

// intrude tries everything on what FAKE_ARG names, a Target in JSON, and says on stderr what succeeded. A process of -1 is the host's.
func intrude(f *fake) {
	var at intruder.Target
	if err := json.Unmarshal([]byte(f.arg), &at); err != nil {
		f.die("FAKE_ARG: %v", err)
	}
	if at.Pid < 0 {
		at.Pid = os.Getppid()
	}
	out := intruder.Try(at)
	maps.DeleteFunc(out, func(_, failed string) bool { return failed != "" })
	line := "intruder succeeded with [" + strings.Join(slices.Sorted(maps.Keys(out)), " ") + "]\n"
	if _, err := f.stderr.WriteString(line); err != nil {
		f.die("stderr: %v", err)
	}
}
