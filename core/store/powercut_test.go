package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
)

// journal is what a test knows to have been answered, kept outside the store.
type journal struct {
	mu      sync.Mutex
	ids     []string          // of decisions and scans
	permits []string          // of decisions that said PERMIT
	live    []string          // keys made
	revoked []string          // keys revoked
	defers  map[string]string // token → the last answered status
	ended   map[string]bool   // a state that cannot change any more
	cursors map[string]uint64 // the last answered cursor of each client
	waits   map[string]string // action → token of the defer that it waits for
	refused int               // commits answered with audit_unavailable
	other   []error           // answers that nobody should get
}

func newJournal() *journal {
	return &journal{defers: map[string]string{}, ended: map[string]bool{}, cursors: map[string]uint64{},
		waits: map[string]string{}}
}

// note takes down an answer. An error other than audit_unavailable is kept as a failure of the test.
func (j *journal) note(err error, fn func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch code := codeOf(err); code {
	case "":
		fn()
	case sdk.CodeAuditUnavailable:
		j.refused++
	default:
		j.other = append(j.other, err)
	}
	return err == nil
}

// copy is the journal as it is now.
func (j *journal) copy() *journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &journal{ids: slices.Clone(j.ids), permits: slices.Clone(j.permits), live: slices.Clone(j.live),
		revoked: slices.Clone(j.revoked), defers: maps.Clone(j.defers), ended: maps.Clone(j.ended),
		cursors: maps.Clone(j.cursors), waits: maps.Clone(j.waits)}
}

// rank orders a defer's states: what was answered may have moved on, never back.
var rank = map[string]int{Pending: 1, Approved: 2, Consumed: 3, Denied: 3, Expired: 3}

// verify checks that everything in the journal is in the store.
func (j *journal) verify(s *Store) error {
	if err := consistent(s); err != nil {
		return err
	}
	rows, _, err := logOf(s)
	if err != nil {
		return err
	}
	known, permitted := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		known[r.DecisionID], known[r.ScanID] = true, true
		if r.Effect == "PERMIT" {
			permitted[r.DecisionID] = true
		}
	}
	for _, id := range j.ids {
		if !known[id] {
			return fmt.Errorf("answered and missing: %s", id)
		}
	}
	for _, id := range j.permits {
		if !permitted[id] {
			return fmt.Errorf("a permit without a record: %s", id)
		}
	}
	for _, id := range j.live {
		if s.Key(id) == nil {
			return fmt.Errorf("a key was answered and is missing: %s", id)
		}
	}
	for _, id := range j.revoked {
		if k := s.Key(id); k == nil || k.Revocation() == nil {
			return fmt.Errorf("a revoke was answered and does not hold: %s", id)
		}
	}
	for name, seq := range j.cursors {
		if c, ok := s.Cursor(name); !ok || c.Seq < seq || c.Seq > s.Seq() {
			return fmt.Errorf("the cursor of %s was answered %d and is %v: missing", name, seq, c)
		}
	}
	for token, status := range j.defers {
		d, err := (&tx{s: s, q: s.seq, st: s.seq.state}).find(token)
		switch {
		case err != nil:
			return err
		case d == nil:
			return fmt.Errorf("a defer was answered and is missing: %s", token)
		case d.Status != status && (j.ended[token] || rank[d.Status] <= rank[status]):
			return fmt.Errorf("defer %s was answered %s and is %s", token, status, d.Status)
		}
	}
	for id, token := range j.waits {
		if err := follows(s, id, token); err != nil {
			return err
		}
	}
	return nil
}

// follows checks that an action is what the defer that it waits for has made of it, and that the defer knows it.
func follows(s *Store, id, token string) error {
	tx := &tx{s: s, q: s.seq, st: s.seq.state}
	a, err := tx.whole(id)
	if err != nil || a == nil {
		return fmt.Errorf("an action was answered and is missing: %s: %w", id, err)
	}
	d, err := tx.find(token)
	if err != nil || d == nil || a.Token != token {
		return fmt.Errorf("action %s waits for %s, not %s: %w", id, a.Token, token, err)
	}
	status, events := ActionDenied, 3
	switch d.Status {
	case Pending:
		status, events = ActionPending, 2
	case Approved:
		status = ActionApproved
	case Consumed: // by a call without an action
		if a.Reason != ActionSpent {
			return fmt.Errorf("action %s, its defer consumed: %s", id, a.Reason)
		}
	}
	// denied, or approved and then denied
	if a.Status != status || len(a.Events) != events && (status != ActionDenied || len(a.Events) != events+1) {
		return fmt.Errorf("action %s is %s with %d events, its defer %s", id, a.Status, len(a.Events), d.Status)
	}
	if d.open() && !slices.Contains(d.actions(), id) {
		return fmt.Errorf("action %s is missing among those that wait for %s", id, token)
	}
	return nil
}

