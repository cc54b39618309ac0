package author

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/wasm/host"
)

// cacheDir holds compiled modules for all tests.
var cacheDir string

// TestMain serves as the worker process of modules, too.
func TestMain(m *testing.M) {
	if is, err := host.Child(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if is {
		os.Exit(0)
	}
	testkit.Prepare(testkit.InMemory())
	dir, err := os.MkdirTemp("", "yett-author-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs an author's command in this process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := cli.Group("yett", "authors' commands", Scanner(), Rules(), cli.Group("plugin", "plugins", Plugins()...))
	return cli.Run(ctx, root, args, stdin, stdout, stderr)
}

// sampleSecret is shaped like a GitHub token and is none. It is put together here so that no file holds it.
func sampleSecret() string {
	return "gh" + "p_" + "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE"
}
