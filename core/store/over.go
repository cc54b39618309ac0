package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/yett-dev/yett/core/log/segment"
	"github.com/yett-dev/yett/sdk"
)

// Rows of what is over leave with the records that tell of it: deferred calls, actions and standing grants. Once
// retention has left all records of a segment, its records are read for the last time, the rows of what has ended in
// them are removed, and then the file goes. Keys stay for good: their names and ids are never given again.

const (
	overAtOnce = 128 // calls or actions whose rows one batch removes
	overRest   = 2 * time.Millisecond
	overRetry  = time.Second // between two tries, while the disk takes nothing
	grantsEach = time.Hour   // how often the rows of all grants are looked at: few grants end, and no record says when
)

// tidier removes rows of what is over, beside the sequencer.
type tidier struct {
	s     *Store
	wake  chan struct{}
	quit  chan struct{}
	done  chan struct{}
	after time.Time // when the grants are looked at again
}

func newTidier(s *Store) *tidier {
	return &tidier{s: s, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// start begins to look for what retention has left. A store that is only looked at, and one that is being restored,
// keep everything.
func (t *tidier) start() {
	if t.s.set.Renew || t.s.set.restoring {
		close(t.done)
		return
	}
	t.nudge()
	go t.run()
}

func (t *tidier) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tidier) close() {
	close(t.quit)
	<-t.done
}

func (t *tidier) run() {
	defer close(t.done)
	for {
		select {
		case <-t.wake:
		case <-t.s.seq.dead:
			return
		case <-t.quit:
			return
		}
		if !t.pass() {
			return
		}
	}
}

// pass removes what is over by now. It reports whether to go on.
func (t *tidier) pass() bool {
	l, some := &t.s.records, false
	for r := l.untidy(); r != nil; r = l.untidy() {
		some = true
		if !t.segment(r) {
			return false
		}
		l.tidied(r.NextSeq)
	}
	if now := t.s.Now(); some && !now.Before(t.after) {
		t.after = now.Add(grantsEach)
		return t.grants()
	}
	return true
}

// untidy is the oldest segment of which retention has left no record, and whose rows are there still.
func (l *recordLog) untidy() *segment.Reader {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, r := range l.sealed {
		if r.NextSeq > l.tidy {
			if r.NextSeq > l.shown {
				return nil
			}
			return r
		}
	}
	return nil
}

// tidied says that the rows of what ended in front of a record have gone.
func (l *recordLog) tidied(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy = seq
	l.nudge()
}

// segment removes the rows of what ended in a segment. It reports whether to go on.
func (t *tidier) segment(r *segment.Reader) bool {
	cmd := &forgetOver{through: r.NextSeq - 1}
	seen := map[string]bool{}
	err := r.Records(r.FirstSeq, func(_ uint64, rec []byte) error {
		if err := errors.Join(t.stops(), cmd.record(rec, seen)); err != nil {
			return err
		}
		if len(cmd.calls)+len(cmd.actions) < overAtOnce {
			return nil
		}
		err := t.commit(cmd)
		cmd = &forgetOver{through: cmd.through}
		return err
	})
	if err == nil {
		err = t.commit(cmd)
	}
	switch {
	case errors.Is(err, errStops):
		return false
	case err != nil: // what it says is not needed to let it go
		t.s.set.Log("store: the rows of what ended in records %d to %d stay: %v", r.FirstSeq, r.NextSeq-1, err)
	}
	return true
}

var (
	errStops  = errors.New("the store stops")
	errNoRows = errors.New("the disk is full, and the records have to go")
)

// commit waits while the disk takes nothing, unless it is full: then the records go, which makes room. It rests behind
// each batch, so that decisions do not queue behind a row of them.
func (t *tidier) commit(cmd *forgetOver) error {
	for len(cmd.actions) > overAtOnce { // one record may name a thousand
		some := &forgetOver{actions: cmd.actions[:overAtOnce], through: cmd.through}
		if err := t.commit(some); err != nil {
			return err
		}
		cmd.actions = cmd.actions[overAtOnce:]
	}
	if len(cmd.calls)+len(cmd.actions)+len(cmd.grants) == 0 {
		return nil
	}
	if t.rest(overRest) {
		return errStops
	}
	for {
		err := t.s.Commit(context.Background(), cmd)
		refused, ok := errors.AsType[*sdk.Error](err)
		switch {
		case err == nil:
			return nil
		case t.s.seq.broken() != nil:
			return errStops
		case !ok || refused.Code != sdk.CodeAuditUnavailable:
			return err
		case t.s.room.level.Load() == noRoom:
			return errNoRows
		}
		if t.rest(overRetry) {
			return errStops
		}
	}
}

// rest waits, and reports whether the store stops.
func (t *tidier) rest(d time.Duration) (stops bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-t.s.seq.dead:
	case <-t.quit:
	}
	return true
}

// stops is errStops when the store stops.
func (t *tidier) stops() error {
	select {
	case <-t.s.seq.dead:
	case <-t.quit:
	default:
		return nil
	}
	return errStops
}

