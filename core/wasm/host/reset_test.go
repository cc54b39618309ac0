package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/abi"
)

// Globals of the hoarding guests: an i32 and an i64 that may change.
func withGlobals(m *mod) {
	m.globals = append(m.globals, cat([]byte{valI32, 1}, i32(0), end), cat([]byte{valI64, 1}, i64(0), end))
}

func globalGet(i int) []byte { return cat([]byte{0x23}, leb(uint64(i))) }
func globalSet(i int) []byte { return cat([]byte{0x24}, leb(uint64(i))) }

// hoard is a guest that keeps the first byte of its window somewhere and tells in its status, minus 1000, what it found
// there before.
type hoard struct {
	name  string
	read  []byte // pushes what is kept there, an i32
	keep  func(value []byte) []byte
	edit  func(*mod)
	fresh bool // it cannot be reset
}

var firstByte = cat(i32(bufferAt), load8)

var hoards = []hoard{
	{name: "low memory", read: loadAt(scratchAt), keep: func(v []byte) []byte { return cat(i32(scratchAt), v, store32) }},
	{name: "the last bytes of memory", read: loadAt(4<<16 - 4), keep: func(v []byte) []byte { return cat(i32(4<<16-4), v, store32) }},
	{name: "a data segment", read: loadAt(textAt + 4), keep: func(v []byte) []byte { return cat(i32(textAt+4), v, store32) }},
	{name: "behind its buffer", read: loadAt(bufferAt + 4096), keep: func(v []byte) []byte { return cat(i32(bufferAt+4096), v, store32) }},
	{name: "its buffer", read: loadAt(bufferAt + 8), keep: func(v []byte) []byte { return cat(i32(bufferAt+8), v, store32) }},
	{name: "an i32 global", read: globalGet(0), keep: func(v []byte) []byte { return cat(v, globalSet(0)) }, edit: withGlobals},
	{name: "an i64 global", read: cat(globalGet(1), []byte{0xa7}), keep: func(v []byte) []byte { return cat(v, []byte{0xad}, globalSet(1)) },
		edit: withGlobals},
	{name: "an f64 global", read: cat(globalGet(0), []byte{0xab}),
		keep: func(v []byte) []byte { return cat(v, []byte{0xb8}, globalSet(0)) },
		edit: func(m *mod) {
			m.globals = append(m.globals, cat([]byte{valF64, 1}, []byte{0x44, 0, 0, 0, 0, 0, 0, 0, 0}, end))
		}},
	{name: "grown memory", // the value lies in the page that it adds, if one is there
		read: cat([]byte{0x3f, 0}, i32(5), []byte{0x49}, []byte{0x04, valI32}, i32(0), []byte{0x05}, loadAt(4<<16), end),
		keep: func(v []byte) []byte { return cat(i32(1), memGrow, drop, i32(4<<16), v, store32) }},
	{name: "the size of its memory", read: cat([]byte{0x3f, 0}, i32(4), sub), keep: func(v []byte) []byte { return cat(v, memGrow, drop) }},
	{name: "the size of a table", fresh: true, read: cat([]byte{0xfc, 16, 0}),
		keep: func(v []byte) []byte { return cat([]byte{0xd0, valFuncref}, v, []byte{0xfc, 15, 0}, drop) },
		edit: func(m *mod) { m.tables = [][]byte{{valFuncref, 0, 0}} }},
	{name: "an entry of a table", fresh: true, // null or not, at the index of the value
		read: cat(i32(0), []byte{0x25, 0, 0xd1}, []byte{0x45}),
		keep: func(v []byte) []byte {
			return cat(v, drop, i32(0), []byte{0xd2}, leb(uint64(len(hostFuncs))), []byte{0x26, 0})
		},
		edit: func(m *mod) { m.tables = [][]byte{{valFuncref, 0, 1}} }},
	{name: "the host's clock", read: cat(host("clock_time_get", i32(1), i64(1), i32(scratchAt)), drop, loadAt(scratchAt), i32(clockStep), sub),
		keep: func(v []byte) []byte {
			return cat(v, drop, host("clock_time_get", i32(1), i64(1), i32(scratchAt)), drop)
		}},
	{name: "the host's random numbers", // what it reads first, without the part that is the same each time
		read: cat(host("random_get", i32(scratchAt), i32(4)), drop, loadAt(scratchAt)),
		keep: func(v []byte) []byte { return cat(v, drop, host("random_get", i32(scratchAt), i32(64)), drop) }},
}

func (h hoard) guest() guest {
	return guest{locals: 1, edit: h.edit, scan: cat(h.read, set(3), h.keep(firstByte), get(3), i32(1000), add)}
}

// TestHoardedInput has guests keep their input in every place there is. Under Reset and Fresh each call must find what
// the first one found; under Pooled, which is the control, it finds the call before it.
func TestHoardedInput(t *testing.T) {
	for _, h := range hoards {
		t.Run(h.name, func(t *testing.T) {
			for _, iso := range []Isolation{Reset, Fresh, Pooled} {
				m := load(t, calm(h.guest()), func(s *Spec) { s.Isolation = iso })
				in, why := m.Isolation()
				if want := iso; h.fresh && iso == Reset {
					if in != Fresh || why == "" {
						t.Errorf("%v became %v (%q)", want, in, why)
					}
				} else if in != want || why != "" {
					t.Errorf("%v became %v (%q)", want, in, why)
				}
				var seen []string
				for _, text := range []string{"Secret", "other!", "Third", "Secret"} {
					seen = append(seen, annotation(t, m, text))
				}
				same := seen[1] == seen[0] && seen[2] == seen[0] && seen[3] == seen[0]
				if same != (iso != Pooled) {
					t.Errorf("%v: the calls saw %q", iso, seen)
				}
			}
		})
	}
}

