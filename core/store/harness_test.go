package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
	"github.com/yett-dev/yett/sdk"
)

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock starts at the beginning of a repeat window and of an idempotency window.
func newClock() *clock { return &clock{now: time.Unix(86_400*20_000, 0).UTC()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// cuttable is a disk in memory whose power can be cut. Pebble's own locks itself up for ever when it is cloned while a
// file is being linked, reused or locked: a disk on which a store works is a cuttable one.
type cuttable struct {
	*vfs.MemFS
	mu sync.Mutex
}

func newCuttable() *cuttable { return &cuttable{MemFS: vfs.NewCrashableMem()} }

// Link links a file.
func (c *cuttable) Link(from, to string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.MemFS.Link(from, to)
}

// ReuseForWrite renames a file and opens it for writing.
func (c *cuttable) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.MemFS.ReuseForWrite(from, to, category)
}

// Lock makes a lock.
func (c *cuttable) Lock(name string) (io.Closer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.MemFS.Lock(name)
}

// CrashClone gives what a power cut would leave.
func (c *cuttable) CrashClone(cfg vfs.CrashCloneCfg) *vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.MemFS.CrashClone(cfg)
}

// ended gives what the end of the process would leave: all that was written, and nothing that was removed. That is not
// what a power cut of which nothing is lost would leave: a name that was removed is there again until its directory is
// synced.
func (c *cuttable) ended() *vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		to := vfs.NewCrashableMem()
		_, err := vfs.Clone(c.MemFS, to, "data", "data", vfs.CloneSync)
		if err == nil {
			err = (&cuttable{MemFS: to}).syncDirs("")
		}
		if err == nil {
			return to
		}
		if !errors.Is(err, fs.ErrNotExist) { // else a file has gone meanwhile
			panic(err)
		}
	}
}

// syncDirs makes what was created, renamed and removed so far outlive a power cut.
func (c *cuttable) syncDirs(dir string) error {
	names, err := c.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := c.Stat(c.PathJoin(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && st.IsDir() {
			err = c.syncDirs(c.PathJoin(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return syncDir(c.MemFS, dir)
}

// looker is called in front of every change of a disk, until it is over, never twice at a time.
type looker struct {
	mu   sync.Mutex
	look func(op errorfs.Op)
}

func (l *looker) on(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.look != nil {
			l.look(op)
		}
		return nil
	}))
}

// over ends it: what it has written can be read.
func (l *looker) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look = nil
}

// reporter is what a test and a rapid check have in common.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig is a store on a memory disk that can be closed and opened again.
type rig struct {
	t     reporter
	fs    vfs.FS
	clock *clock
	s     *Store
	n     int
	seal  int // SealBytes
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, fs: vfs.NewMem(), clock: newClock()}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	set := settings(r.fs, r.clock, func(err error) { r.t.Errorf("fatal: %v", err) })
	if r.seal != 0 {
		set.SealBytes = r.seal
	}
	s, err := Open(set)
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
}

