package core

import (
	"fmt"
	"os"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/wasm/host"
)

// compiled is a cache of compiled modules that the tests share: to compile one anew takes seconds.
var compiled string

func TestMain(m *testing.M) {
	if is, err := host.Child(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if is {
		os.Exit(0)
	}
	if mode := os.Getenv(guestEnv); mode != "" {
		serveGuest(mode)
		return
	}
	testkit.Prepare(testkit.InMemory())
	var err error
	if compiled, err = os.MkdirTemp("", "yett-core-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(compiled); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
