package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Place is what one run of an agent has to itself: a user, a HOME and a project.
type Place struct {
	Home string
	Work string // the project; the agent starts in it
	User int    // the user's and the group's number
	name string
	dead string // the URL of a registry that has nothing
	t    testing.TB

	configured map[string]bool // clients by name
}

var users atomic.Int32

// New makes a place for one run. It skips the test where YETT_AGENTS is not set, and stops it outside of the private
// place.
func New(t testing.TB) *Place {
	t.Helper()
	if os.Getenv(Switch) == "" {
		t.Skip("runs real coding agents: set YETT_AGENTS=1, and YETT_AGENTS_CLIENTS to the folder of npm ci")
	}
	if err := outside(); err != nil {
		t.Fatal(err)
	}
	id := firstUser + int(users.Add(1)) - 1
	if id > lastUser {
		t.Fatalf("no number is left for a user: the private place has %d to %d", firstUser, lastUser)
	}
	p := &Place{User: id, name: fmt.Sprint("agent", id), t: t, configured: map[string]bool{}}
	p.Home = filepath.Join(homes, p.name)
	p.Work = filepath.Join(p.Home, "work")
	if err := addUser(id, p.name, p.Home); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.stopAll(), os.RemoveAll(p.Home)); err != nil {
			t.Error(err)
		}
	})
	for _, dir := range []string{p.Home, p.Work, filepath.Join(p.Home, "tmp")} {
		p.own(dir, os.MkdirAll(dir, 0o700))
	}
	p.dead = deadRegistry(t)
	return p
}

// deadRegistry answers at once that there is no package. A client that installs packages while it starts would wait
// long for a registry that nobody answers for.
func deadRegistry(t testing.TB) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends with Close alone
	}()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return "http://" + l.Addr().String() + "/"
}

// own gives a path to the run's user.
func (p *Place) own(path string, err error) {
	p.t.Helper()
	if err := errors.Join(err, os.Chmod(path, 0o700), os.Lchown(path, p.User, p.User)); err != nil {
		p.t.Fatal(err)
	}
}

// Write writes a file of the run's user below HOME, with its folders.
func (p *Place) Write(name, text string) {
	p.t.Helper()
	path := p.Home
	parts := strings.Split(filepath.Clean("/" + name)[1:], "/")
	for _, part := range parts[:len(parts)-1] {
		path = filepath.Join(path, part)
		p.own(path, os.MkdirAll(path, 0o700))
	}
	path = filepath.Join(path, parts[len(parts)-1])
	p.own(path, os.WriteFile(path, []byte(text), 0o600))
}

// Managed writes a file that only an administrator may write, such as /etc/codex/requirements.toml, and removes it
// after the test. It exists in the private place alone. Runs in parallel see each other's.
func (p *Place) Managed(path, text string) {
	p.t.Helper()
	if err := outside(); err != nil {
		p.t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			p.t.Error(err)
		}
	})
}

// Start runs a client to its end. A client that cannot be started, or that still runs after three minutes, fails
// the test.
func (p *Place) Start(c Client, r Run) Output {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	out, err := p.Run(ctx, c, r)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}
