package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// recorded opens a store and commits one record, of which log/head knows.
func recorded(t *testing.T, set Settings) *Store {
	t.Helper()
	s, err := Open(set)
	if err == nil {
		err = s.Commit(t.Context(), &Note{Type: "one", By: system})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.InHead()
	return s
}

// closes says why a store was not opened, or not closed.
func closes(s *Store, err error) error {
	if err != nil {
		return err
	}
	return s.Close()
}

// TestAMarkThatIsFoundAgain: a start that was refused has touched nothing, so that the mark, put back, counts.
func TestAMarkThatIsFoundAgain(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	ended := l.landedAndEnded(base, &CreateKey{By: system, Key: &Key{ID: "new", Name: "new",
		Scopes: []string{"authorize"}}})
	mark := read(t, ended, "data/log/mark")
	if err := ended.Remove("data/log/mark"); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(settings(ended, l.clock, nil)); err == nil {
		t.Fatal("it starts without a mark", s.Close())
	}
	write(t, ended, "data/log/mark", mark)
	s, err := Open(settings(ended, l.clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.Key("new") != nil {
		t.Error("a key that nobody was given is there")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRenewalThatIsBrokenOff: as long as nobody has said that the log is whole, the next start is refused as this one
// was, however the store was left.
func TestRenewalThatIsBrokenOff(t *testing.T) {
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	r.must(&Note{Type: "one", By: system})
	r.s.InHead()
	left := &cuttable{MemFS: base.ended()}
	r.close()
	if err := left.Remove("data/log/mark"); err != nil {
		t.Fatal(err)
	}
	set := settings(left, r.clock, nil)
	set.Renew = true
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	ended := left.ended()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, fs := range map[string]vfs.FS{"ended": ended, "closed": left} {
		if s, err := Open(settings(fs, r.clock, nil)); err == nil {
			t.Errorf("%s: it starts: %v", what, s.Close())
		}
	}
	if s, err = Open(set); err == nil {
		err = s.RenewHead()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended = left.ended()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, fs := range map[string]vfs.FS{"renewed and ended": ended, "renewed": left} {
		if err := closes(Open(settings(fs, r.clock, nil))); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNoMarkIsNeeded: after a stop, and where nobody knows which life of the machine it is.
func TestNoMarkIsNeeded(t *testing.T) {
	for _, boot := range []string{"", thisBoot} {
		base, clock := newCuttable(), newClock()
		set := settings(base, clock, nil)
		set.Boot = boot
		s := recorded(t, set)
		ended := base.ended()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		lefts := map[string]*vfs.MemFS{"stopped": base.MemFS}
		if boot == "" {
			lefts["ended"] = ended
		}
		for what, fs := range lefts {
			if err := fs.Remove("data/log/mark"); err != nil {
				t.Fatal(err)
			}
			set.FS = fs
			if err := closes(Open(set)); err != nil {
				t.Errorf("boot %q, %s: %v", boot, what, err)
			}
		}
	}
}

// TestAStartWithoutABootIsBrokenOff: a process that does not know which life of the machine it is was ended within its
// start, between the mark and log/head. That refuses no later start.
func TestAStartWithoutABootIsBrokenOff(t *testing.T) {
	base, clock := newCuttable(), newClock()
	s := recorded(t, settings(base, clock, nil))
	left := &cuttable{MemFS: base.ended()}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var ended *vfs.MemFS
	l := &looker{look: func(op errorfs.Op) {
		if op.Path == "data/log/head" && ended == nil {
			ended = left.ended()
		}
	}}
	set := settings(l.on(left), clock, nil)
	set.Boot = ""
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	l.over()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := closes(Open(settings(ended, clock, nil))); err != nil {
		t.Error(err)
	}
}
