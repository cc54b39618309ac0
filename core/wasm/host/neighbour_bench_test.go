package host

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// BenchmarkNeighbours says what calls of one key that never end cost its neighbours: another key's scan by the same
// module, and an answer over the network from the same process. It is for an idle machine: go test ./core/wasm/host
// -run ^$ -bench Neighbours
func BenchmarkNeighbours(b *testing.B) {
	code := wasmgen.Armed(wasmgen.Cat(wasmgen.Forever(), wasmgen.FindBody())).Encode()
	spec := Spec{Name: "m", Code: code, Timeout: MaxTimeout, Fuel: MaxFuel}
	inside, err := newHost(b, Options{}).Load(context.Background(), spec)
	if err != nil {
		b.Fatal(err)
	}
	worker, err := newHost(b, Options{}).Spawn(context.Background(), spec)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = worker.Close(context.Background()) })
	echo := echoes(b)
	for name, s := range map[string]chain.Scanner{"inproc": inside, "worker": worker} {
		scan := func() error {
			_, err := s.Scan(context.Background(), &chain.Input{Text: "some other text, for short", KeyID: "quick"})
			return err
		}
		for what, do := range map[string]func() error{"scan": scan, "echo": echo} {
			for _, slow := range []int{0, 8} {
				b.Run(name+"/"+what+"/"+map[int]string{0: "alone", 8: "beside"}[slow], func(b *testing.B) {
					ctx, stop := context.WithCancel(context.Background())
					ended := make(chan struct{}, slow)
					for range slow {
						go func() {
							_, _ = s.Scan(ctx, &chain.Input{Text: wasmgen.Trigger + "some text that is long", KeyID: "slow"})
							ended <- struct{}{}
						}()
					}
					quantiles(b, do)
					stop()
					for range slow {
						<-ended
					}
				})
			}
		}
	}
}

// quantiles reports how long do takes, at rest between two.
func quantiles(b *testing.B, do func() error) {
	var took []time.Duration
	pace := time.NewTicker(200 * time.Microsecond)
	defer pace.Stop()
	for b.Loop() {
		<-pace.C
		begun := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}

// echoes answers over a connection of this machine's.
func echoes(b *testing.B) func() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	buf := make([]byte, 600)
	return func() error {
		if _, err := c.Write(buf); err != nil {
			return err
		}
		_, err := io.ReadFull(c, buf)
		return err
	}
}

// BenchmarkSeldomBesideEndless is the median time of a short call that another key makes now and then, beside an
// endless one in the same worker. A process whose runtime has little to do looks at its processors seldom, so what
// waits for that look waits long.
func BenchmarkSeldomBesideEndless(b *testing.B) {
	code := wasmgen.Armed(wasmgen.Cat(wasmgen.Forever(), wasmgen.FindBody())).Encode()
	w, err := newHost(b, Options{}).Spawn(context.Background(),
		Spec{Name: "m", Code: code, Instances: 1, Timeout: MaxTimeout, Fuel: MaxFuel})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close(context.Background()) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := w.Scan(ctx, &chain.Input{Text: wasmgen.Trigger + "some text that is long", KeyID: "slow"})
		ended <- err
	}()
	waitFor(func() bool { return w.places.InUse() == 1 })
	var took []time.Duration
	for b.Loop() {
		for range 100 {
			pause := time.NewTimer(10 * time.Millisecond)
			<-pause.C
			begun := time.Now()
			if _, err := w.Scan(context.Background(), &chain.Input{Text: "some other text, for short", KeyID: "quick"}); err !=
				nil {
				b.Error(err)
			}
			took = append(took, time.Since(begun))
		}
	}
	stop()
	<-ended
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(0, "ns/op")
}
