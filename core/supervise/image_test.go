//go:build linux

package supervise

import (
	"strings"
	"testing"
)

// TestUnnamedCopyKeepsNothing: where there are no files in memory, a copy of a program leaves neither a directory nor a
// descriptor of one.
func TestUnnamedCopyKeepsNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	const program = "#!/bin/sh\n"
	i, err := unnamedCopy(strings.NewReader(program), digestOf([]byte(program)))
	if err != nil {
		t.Fatal(err)
	}
	defer i.release()
	private.Lock()
	defer private.Unlock()
	for path := range private.locks {
		if strings.HasPrefix(path, tmp) {
			t.Errorf("%s is locked yet", path)
		}
	}
}