// grants removes the rows of grants that were over in front of the oldest record: none is left that tells of them.
func (t *tidier) grants() bool {
	oldest, err := t.s.oldestTime()
	if err != nil {
		t.s.set.Log("store: rows of grants that are over stay: %v", err)
		return true
	}
	cmd := &forgetOver{before: oldest}
	err = t.s.scan(prefixGrant, func(_, row []byte) error {
		g, err := t.s.readGrant(row)
		if err = errors.Join(err, t.stops()); err != nil {
			return err
		}
		if g.overBefore(oldest) {
			cmd.grants = append(cmd.grants, g.ID)
		}
		if len(cmd.grants) < overAtOnce {
			return nil
		}
		err = t.commit(cmd)
		cmd = &forgetOver{before: oldest}
		return err
	})
	if err == nil {
		err = t.commit(cmd)
	}
	if err != nil && !errors.Is(err, errStops) {
		t.s.set.Log("store: rows of grants that are over stay: %v", err)
	}
	return !errors.Is(err, errStops)
}

// overBefore reports whether the grant had ended by then.
func (g *Grant) overBefore(at time.Time) bool {
	r := g.revoked.Load()
	return g.Expires.Before(at) || r != nil && r.At.Before(at)
}

// oldestTime is the time of the oldest record that retention has left.
func (s *Store) oldestTime() (at time.Time, err error) {
	var r struct {
		Timestamp time.Time `json:"timestamp"`
	}
	err = s.Records(s.First(), func(_ uint64, rec []byte) error {
		return errors.Join(json.Unmarshal(rec, &r), errEnough)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return r.Timestamp, err
}

var errEnough = errors.New("that is enough")

// forgetOver removes the rows of what is over. What is not over any more, or was told of by a record that is left, it
// leaves as it is.
type forgetOver struct {
	calls   []string // tokens of deferred calls that ended
	actions []string
	through uint64 // the newest record that has gone

	grants []string
	before time.Time // they were over
}

func (*forgetOver) class() class { return noting }

// record takes up what a record tells of.
func (c *forgetOver) record(rec []byte, seen map[string]bool) error {
	var r struct {
		Type      string   `json:"type"`
		Token     string   `json:"defer_token"`
		Status    string   `json:"status"`
		Code      string   `json:"reason_code"`
		Effect    string   `json:"effect"`
		ActionID  string   `json:"action_id"`
		ActionIDs []string `json:"action_ids"`
	}
	if err := json.Unmarshal(rec, &r); err != nil {
		return err
	}
	ended := (r.Type == "defer_resolved" || r.Type == "defer_expired") && (r.Status == Denied || r.Status == Expired) ||
		r.Type == "decision" && r.Effect == sdk.Permit.String() && r.Code == sdk.ReasonApprovalConsumed
	if ended && r.Token != "" && !seen[r.Token] {
		seen[r.Token] = true
		c.calls = append(c.calls, r.Token)
	}
	for _, id := range append(r.ActionIDs, r.ActionID) {
		if id != "" && !seen[id] {
			seen[id] = true
			c.actions = append(c.actions, id)
		}
	}
	return nil
}

func (c *forgetOver) apply(tx *tx) error {
	for _, id := range c.actions { // in front of the calls, which say how they ended: records of that name them
		if err := tx.forgetAction(id, c.through); err != nil {
			return err
		}
	}
	for _, token := range c.calls {
		if err := tx.forgetCall(token, c.through); err != nil {
			return err
		}
	}
	for _, id := range c.grants {
		g, err := tx.grant(id)
		if err != nil {
			return err
		}
		if g != nil && g.overBefore(c.before) {
			tx.s.grants.drop(g)
			tx.del(keyStr(prefixGrant, id))
			tx.del(keyStr(prefixUses, id))
		}
	}
	return nil
}

func (tx *tx) forgetCall(token string, through uint64) error {
	if tx.st.live[token] != nil || tx.closed[token] != nil {
		return nil // it was given back since: even if it ends now, a record is left
	}
	d, err := tx.find(token)
	if err != nil || d == nil || d.open() || d.EndedBy > through { // it was given back, and has ended since
		return err
	}
	for _, id := range d.Actions { // no record of the end may name them
		if err := tx.forgetAction(id, through); err != nil {
			return err
		}
	}
	tx.del(keyStr(prefixDefer, token))
	tx.setFresh(keyStr(prefixView, token), nil)
	if d.Noted {
		tx.del(keyStr(prefixNote, token))
	}
	tx.del(keyStr(prefixAsked, d.DecisionID))
	return nil
}

// forgetAction removes an action that has ended, and of which no record is left.
func (tx *tx) forgetAction(id string, through uint64) error {
	a, _, err := tx.action(id)
	if err != nil || a == nil {
		return err
	}
	newest := uint64(0)
	for _, e := range a.Events {
		newest = max(newest, e.Seq)
	}
	a = a.At(tx.now)
	if newest > through || !slices.Contains([]string{ActionDenied, ActionSucceeded, ActionFailed}, a.Status) {
		return nil
	}
	tx.setFresh(keyAction(id), nil)
	tx.setFresh(keyActionTexts(id), nil)
	tx.del(keyAgentAction(a.AgentID, id))
	return nil
}
