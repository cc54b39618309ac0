package host

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/abi"
)

func TestTimeout(t *testing.T) {
	m := load(t, finder(), func(s *Spec) { s.Timeout, s.Fuel = 20*time.Millisecond, MaxFuel })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := m.ScanHits(ctx, "a@", nil, false)
	wantErr(t, err, context.DeadlineExceeded)
	wantErr(t, err, ErrInterrupted)
	if ctx.Err() != nil {
		t.Error("it was the caller's deadline that ended it")
	}
	if s := settled(m); s.Discarded != 1 || s.Live != 1 {
		t.Errorf("stats %+v", s)
	}
	if got, err := scan(m, "a!"); err != nil || len(got) != 1 {
		t.Errorf("the call after it: %v, %v", got, err)
	}
}

func TestContextEndsACall(t *testing.T) {
	m := load(t, finder(), func(s *Spec) { s.Timeout = time.Minute })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := m.ScanHits(ctx, "@", nil, false)
	wantErr(t, err, context.DeadlineExceeded)
	wantErr(t, err, ErrInterrupted)

	ctx, cancel = context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := m.ScanHits(ctx, "@", nil, false)
		done <- err
	}()
	waitFor(func() bool { return m.places.InUse() == 1 })
	cancel()
	wantErr(t, <-done, context.Canceled)

	_, err = m.ScanHits(ctx, "a", nil, false)
	wantErr(t, err, ErrBusy) // it had ended before
	wantErr(t, err, context.Canceled)
}

// waitFor looks again and again until ok, and leaves the processor to what it waits for.
func waitFor(ok func() bool) {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for !ok() {
		<-tick.C
	}
}

func TestWaitForAnInstance(t *testing.T) {
	m := load(t, finder(), func(s *Spec) { s.Instances, s.Timeout = 1, time.Minute })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = m.ScanHits(ctx, "@", nil, false) })
	waitFor(func() bool { return m.places.InUse() == 1 })

	short, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	_, err := m.ScanHits(short, "!", nil, false)
	wantErr(t, err, ErrBusy)
	wantErr(t, err, context.DeadlineExceeded)

	wg.Go(func() {
		if got, err := scan(m, "!"); err != nil || len(got) != 1 {
			t.Errorf("the call that waited: %v, %v", got, err)
		}
	})
	waitFor(func() bool { return m.Stats().Calls == 3 })
	cancel()
	wg.Wait()
	if s := settled(m); s.Errors != 2 || s.Live != 1 || s.Discarded != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestManyCallers(t *testing.T) {
	m := load(t, finder(), func(s *Spec) { s.Instances = 3 })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if (i+g)%10 == 0 {
					if _, err := scan(m, "!~"); !errors.Is(err, ErrTrap) {
						t.Errorf("got %v", err)
					}
					continue
				}
				text := strings.Repeat("!.", i%5+1) + strings.Repeat("x", g)
				if got, err := scan(m, text); err != nil || len(got) != i%5+1 {
					t.Errorf("%q: %v, %v", text, got, err)
				}
				if n := m.Stats().Live; n > 3 {
					t.Errorf("%d instances live", n)
				}
			}
		})
	}
	wg.Wait()
	if s := settled(m); s.Calls != 400 || s.Errors != 40 || s.Discarded != 40 || s.Live > 3 || s.Live != len(m.idle) {
		t.Errorf("stats %+v, %d idle", s, len(m.idle))
	}
}

func TestIsolation(t *testing.T) {
	// The guest adds one to a counter and emits it as the end of a span.
	g := guest{scan: cat(i32(scratchAt), loadAt(scratchAt), i32(1), add, store32,
		host("emit", i32(kindAt), i32(kindLen), i32(0), loadAt(scratchAt), f32(0), i32(0), i32(0), i32(0), i32(0)))}
	for iso, want := range map[Isolation][]int{Reset: {1, 1, 1}, Fresh: {1, 1, 1}, Pooled: {1, 2, 3}} {
		m := load(t, g, func(s *Spec) { s.Isolation = iso })
		for _, end := range want {
			got, err := scan(m, "0123456789")
			if err != nil || len(got) != 1 || got[0].End != end {
				t.Errorf("%v: got %v, %v, want the end %d", iso, got, err, end)
			}
		}
		if s := settled(m); s.Live != 1 || s.Discarded != 0 {
			t.Errorf("%v: stats %+v", iso, s)
		}
	}
	if Reset.String() != "reset" || Pooled.String() != "pooled" || Fresh.String() != "fresh" ||
		Isolation(7).String() != "isolation(7)" {
		t.Error("names of the isolations")
	}
}

func TestInputIsClearedBetweenCalls(t *testing.T) {
	// Status 64 + the fourth byte of the buffer for a window of one byte; 0 for longer ones.
	g := guest{scan: cat(get(1), i32(1), ne, ifThen, i32(0), ret, end, i32(bufferAt+3), load8, i32(64), add)}
	m := load(t, g, func(s *Spec) { s.Isolation = Pooled })
	if _, err := scan(m, "secret"); err != nil {
		t.Fatal(err)
	}
	_, err := scan(m, "x")
	var se *StatusError
	if !errors.As(err, &se) || se.Status != 64 {
		t.Errorf("the guest still sees %v", err)
	}
}

