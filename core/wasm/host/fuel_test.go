package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk/abi"
)

// scanFuel scans the text as a whole and gives what that cost.
func scanFuel(m *Module, text string) (uint64, error) {
	r, err := m.ScanWindow(context.Background(), Window{Text: text, Flags: abi.FlagFirst | abi.FlagFinal})
	return r.Fuel, err
}

// bomb is a recursion without any loop: 2^depth calls of a function that calls itself twice.
func bomb(depth int) guest {
	self := len(hostFuncs) + 4 // behind marker, buffer, init and scan
	return guest{scan: cat(i32(depth), callTo(self), i32(0)), edit: func(m *mod) {
		again := cat(get(0), i32(1), sub, callTo(self))
		m.funcs = append(m.funcs, fn{sig("i", ""), 0, cat(get(0), ifThen, again, again, end)})
	}}
}

// hogs are guests that would run for very long. Each must end by its budget, and by its deadline if that comes first.
var hogs = []struct {
	name string
	g    guest
}{
	{"loop", guest{scan: cat(forever(), i32(0))}},
	{"recursion without loops", bomb(60)},
	{"loop of memory.fill", guest{scan: cat(loop, i32(bufferAt), i32(0), i32(100_000), []byte{0xfc, 11, 0}, br(0), end, i32(0))}},
	{"loop of memory.copy", guest{scan: cat(loop, i32(0), i32(0), i32(200_000), []byte{0xfc, 10, 0, 0}, br(0), end, i32(0))}},

	{"loop of failed growth", guest{scan: cat(loop, i32(10), memGrow, drop, br(0), end, i32(0))}},
	{"loop of loops", guest{locals: 1, scan: cat(loop, times(3, 1000, nil), br(0), end, i32(0))}},
}

func TestBudgetEndsAGuest(t *testing.T) {
	for _, h := range hogs {
		t.Run(h.name, func(t *testing.T) {
			m := load(t, h.g, func(s *Spec) { s.Timeout, s.Fuel = MaxTimeout, 5_000_000 })
			fuel, err := scanFuel(m, "x")
			wantErr(t, err, ErrFuel)
			// growth by ten pages is one charge
			if errors.Is(err, ErrInterrupted) || fuel <= 5_000_000 || fuel > 5_000_000+SliceFuel+10<<16 {
				t.Errorf("%d units, %v", fuel, err)
			}
			again, err := scanFuel(m, "x")
			wantErr(t, err, ErrFuel)
			if again != fuel {
				t.Errorf("%d units, then %d", fuel, again)
			}
		})
	}
}

// TestDeadlineEndsAGuest also keeps a collector running beside each guest: if a guest could not be stopped for one, its
// deadline would not be seen either.
func TestDeadlineEndsAGuest(t *testing.T) {
	for _, h := range hogs {
		t.Run(h.name, func(t *testing.T) {
			m := load(t, h.g, func(s *Spec) { s.Timeout, s.Fuel = MaxTimeout, MaxFuel })
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() {
				_, err := m.ScanHits(ctx, "x", nil, false)
				done <- err
			}()
			waitFor(func() bool { return m.places.InUse() == 1 })
			for range 3 {
				runtime.GC() // comes back only if the guest lets it in
			}
			cancel()
			err := <-done
			wantErr(t, err, ErrInterrupted)
			wantErr(t, err, context.Canceled)
		})
	}
}

// TestFuelDoesNotDependOnLoad runs the same call on an idle and on a busy machine, with budgets around what it needs.
func TestFuelDoesNotDependOnLoad(t *testing.T) {
	testkit.Long(t, "it keeps the machine busy")
	g := guest{locals: 1, scan: cat(times(3, 300_000, cat(i32(scratchAt), get(3), store32)),
		host("log", i32(0), i32(textAt), i32(11)), i32(0))}
	need, err := scanFuel(load(t, g, nil), "some text")
	if err != nil || need < 300_000 {
		t.Fatalf("%d units, %v", need, err)
	}
	run := func() (out []string) {
		for _, budget := range []uint64{need / 2, need - 1, need, need + 1} {
			m := load(t, g, func(s *Spec) { s.Fuel, s.Timeout = budget, MaxTimeout })
			for range 5 {
				fuel, err := scanFuel(m, "some text")
				out = append(out, fmt.Sprintf("%d: %d %v", budget, fuel, err))
			}
		}
		return out
	}
	idle := run()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for junk := 0; !stop.Load(); junk++ {
				_ = make([]byte, junk%4096)
			}
		})
	}
	busy := run()
	stop.Store(true)
	wg.Wait()
	if a, b := strings.Join(idle, "\n"), strings.Join(busy, "\n"); a != b {
		t.Errorf("idle:\n%s\nbusy:\n%s", a, b)
	}
	for i, line := range idle {
		if failed := strings.Contains(line, ErrFuel.Error()); failed != (i < 10) {
			t.Errorf("%s", line)
		}
	}
}

