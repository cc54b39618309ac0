//go:build unix

package hookrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
)

// chattyVar makes this test's binary a hook in which a library prints. Its value is the hook's own file.
const chattyVar = "YETT_TEST_CHATTY_HOOK"

// chattyHook is Run with a library that prints to stdout in all the ways there are.
func chattyHook(file string) int {
	out, err := apart(os.Stdout)
	if err != nil {
		return 98
	}
	h := &Hook{Agent: hook.ClaudeCode, File: file, Dial: func(f *hookfile.File) (Gateway, error) {
		fmt.Println("library: connected")
		println("library: on stderr")
		_, err := syscall.Write(1, []byte("{}"))
		return nil, errors.Join(err, errors.New("no gateway"))
	}}
	return print(out, os.Stderr, h.Reply(context.Background(), strings.NewReader(before)))
}

// TestLibraryThatPrints holds that nothing but the answer reaches the agent, whatever is printed to stdout.
func TestLibraryThatPrints(t *testing.T) {
	if file := os.Getenv(chattyVar); file != "" {
		os.Exit(chattyHook(file))
	}
	f := newFake(t, func(_ int, w http.ResponseWriter, a asked) { decide(w, a, "PERMIT", "") })
	path := filepath.Join(t.TempDir(), "hook.json")
	text, err := f.file.Marshal()
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLibraryThatPrints$")
	cmd.Env = append(os.Environ(), chattyVar+"="+path)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out.String())
	}
	r := hook.Reply{Stdout: out.Bytes(), Stderr: errs.Bytes(), Exit: exit.ExitCode()}
	refused(t, "a library that prints", r, "no gateway")
	if !bytes.HasPrefix(r.Stdout, []byte(`{"hookSpecificOutput"`)) || !bytes.HasSuffix(r.Stdout, []byte("}}")) {
		t.Errorf("stdout is %s", r.Stdout)
	}
}
