package testkit

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// TestWriteProgram writes programs and runs each at once, while others do the same.
func TestWriteProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var group sync.WaitGroup
	for writer := range 8 {
		group.Go(func() {
			for i := range Rounds(50, 10) {
				path := filepath.Join(dir, strconv.Itoa(writer)+"-"+strconv.Itoa(i))
				if err := WriteProgram(path, []byte("#!/bin/sh\n")); err != nil {
					t.Error(err)
				}
				if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