// TestHostFunctionsCharge floods the host through every function that reads or writes much.
func TestHostFunctionsCharge(t *testing.T) {
	again := func(body []byte) []byte { return cat(times(3, abi.MaxHostCalls, body), i32(0)) }
	vecs := []byte{}
	for i := range 64 { // 64 pieces of nearly the whole memory each
		vecs = cat(vecs, i32(scratchAt+8*i), i32(bufferAt), store32, i32(scratchAt+8*i+4), i32(200_000), store32)
	}
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"fd_write", cat(vecs, again(cat(host("fd_write", i32(1), i32(scratchAt), i32(64), i32(0)), drop)))},
		{"log", again(host("log", i32(1), i32(zerosAt), i32(50_000)))},
		{"random_get", again(cat(host("random_get", i32(bufferAt), i32(maxRandom)), drop))},
		{"poll_oneoff", again(cat(host("poll_oneoff", i32(bufferAt), i32(bufferAt+8192), i32(maxSubscriptions), i32(0)), drop))},
		{"clock_time_get", again(cat(host("clock_time_get", i32(0), i64(0), i32(0)), drop))},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := load(t, guest{locals: 1, scan: c.body}, func(s *Spec) { s.Timeout, s.Fuel = MaxTimeout, 3_000_000 })
			fuel, err := scanFuel(m, "x")
			wantErr(t, err, ErrFuel)
			if fuel > 3_000_000+maxRandom*randomByteFuel+SliceFuel {
				t.Errorf("%d units", fuel)
			}
		})
	}
}

// TestTheHostLooksAtTheClock has a guest spend all its time in host functions: its slice alone would last for long.
func TestTheHostLooksAtTheClock(t *testing.T) {
	m := load(t, finder(), nil)
	in, err := m.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	ctx, cancel := context.WithCancel(context.Background())
	c := in.newCall(scanning)
	c.begin(ctx, time.Hour, MaxFuel)
	cancel()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, context.Canceled) || c.used > 2*SliceFuel {
			t.Errorf("%v after %d units", err, c.used)
		}
	}()
	for range SliceFuel {
		c.chargeBytes(1 << 10)
	}
	t.Error("nothing ended it")
}

func TestCallDepth(t *testing.T) {
	self := len(hostFuncs) + 4
	deep := func(n int) guest {
		return guest{scan: cat(i32(n), callTo(self), i32(0)), edit: func(m *mod) {
			m.funcs = append(m.funcs, fn{sig("i", ""), 0, cat(get(0), ifThen, get(0), i32(1), sub, callTo(self), end)})
		}}
	}
	m := load(t, deep(10_000), nil)
	for range 3 { // the budget is whole again for each call
		if _, err := scan(m, "x"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := scan(load(t, deep(10_000_000), nil), "x")
	wantErr(t, err, ErrStack)
}

func TestSlowStart(t *testing.T) {
	for name, g := range map[string]guest{
		"_initialize": {scan: i32(0), initialize: forever()},
		"yett_init":   {scan: i32(0), init: cat(forever(), i32(0))},
		"yett_buffer": {scan: i32(0), buffer: cat(forever(), i32(0))},
		"describe":    {scan: i32(0), describe: cat(forever(), i32(0))},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, Options{})
			_, err := h.Load(context.Background(), Spec{Name: "mod", Code: g.wasm(), Start: MaxTimeout, startFuel: 1_000_000})
			wantErr(t, err, ErrFuel)
			_, err = h.Load(context.Background(), Spec{Name: "mod", Code: g.wasm(), Start: time.Millisecond, startFuel: MaxFuel})
			wantErr(t, err, context.DeadlineExceeded)
		})
	}
}

// TestFuelIsReported counts what a call costs, by the call and in all.
func TestFuelIsReported(t *testing.T) {
	m := load(t, finder(), nil)
	short, err := scanFuel(m, "a!")
	if err != nil {
		t.Fatal(err)
	}
	long, err := scanFuel(m, strings.Repeat("a!", 100))
	if err != nil || short == 0 || long < 50*short {
		t.Errorf("%d units for 2 bytes, %d for 200, %v", short, long, err)
	}
	if s := m.Stats(); s.Fuel != short+long {
		t.Errorf("stats %+v, want %d units", s, short+long)
	}
}
