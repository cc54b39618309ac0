// Package rig owns the private place in which tests start real coding agents: mount, network and process namespaces of
// its own, with loopback only, an /etc and a /tmp that nobody else sees, the rest of the disk read-only, an
// unprivileged user and a HOME made for each run. Only tests import it; they run with YETT_AGENTS=1 and skip without.
// It must never start an agent outside of that place: every run looks first, and fails where it finds itself outside.
// Which clients there are, and how each is started, is a table; clients/package.json pins their versions.
package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Variables of the environment. The last three are between Main and the process that it starts.
const (
	// Switch turns the tests with real agents on.
	Switch = "YETT_AGENTS"
	// Clients names the folder that npm ci filled from clients/package.json.
	Clients = "YETT_AGENTS_CLIENTS"

	insideVar = "YETT_AGENTS_INSIDE" // a word that only the private place holds, too
	hostVar   = "YETT_AGENTS_HOST"   // the machine's namespaces
	shareVar  = "YETT_AGENTS_SHARE"  // the folder that becomes Share
)

// Share is where the private place shows the folder that Main's before filled, such as programs under test.
const Share = "/run/yett"

// installed is where it shows the folder of the clients, which may lie in a HOME that it hides.
const installed = "/run/yett-clients"

// Main runs a package's tests; TestMain calls it. With YETT_AGENTS=1 it runs them once more as a process in the private
// place. before runs outside of it and may fill a folder that the tests find as Share, for they can build nothing.
func Main(m *testing.M, before func(share string) error) int {
	if os.Getenv(Switch) == "" {
		return m.Run()
	}
	if os.Getenv(insideVar) != "" {
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "rig: make the private place:", err)
			return 1
		}
		return m.Run()
	}
	code, err := enter(before)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	return code
}

// enter runs this program again in namespaces of its own.
func enter(before func(share string) error) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("%s is set, but only root may make the private place: run as root, or unset it", Switch)
	}
	clients, err := filepath.Abs(os.Getenv(Clients))
	if err != nil {
		return 0, err
	}
	_, err = os.Stat(filepath.Join(clients, "node_modules"))
	if os.Getenv(Clients) == "" || err != nil {
		return 0, fmt.Errorf("%s is %q: copy the rig's folder clients, run npm ci --ignore-scripts in the copy, and name it",
			Clients, os.Getenv(Clients))
	}
	share, err := os.MkdirTemp("", "yett-rig")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(share)) }()
	if err := os.Chmod(share, 0o755); err != nil {
		return 0, err
	}
	if before != nil {
		if err := before(share); err != nil {
			return 0, fmt.Errorf("prepare: %w", err)
		}
	}
	host, err := namespaces()
	if err != nil {
		return 0, err
	}
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(program, childArgs(os.Args[1:])...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideVar+"="+filepath.Base(share), hostVar+"="+host, shareVar+"="+share,
		Clients+"="+clients)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS |
		syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// childArgs leaves out the flag for a file that the private place does not have.
func childArgs(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.Contains(a, "test.testlogfile") })
}

// namespaces names the namespaces that this process is in.
func namespaces() (string, error) {
	var out []string
	for _, kind := range []string{"mnt", "net", "pid"} {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return "", err
		}
		out = append(out, name)
	}
	return strings.Join(out, " "), nil
}
