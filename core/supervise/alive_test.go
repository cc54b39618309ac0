//go:build linux

package supervise

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
)

// The service with real processes.

func quick(mode string, c Command) Settings {
	c.Name, c.Args = "real", append([]string{mode}, c.Args...)
	return Settings{
		Name: "real", Command: func() (Command, error) { return c, nil }, StartTimeout: patience,
		Backoff: Backoff{First: time.Millisecond, Most: 2 * time.Millisecond, Crashes: 1000},
	}
}

// asksBack is a probe: the process must echo a line.
func asksBack(ctx context.Context, p *Process) error {
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	if _, err := io.WriteString(p.In(), "who are you\n"); err != nil {
		return err
	}
	s, err := bufio.NewReader(p.Out()).ReadString('\n')
	if err != nil {
		return err
	}
	if s != "who are you\n" {
		return errors.New("it answers " + s)
	}
	return nil
}

func TestServiceOfProcesses(t *testing.T) {
	set := quick("echo", Command{Pipe: true})
	set.Probe = asksBack
	s := Supervise(set)
	last, rounds := 0, testkit.Rounds(10, 2)
	for range rounds {
		p, err := s.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.Pid() == last {
			t.Fatal("the old process again")
		}
		last = p.Pid()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { s.Fail(p, errors.New("garbage")) })
		}
		all.Wait()
		if q, err := s.Process(); q == p {
			t.Errorf("still in use: %v", err)
		}
	}
	if _, err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if v := s.State(); v.Starts != uint64(rounds)+1 || v.Crashes != rounds {
		t.Errorf("%+v", v)
	}
	ends := make(chan error, 1)
	go func() { ends <- s.Close(context.Background()) }()
	if err := <-ends; err != nil {
		t.Error(err)
	}
}

func TestServiceSaysWhy(t *testing.T) {
	for mode, want := range map[string]string{
		"crash":   "ended with exit status 3: could not go on",
		"panic":   "ended with exit status 2: panic: on purpose",
		"garbage": "it answers \xff",
	} {
		set := quick(mode, Command{Pipe: true})
		set.Backoff.Crashes = 2
		set.Probe = asksBack
		s := Supervise(set)
		_, err := s.Wait(t.Context())
		for err == nil {
			_, err = s.Wait(t.Context())
		}
		if !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
		closes(t, s)
	}
}

// Close gives the process the time its caller has, and no more.
func TestServiceIsClosed(t *testing.T) {
	s := Supervise(quick("ignores", Command{Pipe: true}))
	p, err := s.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	line(t, bufio.NewReader(p.Out()))
	ctx, cancel := context.WithCancel(context.Background())
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	until(t, "it drains", func() bool { return s.State().State == StateDraining })
	select {
	case <-p.Done():
		t.Error("it was killed though there was time")
	default:
	}
	cancel()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if e := p.Exit(); e.Signal != "SIGKILL" || e.Cause != CauseKilled {
		t.Errorf("%#v", e)
	}
}

// Close while the launcher is at work leaves nothing behind.
func TestServiceIsClosedAtOnce(t *testing.T) {
	for range 20 {
		closes(t, Supervise(quick("hang", Command{})))
	}
}

func BenchmarkProcess(b *testing.B) {
	s := Supervise(quick("hang", Command{}))
	if _, err := s.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Process(); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	s.Close(ctx)
}