func (r *rig) close() {
	r.t.Helper()
	if err := replay(r.s); err != nil {
		r.t.Error(err)
	}
	if err := r.s.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

// id makes ids that are unique within the rig.
func (r *rig) id(prefix string) string { r.n++; return fmt.Sprintf("%s%04d", prefix, r.n) }

func (r *rig) commit(c Command) error { return r.s.Commit(context.Background(), c) }

func (r *rig) must(c Command) {
	r.t.Helper()
	if err := r.commit(c); err != nil {
		r.t.Fatalf("%T: %v", c, err)
	}
}

// refused commits and expects that error code.
func (r *rig) refused(c Command, code sdk.Code) {
	r.t.Helper()
	if got := codeOf(r.commit(c)); got != code {
		r.t.Fatalf("%T: got %q, want %q", c, got, code)
	}
}

func (r *rig) key(id string, agents []string, scopes ...string) *Key {
	r.t.Helper()
	k := &Key{ID: id, Name: "name of " + id, Scopes: scopes, Agents: agents, MAC: []byte(id), CreatedAt: r.clock.Now()}
	r.must(&CreateKey{Key: k, By: system})
	return r.s.Key(id)
}

// by is a caller who sent that key.
func by(k *Key) Who { return Who{Principal: k.ID, Method: "api_key", Surface: "http"} }

// call is a call by that key whose digest is made from args.
func (r *rig) call(k *Key, args string, v sdk.Verdict) *Decide {
	if v.Code == "" {
		v.Code = "RULE_" + v.Effect.String()
	}
	c := &Decide{DecideCall: DecideCall{
		Call: Call{Key: k, By: by(k), AgentID: "agent",
			SessionID: "session", ToolID: "tool", CallID: r.id("call"), Began: r.s.Began()},
		ID: r.id("dec_"), Policy: PolicyOutcome{Version: "p", Verdict: v},
		Defer: NewDefer{TTL: 5 * time.Minute}, Limits: CallLimits{MaxPending: 1000}}}
	copy(c.Digest[:], k.ID+"|"+args)
	if v.Effect == sdk.Defer {
		c.Defer.Token, c.Defer.View = r.id("dfr_"), []byte(`{"args":{}}`)
	}
	return c
}

// deferred makes a pending defer and gives its token.
func (r *rig) deferred(k *Key, args string, v sdk.Verdict) string {
	r.t.Helper()
	v.Effect = sdk.Defer
	c := r.call(k, args, v)
	r.must(c)
	if c.Out.Effect != sdk.Defer || c.Out.Token == "" {
		r.t.Fatalf("not deferred: %+v", c.Out)
	}
	return c.Out.Token
}

func (r *rig) answer(k *Key, token string, yes bool) *Approve {
	return &Approve{ApproveCall: ApproveCall{Token: token, Key: k,
		By: Who{Principal: k.ID, Method: "api_key", Surface: "http"}, Yes: yes, Reason: "because",
		ApprovedTTL: 5 * time.Minute, Told: told, MostGrants: 1000,
		Answer: func(a *Approval) []byte { return []byte(a.Status + " " + a.Granted) }}}
}

// told reads what answer has Answer say.
func told(answer []byte) (status, grant string) {
	status, grant, _ = strings.Cut(string(answer), " ")
	return status, grant
}

// redeem asks again with the token; the chain says v.
func (r *rig) redeem(k *Key, args, token string, v sdk.Verdict) *Decide {
	c := r.call(k, args, v)
	c.Redeem.Token = token
	return c
}

// status is a defer's status as its asking key sees it.
func (r *rig) status(k *Key, token string) string {
	r.t.Helper()
	c := &DeferStatus{Token: token, Key: k}
	r.must(c)
	return c.Out.Status
}

// A process that ends is started again in the same life of the machine, a power cut ends that.
const thisBoot, anotherBoot = "this boot", "another boot"

func settings(fs vfs.FS, c *clock, fatal func(error)) Settings {
	return Settings{Dir: "data", FS: fs, Now: c.Now, NewID: func() string {
		return "sto_test"
	}, Log: func(string, ...any) {}, OnFatal: fatal, Stall: time.Hour, Secret: []byte("secret"),
		SealBytes: 64 << 10, Boot: thisBoot, shareEvery: 1}
}

func codeOf(err error) sdk.Code {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return sdk.Code("not an sdk.Error: " + err.Error())
	}
	return ""
}

// row is what the tests need of a record.
type row struct {
	Seq        uint64   `json:"seq"`
	StoreID    string   `json:"store_id"`
	Type       string   `json:"type"`
	KeyID      string   `json:"key_id"`
	RevokedAt  string   `json:"revoked_at"`
	DeferToken string   `json:"defer_token"`
	Status     string   `json:"status"`
	DecisionID string   `json:"decision_id"`
	ScanID     string   `json:"scan_id"`
	Effect     string   `json:"effect"`
	ReasonCode string   `json:"reason_code"`
	Repeat     bool     `json:"repeat"`
	Seqs       []uint64 `json:"seqs"`
	Approvals  int      `json:"approvals"`
}