// calm makes the guest put what its scan would return as its state, and end well: an error would cost the instance.
func calm(g guest) guest {
	g.scan = cat(g.scan, set(3), i32(scratchAt+256), get(3), store32,
		host("put", i32(abi.SlotState), i32(scratchAt+256), i32(4)), drop, i32(scratchAt+256), i32(0), store32, i32(0))
	return g
}

func annotation(t *testing.T, m *Module, text string) string {
	t.Helper()
	r, err := m.ScanWindow(context.Background(), Window{Text: text, Flags: abi.FlagFirst | abi.FlagFinal | abi.FlagStream})
	if err != nil {
		t.Fatal(err)
	}
	settled(m)
	return fmt.Sprintf("%x", r.State)
}

// TestResetIsComplete compares whole memories, small and large ones: those are reset in different ways.
func TestResetIsComplete(t *testing.T) {
	for _, pages := range []int{1, 4, 5, 40} {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			// It fills a stretch of memory at 8 addresses with the first byte of its window.
			body := i32(0)
			for i := range 8 {
				at := max(pages<<16/8*i, bufferAt)
				body = cat(body, i32(at), firstByte, i32(5000), []byte{0xfc, 11, 0})
			}
			g := guest{scan: body, edit: func(m *mod) { m.memories = [][]byte{cat([]byte{0}, leb(uint64(pages)))} }}
			m := load(t, g, func(s *Spec) { s.Instances = 1 })
			before := bytes.Clone(memoryOf(t, m.idle[0]))
			for range 3 {
				if _, err := scan(m, "Secret"); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(memoryOf(t, m.idle[0]), before) {
					t.Fatal("memory differs after a reset")
				}
			}
			if _, err := scan(m, strings.Repeat("x", 4<<20)); err == nil {
				t.Fatal("the buffer took 4 MiB")
			}
			if settled(m); !bytes.Equal(memoryOf(t, m.idle[0]), before) {
				t.Error("another instance begins with another memory")
			}
			if s := m.Stats(); s.Discarded != 1 || s.Memory != uint64(pages)<<16 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// TestGrowthBeyondTheSnapshot costs the instance, and the next one begins small again.
func TestGrowthBeyondTheSnapshot(t *testing.T) {
	m := load(t, guest{scan: cat(i32(1), memGrow, drop, i32(0))}, nil)
	for i := range 3 {
		if _, err := scan(m, "x"); err != nil {
			t.Fatal(err)
		}
		if s := settled(m); s.Grown != uint64(i+1) || s.Discarded != uint64(i+1) || s.Live != 1 {
			t.Errorf("stats %+v", s)
		}
		if n := m.idle[0].mem.Size(); n != 4<<16 {
			t.Errorf("the next instance has %d bytes", n)
		}
	}
}

// TestStartRunsOnce counts _initialize by what it prints: instances after the first come from the snapshot.
func TestStartRunsOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*mod)
		want int
	}{
		{"with a snapshot", nil, 1},
		{"with a table that changes", func(m *mod) {
			m.tables = [][]byte{{valFuncref, 0, 1}}
			m.funcs = append(m.funcs, fn{sig("", ""), 0, cat(i32(0), []byte{0xd0, valFuncref}, []byte{0x26, 0})})
		}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s sink
			h := newHost(t, Options{Log: s.log})
			m := loadOn(t, h, guest{scan: unreachable, initialize: host("log", i32(1), i32(textAt), i32(11)), edit: c.edit}, nil)
			for range 3 {
				_, err := scan(m, "x")
				wantErr(t, err, ErrTrap)
				settled(m)
			}
			if len(s.lines) != c.want {
				t.Errorf("it ran %d times, want %d", len(s.lines), c.want)
			}
		})
	}
}

// TestTheNextCallDoesNotPay has every call trap: each finds an instance that was started for it.
func TestTheNextCallDoesNotPay(t *testing.T) {
	m := load(t, finder(), func(s *Spec) { s.Instances = 1 })
	for range 20 {
		if _, err := scan(m, "~"); !errors.Is(err, ErrTrap) {
			t.Fatal(err)
		}
		settled(m)
		if len(m.idle) != 1 {
			t.Fatal("no instance is warm")
		}
		if got, err := scan(m, "!"); err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
	}
}

// TestCloseWaitsForTheStartInTheBackground closes a module while its next instance is being started.
func TestCloseWaitsForTheStartInTheBackground(t *testing.T) {
	for range 20 {
		m := load(t, guest{scan: unreachable}, func(s *Spec) { s.Start = time.Minute })
		_, err := scan(m, "x")
		wantErr(t, err, ErrTrap)
		if err := m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := m.Stats(); s.Live != 0 {
			t.Fatalf("stats %+v", s)
		}
	}
}
