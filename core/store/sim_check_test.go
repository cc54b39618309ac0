package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// simRow is what the simulator reads of a record.
type simRow struct {
	row
	Time   time.Time `json:"timestamp"`
	Tool   string    `json:"tool_id"`
	What   string    `json:"what"`
	Reason string    `json:"reason"`
	First  uint64    `json:"first_seq"`
	Last   uint64    `json:"last_seq"`
	Passed []string  `json:"passed"`
	Target string    `json:"target"`
	Grant  string    `json:"grant_id"`
	Agent  string    `json:"agent_id"`
}

// takes names what a record of something that was taken away is about; "" for other records.
func (r *simRow) takes() string {
	switch r.Type {
	case "kill":
		return "kill " + r.Agent
	case "key_revoked":
		return "key " + r.KeyID
	case "grant_revoked":
		return "grant " + r.Grant
	}
	return ""
}

// see reads what readers are shown now. It must never change again, whatever happens.
func (s *sim) see() {
	st := s.life.s
	if st == nil || s.err != nil || !s.life.grown(len(s.records)) {
		return
	}
	from := uint64(len(s.records) + 1)
	if first := st.First(); first > from {
		s.fail("record %d has gone before anybody could read it: the log begins with %d", from, first)
		return
	}
	err := st.Records(from, func(seq uint64, rec []byte) error {
		if seq != uint64(len(s.records)+1) {
			return fmt.Errorf("record %d where %d should be", seq, len(s.records)+1)
		}
		return s.learn(seq, bytes.Clone(rec))
	})
	for _, r := range s.refused {
		if err == nil && r.shown != nil {
			err = r.shown()
		}
	}
	if err != nil {
		s.fail("the log: %w", err)
	}
}

func (l *simLife) grown(known int) bool { return l.s.seq.size.Load() > uint64(known) }

func (s *sim) storedHashes(index []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(index))
	for i, x := range index {
		out[i] = s.hashes[x]
	}
	return out, nil
}

// learn takes in a record.
func (s *sim) learn(seq uint64, rec []byte) error {
	more, err := tlog.StoredHashes(int64(seq-1), rec, tlog.HashReaderFunc(s.storedHashes))
	if err != nil {
		return err
	}
	s.records, s.hashes = append(s.records, rec), append(s.hashes, more...)
	var r simRow
	if err := json.Unmarshal(rec, &r); err != nil {
		return err
	}
	s.note("record %d: %s", seq, rec)
	switch {
	case r.Seq != seq:
		return fmt.Errorf("record %d says that it is %d", seq, r.Seq)
	case r.Time.Before(s.last):
		return fmt.Errorf("record %d is of %v, the one before it of %v", seq, r.Time, s.last)
	}
	s.last = r.Time
	s.rows = append(s.rows, r.row)
	if err := s.rules.Record(seq, rec); err != nil {
		return err
	}
	return s.known(&r)
}

// known is what a record says about limits, permits and retention.
func (s *sim) known(r *simRow) error {
	switch {
	case r.Type == "decision":
		s.effects[r.DecisionID] = r.Effect
		if r.Tool == limitedTool && r.Effect == "PERMIT" {
			w := r.Time.Unix() / int64(limitWindow/time.Second)
			s.windows[w]++
			s.windowOf[r.DecisionID] = w
			if s.windows[w] > limitMost {
				return fmt.Errorf("record %d is permit %d of window %d, and %d are the limit", r.Seq, s.windows[w], w, limitMost)
			}
		}
	case r.Type == "grant_consumed":
		s.used[r.Grant]++
	case r.takes() != "":
		s.takenBy[r.takes()] = r.Seq
	case r.Type == "voided" && r.What == "permit":
		s.voided[r.DecisionID] = true
		if r.Grant != "" {
			s.used[r.Grant]--
		}
		if w, limited := s.windowOf[r.DecisionID]; limited {
			s.windows[w]--
		}
	case r.Type == "scan":
		s.effects[r.ScanID] = "scan"
	case r.Type == "unanswered":
		for _, seq := range r.Seqs {
			s.unbinding[seq] = true
		}
	case r.Type == "retention_trimmed":
		return s.trimmed(r)
	}
	return nil
}