func (s *Store) sealedNow() []*segment.Reader {
	sealed, _ := s.records.now()
	return sealed
}

// replay holds the records against each other, as yett audit verify --invariants does.
func replay(s *Store) error {
	rules := log.NewInvariants(s.First())
	if err := s.Records(s.First(), rules.Record); err != nil {
		return err
	}
	return rules.End()
}

// logOf reads the whole log and checks it: seq without gaps, and a tree whose stored hashes give the root that the
// records give when it is worked out from nothing.
func logOf(s *Store) (rows []row, root tlog.Hash, err error) {
	var leaves []tlog.Hash
	rules := log.NewInvariants(1)
	err = s.Records(1, func(seq uint64, rec []byte) error {
		var r row
		if err := json.Unmarshal(rec, &r); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		id, _ := s.StoreOf(seq)
		if want := uint64(len(rows) + 1); seq != want || r.Seq != want || r.StoreID != id {
			return fmt.Errorf("record %d says it is %d of %s, want %d of %s", seq, r.Seq, r.StoreID, want, id)
		}
		rows, leaves = append(rows, r), append(leaves, tlog.RecordHash(rec))
		return rules.Record(seq, rec)
	})
	if err != nil {
		return nil, root, err
	}
	if err := rules.End(); err != nil {
		return nil, root, err
	}
	if n := s.Seq(); n != uint64(len(rows)) {
		return nil, root, fmt.Errorf("the store counts %d records and has %d", n, len(rows))
	}
	root = merkle(leaves)
	stored, err := tlog.TreeHash(int64(len(rows)), hashReader{s})
	if err != nil {
		return nil, root, err
	}
	if edge := s.seq.tree.Root(); stored != root || edge != root {
		return nil, root, fmt.Errorf("roots differ: records %v, stored hashes %v, edge %v", root, stored, edge)
	}
	return rows, root, nil
}

// merkle is RFC 6962's tree head, written down once more from the text of the RFC.
func merkle(leaves []tlog.Hash) tlog.Hash {
	switch n := len(leaves); n {
	case 0:
		h, _ := tlog.TreeHash(0, nil)
		return h
	case 1:
		return leaves[0]
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		return tlog.NodeHash(merkle(leaves[:k]), merkle(leaves[k:]))
	}
}

// consistent checks that the state rows say what the records say: no more, no less.
func consistent(s *Store) error {
	rows, _, err := logOf(s)
	if err != nil {
		return err
	}
	return agree(s, rows, 0, 0)
}

// agree checks that the state rows say what those records say, which are all that there ever were. Rows of deferred
// calls that ended in front of record may have gone, and those that ended in front of must have.
func agree(s *Store, rows []row, may, must uint64) error {
	keys, defers, ends := map[string]bool{}, map[string]string{}, map[string]uint64{}
	for _, r := range rows {
		switch {
		case r.Type == "key_created":
			keys[r.KeyID] = true
		case r.Type == "key_revoked" || r.Type == "voided" && r.KeyID != "":
			keys[r.KeyID] = false
		case r.Type == "decision" && r.ReasonCode == sdk.ReasonApprovalConsumed && !r.Repeat:
			if defers[r.DeferToken] != Approved {
				return fmt.Errorf("record %d consumes %s, which is %q", r.Seq, r.DeferToken, defers[r.DeferToken])
			}
			defers[r.DeferToken], ends[r.DeferToken] = Consumed, r.Seq
		case r.Status != "":
			defers[r.DeferToken], ends[r.DeferToken] = r.Status, r.Seq
		}
	}
	for _, k := range s.Keys() {
		live, known := keys[k.ID]
		if !known || live != (k.Revocation() == nil) {
			return fmt.Errorf("key %s: the log says known=%v live=%v, its row says revocation %v", k.ID, known, live,
				k.Revocation())
		}
		delete(keys, k.ID)
	}
	if len(keys) > 0 {
		return fmt.Errorf("keys without a row: %v", keys)
	}
	return sameDefers(s, defers, ends, may, must)
}