func TestGrownInstancesAreDiscarded(t *testing.T) {
	// It grows by as many pages as the window is long.
	g := guest{scan: cat(get(1), memGrow, drop, i32(0))}
	m := load(t, g, func(s *Spec) { s.Slack, s.Isolation = 4*pageSize, Pooled })
	for _, c := range []struct{ pages, grown int }{{4, 0}, {1, 1}, {1, 1}, {100, 2}} {
		if _, err := scan(m, strings.Repeat("x", c.pages)); err != nil {
			t.Fatal(err)
		}
		if s := settled(m); s.Live != 1 || s.Grown != uint64(c.grown) || s.Discarded != uint64(c.grown) {
			t.Errorf("after %d more pages: %+v", c.pages, s)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	// Status 64 if memory cannot grow by as many pages as the window is long.
	g := guest{scan: cat(get(1), memGrow, i32(-1), eq, ifThen, i32(64), ret, end, i32(0))}
	m := load(t, g, func(s *Spec) { s.Memory = 10 << 16 })
	if _, err := scan(m, "123456"); err != nil {
		t.Error(err)
	}
	_, err := scan(m, "1234567")
	wantErr(t, err, ErrStatus)
}

// tableMax is the most entries that each of two tables may grow to.
const tableMax = 100_000

func TestTablesAreBounded(t *testing.T) {
	// Status 64 if table i can grow by n entries.
	growing := func(i, n int) guest {
		return guest{scan: cat([]byte{0xd0, valFuncref}, i32(n), []byte{0xfc, 15}, leb(uint64(i)), i32(-1), ne, ifThen,
			i32(64), ret, end, i32(0)), edit: func(m *mod) { m.tables = [][]byte{{valFuncref, 0, 10}, {valFuncref, 1, 10, 20}} }}
	}
	for _, c := range []struct {
		table, n int
		want     uint32
	}{{0, tableMax - 10, 64}, {0, tableMax - 9, 0}, {0, 1 << 30, 0}, {1, 10, 64}, {1, 11, 0}} {
		if got := statusOf(t, growing(c.table, c.n)); got != c.want {
			t.Errorf("table %d, %d more: status %d, want %d", c.table, c.n, got, c.want)
		}
	}
}

func TestBadBuffers(t *testing.T) {
	g := finder()
	for name, body := range map[string][]byte{
		"refused":     i32(0),
		"unaligned":   i32(bufferAt + 4),
		"outside":     i32(4<<16 - 8),
		"far outside": i32(-8),
		"trap":        unreachable,
	} {
		// Init gets a good buffer, later calls of up to 20 bytes the bad one.
		g.buffer = cat(get(0), i32(20), geU, ifThen, i32(bufferAt), ret, end, body)
		m := load(t, g, nil)
		_, err := scan(m, "0123456789")
		if !errors.Is(err, ErrBuffer) && !(name == "trap" && errors.Is(err, ErrTrap)) {
			t.Errorf("%s: %v", name, err)
		}
		if s := settled(m); s.Discarded != 1 || s.Live != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestLoadIsAllOrNothing(t *testing.T) {
	h := newHost(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		g    guest
		want error
	}{
		"initialize traps": {context.Background(), guest{initialize: unreachable}, ErrTrap},
		"initialize exits": {context.Background(), guest{initialize: host("proc_exit", i32(0))}, ErrExit},
		"initialize loops": {context.Background(), guest{initialize: forever()}, ErrFuel},
		"init refuses":     {context.Background(), guest{init: cat(host("put", i32(0), i32(textAt), i32(11)), drop, i32(1))}, ErrStatus},
		"init emits":       {context.Background(), guest{init: soundEmission.code()}, ErrMisplaced},
		"init decides":     {context.Background(), guest{init: decision(1, kindAt, kindLen, 0, 0, 0)}, ErrMisplaced},
		"no buffer":        {context.Background(), guest{buffer: i32(0)}, ErrBuffer},
		"cancelled":        {ctx, guest{}, context.Canceled},
	} {
		c.g.scan = i32(0)
		_, err := h.Load(c.ctx, Spec{Name: "mod", Code: c.g.wasm(), startFuel: 1_000_000})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if name == "init refuses" && !strings.Contains(err.Error(), "status 1 (bad config): replacement") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(h.modules) != 0 {
		t.Errorf("%d modules are left", len(h.modules))
	}
}

func TestInitSeesTheDocument(t *testing.T) {
	g := guest{scan: i32(0), init: cat(host("put", i32(0), i32(bufferAt), get(0)), drop, i32(1))}
	for config, want := range map[string]string{
		"":                           `{"abi":1,"name":"mod","config":{}}`,
		`{ "n": 1.50, "s": "<b>" } `: `{"abi":1,"name":"mod","config":{"n":1.50,"s":"\u003cb\u003e"}}`,
	} {
		_, err := newHost(t, Options{}).Load(context.Background(), Spec{Name: "mod", Code: g.wasm(), Config: []byte(config)})
		var se *StatusError
		if !errors.As(err, &se) || se.Text != want || se.Status != abi.StatusBadConfig {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestClose(t *testing.T) {
	h := newHost(t, Options{})
	m := loadOn(t, h, finder(), func(s *Spec) { s.Timeout = time.Minute })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := m.ScanHits(ctx, "@", nil, false)
		done <- err
	}()
	waitFor(func() bool { return m.places.InUse() == 1 })

	short, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	wantErr(t, h.Close(short), context.DeadlineExceeded)
	_, err := scan(m, "!")
	wantErr(t, err, ErrClosed)
	_, err = h.Load(context.Background(), Spec{Name: "mod", Code: finder().wasm()})
	wantErr(t, err, ErrClosed)

	cancel()
	wantErr(t, <-done, ErrInterrupted)
	for range 2 {
		if err := h.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if s := m.Stats(); s.Live != 0 {
		t.Errorf("stats %+v", s)
	}
}