// trimmed looks whether the records might go.
func (s *sim) trimmed(r *simRow) error {
	// a clock that is seen ahead for an hour of uptime, sleep included, may take a twentieth of the log
	if r.Reason == "max_age" && r.Last+1-r.First > (r.Seq+19)/20 {
		return fmt.Errorf("records %d to %d are gone for their age, and none is %v old", r.First, r.Last, s.clock.real())
	}
	for _, d := range s.dests {
		switch {
		case d.taken >= r.Last:
		case s.hold > 0:
			return fmt.Errorf("records up to %d are gone, and %s has them up to %d", r.Last, d.name, d.taken)
		case !slices.Contains(r.Passed, d.name):
			return fmt.Errorf("records up to %d are gone, %s has them up to %d, and nobody says so", r.Last, d.name, d.taken)
		}
	}
	return nil
}

// same holds the log of the present life against what was seen of it.
func (s *sim) same() error {
	st := s.life.s
	if n := st.Seq(); n < uint64(len(s.records)) {
		return fmt.Errorf("%d records were seen, and the log has %d", len(s.records), n)
	}
	err := st.Records(1, func(seq uint64, rec []byte) error {
		if seq <= uint64(len(s.records)) && !bytes.Equal(rec, s.records[seq-1]) {
			return fmt.Errorf("record %d is another one now: %s, it was %s", seq, rec, s.records[seq-1])
		}
		return nil
	})
	if err != nil || len(s.records) == 0 {
		return err
	}
	is, err := st.Root(uint64(len(s.records)))
	if err != nil {
		return err
	}
	if was, err := tlog.TreeHash(int64(len(s.records)), tlog.HashReaderFunc(s.storedHashes)); err != nil || was != is {
		return fmt.Errorf("the first %d records have another root: %w", len(s.records), err)
	}
	return nil
}

// born checks a store that was just opened.
func (s *sim) born() {
	st := s.life.s
	if err := s.same(); err != nil {
		s.fail("after the start: %w", err)
		return
	}
	s.see()
	if now := st.Now(); now.Before(s.last) {
		s.fail("after the start it is %v, the newest record is of %v", now, s.last)
	}
	s.reborn()
	s.check()
}

// check holds everything against everything. Nobody is in the middle of something.
func (s *sim) check() {
	if s.err != nil {
		return
	}
	st, must := s.life.s, uint64(0)
	if sealed, young := st.records.now(); s.disk != nil {
		// a full disk lets records go without their rows
	} else if len(sealed) > 0 {
		must = sealed[0].FirstSeq
	} else if len(young) > 0 {
		must = young[0].First
	}
	if err := agree(st, s.rows, st.First(), must); err != nil {
		s.fail("state and log: %w", err)
		return
	}
	if err := s.rules.End(); err != nil {
		s.fail("the log: %w", err)
		return
	}
	if now := s.life.s.Now(); now.Before(s.now) {
		s.fail("the store's clock went back from %v to %v", s.now, now)
	} else {
		s.now = now
	}
	for _, d := range s.dests {
		if at, ok := s.life.s.Cursor(d.name); ok && at.Seq > d.taken {
			s.fail("the cursor of %s is at %d, and it has the records up to %d", d.name, at.Seq, d.taken)
		}
	}
	if err := s.answersHold(); err != nil {
		s.fail("%w", err)
	}
}

// export checks what an auditor is given.
func (s *sim) export() error {
	r := &rig{t: s.t, s: s.life.s}
	signer := r.signer()
	var out bytes.Buffer
	if err := s.life.s.Export(&out, signer, log.Range{From: s.life.s.First()}); err != nil {
		return err
	}
	keys, err := log.ParseKeys(signer.PublicKey())
	if err != nil {
		return err
	}
	_, err = log.Verify(&out, log.VerifyOptions{Keys: keys, Invariants: true})
	return err
}