// client is one user of a store under test: it makes a key, asks, defers, approves, redeems, scans, and revokes.
type client struct {
	s    *Store
	j    *journal
	name string
	n    int
	boss *Key
	me   *Key
}

func (c *client) id(kind string) string { c.n++; return fmt.Sprintf("%s_%s_%d", kind, c.name, c.n) }

func (c *client) do(cmd Command, fn func()) bool {
	return c.j.note(c.s.Commit(context.Background(), cmd), fn)
}

func (c *client) key(scopes ...string) *Key {
	k := &Key{ID: c.id("key"), Scopes: scopes, MAC: []byte("mac")}
	k.Name = k.ID
	if !c.do(&CreateKey{Key: k, By: system}, func() { c.j.live = append(c.j.live, k.ID) }) {
		return nil
	}
	return c.s.Key(k.ID)
}

func (c *client) decide(args string, effect sdk.Effect, redeem string) *Decide {
	call := Call{Key: c.me, By: by(c.me), AgentID: "agent", ToolID: "tool", CallID: c.id("call")}
	d := &Decide{DecideCall: DecideCall{Call: call, ID: c.id("dec"),
		Policy: PolicyOutcome{Version: "p", Verdict: sdk.Verdict{Effect: effect, Code: "RULE"}},
		Names:  RepeatNames{Hashes: [][16]byte{{byte(c.n), byte(c.n >> 8), c.name[0], c.name[1]}}},
		Redeem: Redemption{Token: redeem}, Limits: CallLimits{MaxPending: 1000},
		Defer: NewDefer{Token: c.id("dfr"), TTL: time.Hour, View: []byte(`{}`)}}}
	copy(d.Digest[:], c.name+args)
	return d
}

// submit is a call that waits for an approval, with an action; asked again it joins what waits.
func (c *client) submit(args string) *Decide {
	d := c.decide(args, sdk.Defer, "")
	d.CallID = c.id("act")
	d.Action = &NewAction{Action: ActionRow{ID: d.CallID, Tool: "tool", Params: `{}`, Context: `{}`},
		Idem: &[16]byte{byte(c.n), byte(c.n >> 8), c.name[0], c.name[1], 1}}
	return d
}

// ask commits a decision and journals it.
func (c *client) ask(d *Decide, after func()) bool {
	return c.do(d, func() {
		c.j.ids = append(c.j.ids, d.Out.DecisionID)
		if d.Out.Effect == sdk.Permit {
			c.j.permits = append(c.j.permits, d.Out.DecisionID)
		}
		after()
	})
}

// life runs the client's whole story, rounds times, until the store refuses.
func (c *client) life(rounds int, between func(round int)) {
	if c.boss = c.key("approve"); c.boss == nil {
		return
	}
	for i := range rounds {
		if c.me = c.key("authorize", "scan"); c.me == nil || !c.round(i) {
			return
		}
		between(i)
	}
}

func (c *client) round(i int) bool {
	if !c.ask(c.decide("permit", sdk.Permit, ""), func() {}) || !c.ask(c.decide("deny", sdk.Deny, ""), func() {}) {
		return false
	}
	scan := &Scanned{Key: c.me, By: by(c.me), ScanID: c.id("scn"), ToolID: "tool", Outcome: "PASS", Code: "SCAN_OK"}
	if !c.do(scan, func() { c.j.ids = append(c.j.ids, scan.ScanID) }) {
		return false
	}
	what := fmt.Sprint("defer", i)
	ask := c.submit(what)
	if !c.ask(ask, func() { c.j.defers[ask.Out.Token], c.j.waits[ask.CallID] = Pending, ask.Out.Token }) {
		return false
	}
	token := ask.Out.Token
	if joins := c.submit(what); !c.ask(joins, func() { c.j.waits[joins.CallID] = token }) {
		return false
	}
	yes := &Approve{ApproveCall: ApproveCall{Token: token, Key: c.boss, By: by(c.boss), Yes: i%3 != 2,
		ApprovedTTL: time.Hour}}
	if !c.do(yes, func() { c.j.defers[token] = yes.Out.Status; c.j.ended[token] = yes.Out.Status == Denied }) {
		return false
	}
	spent := c.decide(what, sdk.Defer, token)
	if i%3 == 0 && !c.ask(spent, func() { c.j.defers[token] = Consumed; c.j.ended[token] = true }) {
		return false
	}
	to := c.s.Seq()
	move := &MoveCursor{Name: c.name, To: to, Events: []SubscriberEvent{{Type: SubscriberGap, First: to, Last: to}}}
	if !c.do(move, func() { c.j.cursors[c.name] = to }) {
		return false
	}
	key := c.me.ID
	return i%2 == 1 || c.do(&RevokeKey{ID: key, By: system}, func() { c.j.revoked = append(c.j.revoked, key) })
}