func sameDefers(s *Store, want map[string]string, ends map[string]uint64, may, must uint64) error {
	there := map[string]bool{}
	err := s.scan(prefixDefer, func(key, value []byte) error {
		var d Defer
		if err := json.Unmarshal(value, &d); err != nil {
			return err
		}
		there[d.Token] = true
		_, marked, err := s.get(keyStr(prefixLive, d.Token))
		live := s.seq.state.live[d.Token]
		switch {
		case err != nil:
			return err
		case want[d.Token] != d.Status:
			return fmt.Errorf("defer %s: the log says %q, its row %q", d.Token, want[d.Token], d.Status)
		case marked != d.open() || (live != nil) != d.open():
			return fmt.Errorf("defer %s is %s, but marked live %v, in memory %v", d.Token, d.Status, marked, live != nil)
		case live != nil && live.Status != d.Status:
			return fmt.Errorf("defer %s: memory says %s, the row %s", d.Token, live.Status, d.Status)
		case !d.open() && ends[d.Token] < must:
			return fmt.Errorf("defer %s was %s by record %d, which has gone, and its row is there", d.Token, d.Status,
				ends[d.Token])
		}
		return nil
	})
	for token, status := range want {
		over := status == Denied || status == Expired || status == Consumed
		if err == nil && !there[token] && (!over || ends[token] >= may) {
			err = fmt.Errorf("defer %s, which record %d made %s, has no row", token, ends[token], status)
		}
	}
	st := s.seq.state
	for token, due := range st.dueOf {
		if d := st.live[token]; err == nil && (d == nil || due.d != d || st.dues[due.place] != due) {
			err = fmt.Errorf("defer %s is to be looked at, and is not what is live", token)
		}
	}
	for i, w := range st.waiting {
		if d := w.d; err == nil && (st.live[d.Token] != d || d.slot != i || w.key != d.KeyID || w.agent != d.AgentID ||
			w.tool != d.ToolID) {
			err = fmt.Errorf("defer %s waits, and is not what is live", d.Token)
		}
	}
	if err == nil && (len(st.waiting) != len(st.live) || len(st.dues) != len(st.live) || len(st.dueOf) != len(st.live)) {
		err = fmt.Errorf("%d calls are live, %d are to be looked at", len(st.live), len(st.dues))
	}
	return errors.Join(err, sameJoined(s))
}

// sameJoined compares the actions that wait for a call of others: in memory, and in rows.
func sameJoined(s *Store) error {
	rows := map[string]int{}
	err := s.scan(prefixJoin, func(key, _ []byte) error {
		token, _, _ := strings.Cut(string(key[1:]), "\x00")
		if rows[token]++; s.seq.state.live[token] == nil {
			return fmt.Errorf("an action waits for %s, which has ended", token)
		}
		return nil
	})
	for token, d := range s.seq.state.live {
		if err == nil && len(d.joined) != rows[token] {
			err = fmt.Errorf("%d actions wait for %s, and %d rows say so", len(d.joined), token, rows[token])
		}
	}
	return err
}

// until waits for what other goroutines bring about. Only a defect lets it wait for long: then the test ends, and says
// what all of them do.
func until(t reporter, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("it never becomes so:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// healthyAgain waits until the sequencer's own goroutine has dealt with a stall.
func healthyAgain(t reporter, s *Store) {
	t.Helper()
	until(t, func() bool { return s.Healthy() == nil })
}
