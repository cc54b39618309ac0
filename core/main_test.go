package core

import (
	"fmt"
	"os"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/wasm/host"
)

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
	if err := testkit.InMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
