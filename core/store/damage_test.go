package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
)

// stoppedStore is a store that was stopped cleanly, twice: as it was yesterday, and as it is today.
type stoppedStore struct {
	t         *testing.T
	clock     *clock
	today     *vfs.MemFS
	yesterday *vfs.MemFS
	records   []string
	rows      rowSum
}

func newStopped(t *testing.T) *stoppedStore {
	base := vfs.NewCrashableMem()
	r := &rig{t: t, fs: base, clock: newClock(), seal: 2 << 10}
	r.open()
	agent := r.key("agent", nil, "authorize")
	r.key("boss", nil, "approve", "grants", "kill")
	r.key("gone", nil, "authorize")
	for range 40 {
		r.must(r.call(agent, r.id("x"), sdk.Verdict{Effect: sdk.Permit}))
	}
	r.must(r.call(agent, "wait", sdk.Verdict{Effect: sdk.Defer}))
	r.close()
	s := &stoppedStore{t: t, clock: r.clock, yesterday: clone(base)}
	r.open()
	boss := r.s.Key("boss")
	r.must(&RevokeKey{ID: "gone", By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "mallory", Reason: "why"}, By: by(boss)})
	for range 40 {
		r.must(r.call(r.s.Key("agent"), r.id("y"), sdk.Verdict{Effect: sdk.Permit}))
	}
	err := r.s.Records(1, func(_ uint64, rec []byte) error { s.records = append(s.records, string(rec)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	s.rows = r.s.seq.sum
	s.today = clone(base)
	return s
}

func clone(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// starts opens what somebody has made of the store, in the same life of the machine or another one: the error says that
// it was refused. What starts must be the whole store of today.
func (s *stoppedStore) starts(fs vfs.FS, boot string) (refused error, err error) {
	set := settings(fs, s.clock, nil)
	set.SealBytes, set.Boot = 2<<10, boot
	st, refused := Open(set)
	if refused != nil {
		return refused, nil
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err = st.Commit(context.Background(), &Note{Type: "on", By: system}); err != nil {
		return nil, err
	}
	if st.seq.sum != s.rows {
		return nil, errors.New("it starts with other keys, grants, kills or calls")
	}
	var got []string
	err = st.Records(1, func(_ uint64, rec []byte) error { got = append(got, string(rec)); return nil })
	if err != nil {
		return err, nil // found when it is read
	}
	if len(got) != len(s.records)+1 || !slices.Equal(got[:len(s.records)], s.records) {
		return nil, fmt.Errorf("it starts with %d records, want %d", len(got)-1, len(s.records))
	}
	return nil, nil
}

// filesOf are the files of a store.
func filesOf(t *testing.T, fs vfs.FS, dir string) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		p := path.Join(dir, name)
		st, err := fs.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if st.IsDir() {
			out = append(out, filesOf(t, fs, p)...)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// TestStoppedStoreDamaged: each file removed, cut, or with a bit changed in each of its parts: the store is refused, or
// it is whole all the same. It never starts as another one.
func TestStoppedStoreDamaged(t *testing.T) {
	s := newStopped(t)
	for _, boot := range []string{thisBoot, anotherBoot} {
		if refused, err := s.starts(clone(s.today), boot); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
	}
	refusals, whole := 0, 0
	try := func(what string, damage func(fs vfs.FS) error) {
		t.Helper()
		for _, boot := range []string{thisBoot, anotherBoot} {
			fs := clone(s.today)
			if err := damage(fs); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			refused, err := s.starts(fs, boot)
			switch {
			case err != nil:
				t.Errorf("%s, %s: %v", what, boot, err)
			case refused != nil:
				refusals++
			default:
				whole++
			}
			if testing.Verbose() {
				t.Log(what, boot, "->", refused)
			}
		}
	}
	for _, file := range filesOf(t, s.today, "data") {
		data := read(t, s.today, file)
		try(file+" removed", func(fs vfs.FS) error { return fs.Remove(file) })
		for _, to := range []int{0, len(data) / 2, len(data) - 1} {
			if to < len(data) && to >= 0 {
				try(fmt.Sprint(file, " cut to ", to), func(fs vfs.FS) error { write(t, fs, file, data[:to]); return nil })
			}
		}
		for at := 0; at < len(data); at += max(1, len(data)/testkit.Rounds(24, 5)) {
			try(fmt.Sprint(file, " bit in ", at), func(fs vfs.FS) error {
				changed := slices.Clone(data)
				changed[at] ^= 0x10
				write(t, fs, file, changed)
				return nil
			})
		}
	}
	if refusals < 50 || whole < 10 {
		t.Errorf("%d refused, %d whole", refusals, whole)
	}
}

// TestAnOlderMarkCutsNothing: a mark of an earlier time says that answers have not left which have. What is written
// behind them shows it, and so does log/head.
func TestAnOlderMarkCutsNothing(t *testing.T) {
	base := vfs.NewCrashableMem()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	r.must(&Note{Type: "one", By: system})
	r.close()
	yesterday := clone(base)
	r.open()
	for range 3 {
		r.must(&Note{Type: "more", By: system})
	}
	records := r.s.Seq()
	r.close()
	for _, older := range [][]string{{"mark"}, {"mark", "head"}} {
		fs, said := clone(base), ""
		for _, name := range older {
			write(t, fs, "data/log/"+name, read(t, yesterday, "data/log/"+name))
		}
		set := settings(fs, r.clock, nil)
		set.Log = func(format string, args ...any) { said += fmt.Sprintf(format, args...) }
		s, err := Open(set)
		if err != nil {
			t.Fatal(err)
		}
		if s.Seq() != records || !strings.Contains(said, "data/log/mark is that of an earlier time") {
			t.Errorf("%v of yesterday: %d of %d records, said %q", older, s.Seq(), records, said)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOnlyTheHeadShowsAnOlderMark: the last answer has left, and what says so is not on disk; nothing is written behind
// it.
func TestOnlyTheHeadShowsAnOlderMark(t *testing.T) {
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	r.must(&Note{Type: "one", By: system})
	mark := read(t, base, "data/log/mark")
	r.must(&Note{Type: "two", By: system})
	records := r.s.InHead()
	fs := base.ended()
	r.close()
	write(t, fs, "data/log/mark", mark)
	s, err := Open(settings(fs, r.clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Seq(); got != records {
		t.Errorf("%d records of %d", got, records)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAMarkThatIsGone: the process ended, and the machine did not, so there is a mark. Without it, answers could be cut
// off that log/head does not know of yet.
func TestAMarkThatIsGone(t *testing.T) {
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	old := read(t, base, "data/log/mark")
	r.close()
	set := settings(base, r.clock, nil)
	set.Boot = "the machine was started again"
	s := recorded(t, set)
	for what, c := range map[string]struct {
		boot  string
		data  []byte // nil: it is gone
		renew bool
		want  string
	}{
		"gone":                           {boot: set.Boot, want: "data/log/mark is missing"},
		"not whole":                      {boot: set.Boot, data: old[:100], want: "data/log/mark is missing"},
		"of another life of the machine": {boot: set.Boot, data: old, want: "data/log/mark is missing"},
		"gone, and the log was checked":  {boot: set.Boot, renew: true},
		"gone with the machine":          {boot: thisBoot},
	} {
		fs := base.ended()
		if err := fs.Remove("data/log/mark"); err != nil {
			t.Fatal(err)
		}
		if c.data != nil {
			write(t, fs, "data/log/mark", c.data)
		}
		set := settings(fs, r.clock, nil)
		set.Boot, set.Renew = c.boot, c.renew
		err := closes(Open(set))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestStoppedStoreOfYesterday: a part of the directory is put back to an earlier time.
func TestStoppedStoreOfYesterday(t *testing.T) {
	s := newStopped(t)
	put := func(to vfs.FS, dir string) {
		for _, file := range filesOf(t, to, "data") {
			if strings.HasPrefix(file, dir) {
				if err := to.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, file := range filesOf(t, s.yesterday, "data") {
			if strings.HasPrefix(file, dir) {
				if err := to.MkdirAll(path.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, to, file, read(t, s.yesterday, file))
			}
		}
	}
	for name, c := range map[string]struct {
		parts   []string
		refused bool // else what is left may be enough for the store of today
	}{
		"db":             {[]string{"data/db/"}, true},
		"log":            {[]string{"data/log/"}, false},
		"the log's list": {[]string{"data/log/segments"}, false},
		"head":           {[]string{"data/log/head"}, false},
		"all but head":   {[]string{"data/db/", "data/log/0", "data/log/segments", "data/log/wal", "data/log/mark"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, boot := range []string{thisBoot, anotherBoot} {
				fs := clone(s.today)
				for _, dir := range c.parts {
					put(fs, dir)
				}
				refused, err := s.starts(fs, boot)
				if err != nil {
					t.Error(err)
				}
				if c.refused && refused == nil {
					t.Error("it starts")
				}
			}
		})
	}
}
