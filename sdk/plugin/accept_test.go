package plugin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// short is a listener of a machine that is short of something: its Accept gives these errors first.
type short struct {
	net.Listener
	errs  []error
	tries []time.Time
}

func (l *short) Accept() (net.Conn, error) {
	l.tries = append(l.tries, time.Now())
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return l.Listener.Accept()
}

var passingErrors = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS,
	syscall.ECONNABORTED, syscall.EPROTO}

// TestServesOn: a plugin that listens answers after errors of accept that pass.
func TestServesOn(t *testing.T) {
	t.Parallel()
	all, err := gather(sample(), nil)
	if err != nil {
		t.Fatal(err)
	}
	below := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serveOn(ctx, &short{Listener: below, errs: passingErrors}, all,
			slog.New(slog.NewJSONHandler(io.Discard, nil)))
	}()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return below.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	m, err := pluginv1.NewPluginClient(conn).Info(t.Context(), &pluginv1.InfoRequest{})
	if err != nil || m.GetName() != "sample" {
		t.Error(m, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestPatientPauses: the pauses grow up to a second and begin anew after a connection, and few of them are logged.
func TestPatientPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &short{Listener: bufconn.Listen(1)}
		for range 12 {
			below.errs = append(below.errs, syscall.EMFILE)
		}
		logs := &syncBuffer{}
		l := newPatient(below, slog.New(slog.NewJSONHandler(logs, nil)))
		accept := func() {
			t.Helper()
			go func() { _, _ = below.Listener.(*bufconn.Listener).Dial() }()
			if _, err := l.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		accept()
		for i := range 12 {
			if got, want := below.tries[i+1].Sub(below.tries[i]), min(firstPause<<i, longPause); got != want {
				t.Errorf("pause %d is %v, want %v", i, got, want)
			}
		}
		if n := strings.Count(logs.String(), "too many open files"); n != 2 {
			t.Errorf("%d lines: %s", n, logs)
		}
		below.errs, below.tries = []error{syscall.EMFILE}, nil
		if accept(); below.tries[1].Sub(below.tries[0]) != firstPause {
			t.Errorf("after a connection: %v", below.tries)
		}
	})
}

// TestPatientEnds: a lasting error is told at once, and closing ends a pause.
func TestPatientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.NewJSONHandler(io.Discard, nil))
		for _, err := range []error{net.ErrClosed, io.EOF, syscall.EBADF, syscall.EINVAL} {
			if _, got := newPatient(&short{errs: []error{err}}, log).Accept(); !errors.Is(got, err) {
				t.Errorf("%v: %v", err, got)
			}
		}
		l := newPatient(&short{Listener: bufconn.Listen(1), errs: []error{syscall.ENOMEM}}, log)
		got := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			got <- err
		}()
		synctest.Wait() // it pauses
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-got; !errors.Is(err, syscall.ENOMEM) {
			t.Error(err)
		}
	})
}
