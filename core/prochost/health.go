package prochost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/chain"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/grpc"
)

const (
	healthInterval = time.Second
	healthSilence  = 3 * healthInterval // silent for so long: wedged
	frozenBy       = time.Second        // the watch that fires so late was not running itself

	// A plugin may say at once what has changed, and what it said while we were stopped comes all together. More is a
	// flood: each message has us look at processes, and each change is told and recorded.
	healthRate  = 5.0   // messages a second
	healthBurst = 300.0 // beyond it
)

// listen opens the health stream and waits until the plugin serves. From then on a goroutine follows the stream: what
// it says decides whether the plugin is asked, and its silence or end is the end of the session. HTTP/2's own pings are
// not used: a server that does not expect them ends the connection, and they tell nothing of the program behind it.
func (in *instance) listen(ctx context.Context, moved func(*instance)) error {
	stream, err := pluginv1.NewPluginClient(in.conn).Health(in.ctx,
		&pluginv1.HealthRequest{IntervalMs: uint32(healthInterval.Milliseconds())})
	if err != nil {
		return fmt.Errorf("Health: %w", in.because(ctx, quoted(err)))
	}
	serves, failed := make(chan struct{}), make(chan error, 1)
	if !in.spawn(func() { in.follow(stream, serves, failed, moved) }) {
		return errLost
	}
	select {
	case <-serves:
		return nil
	case err := <-failed:
		return in.because(ctx, err)
	case <-ctx.Done():
		if said := in.said.Load(); said != nil {
			return &chain.Spoken{Err: fmt.Errorf("it does not serve (%s): %w", said.how, context.Cause(ctx)), Words: said.words}
		}
		return fmt.Errorf("nothing on its health stream: %w", context.Cause(ctx))
	}
}

// follow reads health messages until the session ends.
func (in *instance) follow(stream grpc.ServerStreamingClient[pluginv1.HealthResponse], serves chan<- struct{},
	failed chan<- error,
	moved func(*instance)) {
	watch := in.watchSilence()
	defer watch.stop()
	first, left := true, allowance{left: healthBurst, at: time.Now()}
	for {
		m, err := stream.Recv()
		switch {
		case err != nil:
			err = fmt.Errorf("its health stream ended: %w", quoted(err))
		case !left.countMessage(time.Now()):
			err = errFlood
		default:
			err = in.heed(m)
		}
		if err != nil {
			failed <- err
			in.fail(err)
			return
		}
		watch.heard()
		in.process.Survey()
		if first && in.serving.Load() {
			close(serves)
			first = false
		} else if !first {
			moved(in)
		}
	}
}

var errFlood = fmt.Errorf("it floods its health stream: one message every %v was asked for, %v a second are "+
	"put up with", healthInterval, healthRate)

// allowance is how many messages may still come.
type allowance struct {
	left float64
	at   time.Time // of the last one
}

// countMessage counts one message. false: it is one too many.
func (a *allowance) countMessage(now time.Time) bool {
	a.left = min(a.left+healthRate*now.Sub(a.at).Seconds(), healthBurst) - 1
	a.at = now
	return a.left >= 0
}

// health is what a plugin says of itself.
type health struct {
	how   string // "" while it serves
	words string
}

// heed takes over what a message says.
func (in *instance) heed(m *pluginv1.HealthResponse) error {
	said := health{words: chain.Heard(m.Detail)}
	switch m.Status {
	case pluginv1.HealthResponse_STATUS_SERVING:
	case pluginv1.HealthResponse_STATUS_NOT_SERVING:
		said.how = "not serving"
	case pluginv1.HealthResponse_STATUS_DRAINING:
		said.how = "draining"
	default:
		return fmt.Errorf("unknown health status %d: expected 1 (serving), 2 (not serving) or 3 (draining)", m.Status)
	}
	in.said.Store(&said)
	in.serving.Store(m.Status == pluginv1.HealthResponse_STATUS_SERVING)
	return nil
}

// silence ends a session whose plugin says nothing any more.
type silence struct {
	in    *instance
	timer *time.Timer
	last  chan time.Time // of capacity 1: when something was heard
}

func (in *instance) watchSilence() *silence {
	w := &silence{in: in, last: make(chan time.Time, 1)}
	w.last <- time.Now()
	w.timer = time.AfterFunc(healthSilence, w.fire)
	return w
}

func (w *silence) heard() {
	<-w.last
	w.last <- time.Now()
	w.timer.Reset(healthSilence)
}

func (w *silence) stop() { w.timer.Stop() }

// fire ends the session, unless it comes so late that it was ourselves who stood still: then the plugin gets its time
// again.
func (w *silence) fire() {
	last := <-w.last
	w.last <- last
	if time.Since(last) > healthSilence+frozenBy && w.in.ctx.Err() == nil {
		<-w.last
		w.last <- time.Now()
		w.timer.Reset(healthSilence)
		return
	}
	w.in.fail(errWedged)
}

var errWedged = errors.New("it has been silent on its health stream for " + healthSilence.String() +
	": it is taken for wedged")