// workload runs clients against a store, with flush flushing now and then so that tables, logs and manifests change
// hands. It opens the store twice. On an error of the first life the store is given back as it is.
func workload(set Settings, flush bool, j *journal, clients, rounds int) (s *Store, err error) {
	for life := range 2 {
		if s, err = Open(set); err != nil {
			return nil, err
		}
		var wg sync.WaitGroup
		for i := range clients {
			c := &client{s: s, j: j, name: string(rune('a'+i)) + fmt.Sprint(life)}
			wg.Go(func() {
				c.life(rounds, func(round int) {
					if flush && i == 0 && round%3 == 1 {
						_ = s.guarded(s.db.Flush) // its failure shows in what follows
					}
				})
			})
		}
		wg.Wait()
		if err := errors.Join(j.other...); err != nil || s.Healthy() != nil {
			return s, err
		}
		if life == 0 {
			if err := s.Close(); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// cut is the state after a power cut and what had been answered by then.
type cut struct {
	op   int
	size uint64
	root tlog.Hash
}

// powerCuts runs the workload and cuts the power at every file-system operation, keeping that share of what was not
// synced.
func powerCuts(wrap func(vfs.FS) vfs.FS, percent, clients, rounds int) (cuts []cut, err error) {
	base := newCuttable()
	j := newJournal()
	rng := rand.New(rand.NewPCG(1, uint64(percent)))
	ops, failure := 0, error(nil)
	l := &looker{look: func(op errorfs.Op) {
		ops++
		if failure != nil || op.Kind == errorfs.OpFileWriteAt { // of the mark, which another boot does not read
			return
		}
		known := j.copy()
		if ops%7 == 0 { // whenever the file system likes
			failure = base.syncDirs("data")
		}
		clone := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		c, err := afterCut(clone, known, anotherBoot)
		if err != nil {
			failure = fmt.Errorf("power cut at operation %d, %d answers before it: %w", ops, len(known.ids), err)
		}
		c.op = ops
		cuts = append(cuts, c)
	}}
	set := settings(l.on(wrap(base)), newClock(), func(error) {})
	set.SealBytes = 8 << 10
	s, err := workload(set, true, j, clients, rounds)
	l.over()
	if err != nil {
		return cuts, err
	}
	err = errors.Join(j.verify(s), prefixes(s, cuts), s.Close())
	return cuts, errors.Join(failure, err)
}

// afterCut opens what the power cut left.
func afterCut(fs vfs.FS, known *journal, boot string) (cut, error) {
	set := settings(fs, newClock(), func(error) {})
	set.Boot = boot
	s, err := Open(set)
	if err != nil {
		return cut{}, err
	}
	_, root, err := logOf(s)
	c := cut{size: s.Seq(), root: root}
	return c, errors.Join(err, known.verify(s), s.Close())
}

// prefixes checks that what each cut left was the beginning of the log that came to be, not another one.
func prefixes(s *Store, cuts []cut) error {
	for _, c := range cuts {
		root, err := tlog.TreeHash(int64(c.size), hashReader{s})
		if err != nil {
			return err
		}
		if root != c.root {
			return fmt.Errorf("the cut at operation %d left another log of %d records", c.op, c.size)
		}
	}
	return nil
}

// TestPowerCutAroundTrims cuts the power at every operation while records are added and the oldest removed: what is
// left is always a log without a hole, beginning where some trim left it and not behind the last one, and with a tree
// that fits.
func TestPowerCutAroundTrims(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		base := newCuttable()
		rng := rand.New(rand.NewPCG(3, uint64(percent)))
		asked, answered, cuts, failure := uint64(0), uint64(1), 0, error(nil)
		l := &looker{look: func(errorfs.Op) {
			if cuts++; failure == nil {
				failure = afterTrim(base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), answered, asked)
			}
		}}
		s, err := Open(settings(l.on(base), newClock(), func(error) {}))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if err := s.Commit(context.Background(), &Note{Type: "note", By: system}); err != nil {
				t.Fatal(err)
			}
			if i%4 != 3 {
				continue
			}
			l.mu.Lock()
			asked = s.Seq() - 2
			l.mu.Unlock()
			if err := s.Commit(context.Background(), &Trim{Through: asked, Reason: "max_age"}); err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			answered = s.First()
			l.mu.Unlock()
			if i%12 == 11 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		closed := s.Close()
		l.over()
		if err := errors.Join(failure, closed); err != nil || cuts < 100 {
			t.Fatalf("%d%% kept, %d cuts: %v", percent, cuts, err)
		}
	}
}

func afterTrim(fs vfs.FS, answered, asked uint64) error {
	s, err := Open(settings(fs, newClock(), func(error) {}))
	if err != nil {
		return err
	}
	next := s.First()
	if next < answered || next > max(answered, asked+1) {
		err = fmt.Errorf("the log begins with %d, %d was answered and %d asked for", next, answered, asked)
	}
	var leaves []tlog.Hash
	walked := s.Records(1, func(seq uint64, rec []byte) error {
		if next++; seq != next-1 {
			return fmt.Errorf("record %d where %d should be", seq, next-1)
		}
		leaves = append(leaves, tlog.RecordHash(rec))
		return nil
	})
	if next != s.Seq()+1 {
		err = errors.Join(err, fmt.Errorf("%d records, the last is %d", s.Seq(), next-1))
	}
	root, rooted := s.Root(s.Seq())
	if rooted == nil && root != s.seq.tree.Root() {
		err = errors.Join(err, errors.New("the tree's edge does not fit its hashes"))
	}
	for i, leaf := range leaves {
		at := int64(s.First()) - 1 + int64(i)
		if stored, e := (hashReader{s}).ReadHashes([]int64{tlog.StoredHashIndex(0, at)}); e != nil || stored[0] != leaf {
			err = errors.Join(err, fmt.Errorf("record %d has another hash: %w", at+1, e))
		}
	}
	return errors.Join(err, walked, rooted, s.Close())
}

func honest(fs vfs.FS) vfs.FS { return fs }

func TestPowerCutAtEveryOperation(t *testing.T) {
	for _, percent := range []int{0, 10, 50, 100} {
		for clients, rounds := range map[int]int{1: 6, 6: 3} {
			switch {
			case os.Getenv("YETT_FULL") != "":
				rounds *= 3
			case !testkit.Every(1, 2):
				rounds /= 3
			}
			t.Run(fmt.Sprintf("%d%% kept, %d clients", percent, clients), func(t *testing.T) {
				if testing.Short() && (percent != 0 || clients != 1) {
					t.Skip("only one of the cases with -short")
				}
				cuts, err := powerCuts(honest, percent, clients, rounds)
				if err != nil {
					t.Fatal(err)
				}
				if len(cuts) < 100 {
					t.Fatalf("only %d cuts: the workload does not reach the disk", len(cuts))
				}
				t.Logf("%d cuts", len(cuts))
			})
		}
	}
}

// liar is a disk that says it has synced and has not.
type liar struct{ vfs.FS }

type liarFile struct{ vfs.File }

func (liarFile) Sync() error                { return nil }
func (liarFile) SyncData() error            { return nil }
func (liarFile) SyncTo(int64) (bool, error) { return true, nil }

// Create lies about logs only: a store whose tables are not synced cannot even be opened, which is too easy to see.
func (l liar) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	if strings.HasSuffix(name, ".log") {
		f = liarFile{f}
	}
	return f, err
}

func (l liar) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(from, to, c)
	return liarFile{f}, err
}

// The check above would see a store that does not sync.
func TestPowerCutCheckCatchesALyingSync(t *testing.T) {
	_, err := powerCuts(func(fs vfs.FS) vfs.FS { return liar{fs} }, 0, 1, 3)
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("a disk that never syncs was not noticed as an answer that is missing: %v", err)
	}
	t.Logf("caught: %v", err)
}
