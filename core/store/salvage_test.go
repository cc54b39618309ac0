package store

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// salvaged reads what a salvage has saved, by seq.
func salvaged(t *testing.T, fs vfs.FS, out string, found *Salvaged) map[uint64]string {
	t.Helper()
	have := map[uint64]string{}
	for _, s := range found.Saved {
		seq := s.FirstSeq
		for _, line := range strings.Split(strings.TrimSuffix(string(read(t, fs, out+"/"+s.File)), "\n"), "\n") {
			have[seq] = line
			seq++
		}
		if seq != s.LastSeq+1 {
			t.Errorf("%+v has records up to %d", s, seq-1)
		}
	}
	return have
}

// TestSalvage: whatever one file of the log has lost, every record is saved as it was, or named as lost; and nothing of
// the directory is changed.
func TestSalvage(t *testing.T) {
	base := vfs.NewCrashableMem()
	r := &rig{t: t, fs: base, clock: newClock(), seal: 16 << 10}
	r.open()
	for i := 0; len(r.s.sealedNow()) < 3 || i < 400; i++ { // sealing goes on beside it
		r.key(fmt.Sprint("key", i), nil, "authorize")
	}
	r.reopen()                      // else write-ahead logs may still have all that is sealed
	r.key("last", nil, "authorize") // which is young
	all := map[uint64]string{}
	if err := r.s.Records(1, func(seq uint64, rec []byte) error { all[seq] = string(rec); return nil }); err != nil {
		t.Fatal(err)
	}
	sealed, young := r.s.records.now()
	if len(sealed) < 3 || len(young) == 0 {
		t.Fatalf("%d segments, %d young commits", len(sealed), len(young))
	}
	r.close()
	set := settings(base, r.clock, nil)
	found, err := Salvage(set, "out")
	if err != nil || len(found.Lost)+len(found.Damaged) > 0 || len(found.Saved) != 1 || found.Records != uint64(len(all)) {
		t.Fatalf("of a whole log: %+v, %v", found, err)
	}
	tries, losses := 0, 0
	for _, file := range filesOf(t, base, "data") {
		if !strings.HasSuffix(file, ".seg") && !strings.HasPrefix(file, "data/db/wal/") {
			continue
		}
		data := read(t, base, file)
		for _, at := range []int{-1, 5, 300, len(data) / 3, len(data) / 2, len(data) - 200, len(data) - 3} {
			fs := clone(base)
			if bad := bytes.Clone(data); at < 0 {
				if err := fs.Remove(file); err != nil {
					t.Fatal(err)
				}
			} else if at < len(bad) {
				bad[at] ^= 0x10
				write(t, fs, file, bad)
			}
			what := fmt.Sprintf("%s at %d", file, at)
			before := map[string]string{}
			for _, name := range filesOf(t, fs, "data") {
				before[name] = string(read(t, fs, name))
			}
			set := settings(fs, r.clock, nil)
			found, err := Salvage(set, "again")
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, name := range filesOf(t, fs, "data") {
				if before[name] != string(read(t, fs, name)) {
					t.Errorf("%s: %s was changed", what, name)
				}
			}
			have, lost := salvaged(t, fs, "again", found), uint64(0)
			for _, l := range found.Lost {
				if l.FirstSeq == 0 || l.LastSeq < l.FirstSeq || l.Why == "" {
					t.Errorf("%s: %+v", what, l)
				}
				for seq := l.FirstSeq; seq <= l.LastSeq; seq++ {
					if _, saved := have[seq]; saved {
						t.Errorf("%s: record %d is saved, and said to be lost", what, seq)
					}
					lost++
				}
			}
			for seq, line := range have {
				if line != all[seq] {
					t.Errorf("%s: record %d is another one", what, seq)
				}
			}
			if tries++; uint64(len(have))+lost != uint64(len(all)) || found.Records != uint64(len(have)) {
				t.Errorf("%s: %d of %d records are saved, %d named as lost: %+v", what, len(have), len(all), lost, found)
			}
			if at == len(data)-3 && strings.HasSuffix(file, ".seg") && (lost > 0 || len(found.Damaged) == 0) {
				t.Errorf("%s: all its records can be read from the front, and %d are lost: %+v", what, lost, found.Damaged)
			}
			if lost > 0 {
				losses++
			}
		}
	}
	if tries < 15 || losses < len(sealed)-1 { // logs may still have what is in the last one
		t.Errorf("%d tries, %d with a loss", tries, losses)
	}
}

func TestSalvageRefuses(t *testing.T) {
	r := newRig(t)
	r.key("k", nil, "authorize")
	set := settings(r.fs, r.clock, nil)
	if _, err := Salvage(set, "data"); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a directory that is there: %v", err)
	}
	set.Dir = "nowhere"
	if _, err := Salvage(set, "out"); err == nil {
		t.Error("of a directory that is not there")
	}
}
