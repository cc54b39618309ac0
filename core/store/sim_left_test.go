package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/yett-dev/yett/core/log"
)

// What a process leaves on the disk, read in front of the next one's start.

// checkAnchor fails where log/head does not know of a kill or revocation that was answered.
func (s *sim) checkAnchor(secret []byte) {
	file := headFile{fs: s.base, path: filepath.Join(dirOf("data"), headName), secret: secret}
	switch h, found, err := file.read(); {
	case err != nil:
		s.fail("what is left: %w", err)
	case s.anchored > h.Size:
		s.fail("record %d takes something away and was answered, and log/head (found: %v) knows of %d records", s.anchored,
			found, h.Size)
	}
}

// landed are the things that were taken away by records in write-ahead logs that nobody has read yet.
func (s *sim) landed() (things []string) {
	dir := filepath.Join("data", "db", "wal")
	logs, err := wal.Scan(wal.Dir{FS: s.base, Dirname: dir})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, one := range logs {
		err = errors.Join(err, eachFrame(one, func(frame []byte) error {
			c, err := log.ParseFrame(frame, s.salt)
			if err != nil {
				return err
			}
			seq := c.First - 1
			return log.EachRecord(c.Records, func(rec []byte) error {
				var r simRow
				if seq++; seq <= uint64(len(s.records)) {
					return nil
				}
				if err := json.Unmarshal(rec, &r); err != nil {
					return err
				}
				switch what := r.takes(); {
				case what != "":
					things = append(things, what)
				case r.Type == "unkill": // it may stand
					things = slices.DeleteFunc(things, func(what string) bool { return what == "kill "+r.Agent })
				}
				return nil
			})
		}))
	}
	if err != nil {
		s.fail("what is left: %w", err)
	}
	return things
}

// takenStays checks that what was taken away by something that landed is so after the start, whether it was answered or
// not: a start that cuts it off does it again.
func (s *sim) takenStays(things []string) {
	st := s.life.s
	for _, what := range things {
		kind, name, _ := strings.Cut(what, " ")
		is := true
		switch kind {
		case "kill":
			is = st.Kept(Kill{Scope: KillAgent, Target: name})
		case "key":
			k := st.Key(name)
			is = k == nil || k.Revocation() != nil
		case "grant":
			g, err := (&tx{s: st, q: st.seq, st: st.seq.state}).grant(name)
			if err != nil {
				s.fail("%w", err)
			}
			is = g == nil || g.Revocation() != nil
		}
		if !is {
			s.fail("%s landed on the disk, and does not hold after the start", what)
		}
	}
}
