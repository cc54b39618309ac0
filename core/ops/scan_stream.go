package ops

import (
	"cmp"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// scanLimits bound the streams of scan_output.
type scanLimits struct {
	perKey int   // streams of one key; those that ended and can still repeat their last answer count
	held   int   // bytes of one stream that are held back between two pieces
	share  int64 // bytes that the streams of one key hold, of memory
	// bytes that all streams take between their pieces, with their last answers; the last quarter is for keys that hold
	// little
	memory int64
	idle   time.Duration // how long a stream waits for its next piece, or remembers its end
}

// scanLimitsOf gives one key a quarter of the memory, or two whole streams where that is more.
func scanLimitsOf(set *Settings) scanLimits {
	l := &set.Limits
	all, one := int64(l.ScanStreamsAll), int64(l.ScanStream)
	return scanLimits{perKey: l.ScanStreams, held: int(one), memory: all, idle: l.ScanIdle.Std(),
		share: cmp.Or(set.ScanShare, min(max(all/4, 6*one), all))}
}

const (
	scanStreamSize = 1 << 10     // what a stream takes beside its text and its names, bytes
	scanSweepEvery = time.Second // how often forgotten streams are looked for, unless a key or a kill asks for it
)

// scanStreams are the streams of scan_output. They live in memory only: what a restart loses is refused by name, so
// that nobody takes what came behind it for clean.
type scanStreams struct {
	set scanLimits

	mu     sync.Mutex // never held while a scanner runs or a record is written
	byKey  map[string]map[streamName]*scanStream
	memory int64
	swept  time.Time
}

type streamName struct{ tool, id string }

// scanStream is one stream. While busy is set, its one piece may read it without the lock, killed and size apart.
type scanStream struct {
	key, agent, session, content string
	name                         streamName
	gen                          *Generation // the same from the first piece to the last, pinned while at is there

	busy, killed bool
	pinned       bool
	ended        string // why; "" while it is open
	at           *chain.Stream
	taken        int
	settled      int
	released     int
	used         time.Time
	size         int64 // counted in memory

	last       *wire.ScanResponse // the answer to the last piece; nil before the first
	lastOffset int
	lastSum    [sha256.Size]byte
	began      bool // a piece of it has happened
}

func sumOf(in *wire.ScanRequest) [sha256.Size]byte {
	end := "\x00"
	if in.Final {
		end = "\x01"
	}
	return sha256.Sum256([]byte(end + in.Output))
}

// scanPiece is Scan for a piece of a stream. A piece that is not recorded has not happened: it can be sent again.
func (s *Service) scanPiece(r *Request, in *wire.ScanRequest) (*wire.ScanResponse, error) {
	if in.Offset < 0 {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "offset", "offset must not be negative")
	}
	killed := s.set.Store.Killed(r.Key, in.AgentID, in.SessionID, in.ToolID) != nil
	sum := sumOf(in)
	st, again, err := s.scans.acquireStream(s, r.Key, in, sum, &killed)
	if err != nil || again != nil {
		return again, err
	}
	out, next, err := s.nextPiece(r, in, st, killed)
	s.scans.give(st, in, sum, out, next, s.set.Now())
	return out, err
}

// nextPiece scans and records a piece. The stream is st's alone until it returns.
func (s *Service) nextPiece(r *Request, in *wire.ScanRequest, st *scanStream, killed bool) (*wire.ScanResponse,
	*chain.Stream, error) {
	var next *chain.Stream
	var res chain.StreamResult
	if !killed {
		next, res = st.at.Next(r.Ctx, strings.Clone(in.Output), in.Final)
		killed = s.scans.wasKilled(st) // and undone while the piece was scanned, or the commit will see it
	}
	if killed {
		next, res = nil, chain.StreamResult{Settled: st.settled, Released: st.released}
		res.Outcome, res.Code, res.Reason = chain.Denied, sdk.ReasonKillSwitch,
			"a kill is in effect, or was since the stream began"
	}
	if r.Ctx.Err() != nil { // what a scanner made of that is nobody's verdict
		return nil, nil, sdk.Errf(sdk.CodeTimeout,
			"the piece was not scanned in time; nothing of it is taken, so send it again")
	}
	out := &wire.ScanResponse{Outcome: res.Outcome, ReasonCode: res.Code, Reason: res.Reason, ScanID: s.ids.id("scn_"),
		PolicyVersion: st.gen.Policy, Findings: findings(res.Findings), ScannedBy: s.receipts(r, res.Receipts)}
	text := strings.Clone(res.Text) // not a part of res: the answer is kept, and res holds all that was looked at
	if err := s.scans.hold(s, st, out, text, next); err != nil {
		return nil, nil, err
	}
	piece := &store.ScannedPiece{ID: st.name.id, Offset: in.Offset, Final: in.Final, Settled: res.Settled,
		Released: res.Released, Before: [2]int{st.settled, st.released}}
	cmd := &store.Scanned{Key: r.Key, By: r.Who, ScanID: out.ScanID, AgentID: st.agent, SessionID: st.session,
		ToolID: st.name.tool, Bytes: len(in.Output), Outcome: out.Outcome, Code: out.ReasonCode, Reason: out.Reason,
		Policy: st.gen.Policy, Findings: append(s.recorded(res.Around, res.At, res.Findings, false),
			s.recorded(res.Around, res.At, res.Shadow, true)...), Receipts: keptReceipts(out.ScannedBy, res.Receipts),
		LatencyUS: s.set.Now().Sub(r.Start).Microseconds(), Stream: piece}
	if err := s.commit(r, cmd); err != nil {
		return nil, nil, err
	}
	if cmd.Killed { // it came while the piece was scanned
		next, out.Findings = nil, findings(nil)
		out.Outcome, out.ReasonCode, out.Reason = cmd.Outcome, cmd.Code, cmd.Reason
	}
	out.Retry = scanRetry(out.ReasonCode, res.Receipts)
	if out.Outcome != chain.Denied {
		out.SanitizedOutput = &text
	}
	out.Stream = &wire.ScanStream{NextOffset: in.Offset + len(in.Output), Settled: piece.Settled, Released: piece.Released,
		Ended: next == nil}
	out.LatencyMS = s.set.Now().Sub(r.Start).Milliseconds()
	return out, next, nil
}

// acquireStream finds or begins the stream that a piece belongs to and makes it busy; or gives the answer to the same
// piece again. killed comes to hold when the stream was killed before.
func (t *scanStreams) acquireStream(s *Service, key *store.Key, in *wire.ScanRequest, sum [sha256.Size]byte,
	killed *bool) (*scanStream, *wire.ScanResponse, error) {
	now := s.set.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) >= scanSweepEvery {
		t.sweep(s, now)
	}
	st := t.byKey[key.ID][streamName{in.ToolID, in.StreamID}]
	if st != nil && t.forgotten(st, now) {
		t.drop(st)
		st = nil
	}
	if st != nil {
		if again, err := st.follows(in, sum, *killed); again != nil || err != nil {
			return nil, again, err
		}
	} else if in.Offset != 0 {
		return nil, nil, sdk.FieldErrf(sdk.CodeStreamUnknown, "stream_id",
			"no stream of this key and tool is open under that stream_id: its first piece was never sent, it waited longer "+
				"than %v (limits.scan_stream_idle), or the server was started again since. Nothing of this piece is scanned: "+
				"send the whole output under another stream_id", t.set.idle)
	}
	reserve := 2 * int64(len(in.Output))
	need := reserve
	if st == nil {
		need += scanStreamSize + namesSize(key.ID, in)
	}
	if err := t.room(s, key.ID, st == nil, need, now); err != nil {
		return nil, nil, err
	}
	if st == nil {
		st = t.begin(s, key, in)
	}
	st.busy, st.used, st.size, *killed = true, now, st.size+reserve, *killed || st.killed
	t.memory += reserve
	return st, nil, nil
}

// follows says whether a piece is the next one, or the last one again.
func (st *scanStream) follows(in *wire.ScanRequest, sum [sha256.Size]byte, killed bool) (*wire.ScanResponse, error) {
	switch {
	case in.AgentID != st.agent:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "agent_id", "the stream was begun with another agent_id")
	case in.SessionID != st.session:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "session_id", "the stream was begun with another session_id")
	case in.ContentType != st.content:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "content_type", "the stream was begun with another content_type")
	case st.busy:
		return nil, sdk.FieldErrf(sdk.CodeStreamBusy, "stream_id",
			"another piece of this stream is being scanned; send one after the other")
	}
	same := st.last != nil && in.Offset == st.lastOffset && sum == st.lastSum
	switch {
	case same && (st.last.Outcome == chain.Denied || !killed && !st.killed):
		return st.last, nil
	case st.ended != "":
		return nil, sdk.FieldErrf(sdk.CodeStreamEnded, "stream_id",
			"the stream has ended: %s. Begin another under another stream_id", st.ended)
	case in.Offset != st.taken:
		return nil, sdk.FieldErrf(sdk.CodeStreamOffset, "offset",
			"offset is %d, but %d bytes of this stream were sent; only the last piece, as it was, can be sent again, and "+
				"none after a kill", in.Offset, st.taken)
	}
	return nil, nil
}

// begin makes a stream.
func (t *scanStreams) begin(s *Service, key *store.Key, in *wire.ScanRequest) *scanStream {
	st := &scanStream{key: key.ID, agent: strings.Clone(in.AgentID), session: strings.Clone(in.SessionID),
		content: strings.Clone(in.ContentType), name: streamName{strings.Clone(in.ToolID), strings.Clone(in.StreamID)},
		gen: s.pin(), size: scanStreamSize + namesSize(key.ID, in)}
	st.pinned = true
	st.at = st.gen.Scan.NewStream(&chain.Input{ToolID: st.name.tool, AgentID: st.agent, KeyID: st.key,
		ContentType: st.content, MaskKey: s.maskKey(st.key, st.agent, st.session),
		TokenKey: s.tokenKey(st.agent, st.session)}, t.set.held)
	if t.byKey == nil {
		t.byKey = map[string]map[streamName]*scanStream{}
	}
	if t.byKey[st.key] == nil {
		t.byKey[st.key] = map[streamName]*scanStream{}
	}
	t.byKey[st.key][st.name] = st
	t.memory += st.size
	return st
}

// give ends the use of a stream. out is nil when the piece has not happened.
func (t *scanStreams) give(st *scanStream, in *wire.ScanRequest, sum [sha256.Size]byte, out *wire.ScanResponse,
	next *chain.Stream, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st.busy, st.used = false, now
	if out != nil {
		st.began = true
		st.last, st.lastOffset, st.lastSum = out, in.Offset, sum
		st.at, st.taken, st.settled, st.released = next, out.Stream.NextOffset, out.Stream.Settled, out.Stream.Released
		if next == nil {
			st.unpin()
			st.ended = "its last piece was sent"
			if out.Outcome == chain.Denied {
				st.ended = cmp.Or(out.Reason, out.ReasonCode) + "; " + "it was denied"
			}
		}
	}
	if !st.began { // its first piece has not happened, so neither has it
		t.drop(st)
		return
	}
	t.weigh(st)
	if st.killed && st.ended == "" {
		t.empty(st)
	}
}

func (t *scanStreams) wasKilled(st *scanStream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return st.killed
}

// empty takes what a killed stream holds. What is left is how much was released, for its next piece.
func (t *scanStreams) empty(st *scanStream) {
	st.at, st.last = nil, nil
	st.unpin()
	t.weigh(st)
}

// unpin lets go of the stream's generation: nothing more is scanned.
func (st *scanStream) unpin() {
	if st.pinned {
		st.gen.unpin()
	}
	st.pinned = false
}

func (t *scanStreams) drop(st *scanStream) {
	st.unpin()
	delete(t.byKey[st.key], st.name)
	if len(t.byKey[st.key]) == 0 {
		delete(t.byKey, st.key)
	}
	t.memory -= st.size
}

func (t *scanStreams) forgotten(st *scanStream, now time.Time) bool {
	return !st.busy && now.Sub(st.used) > t.set.idle
}

// sweep drops streams that waited too long and those of keys that are revoked or expired, and takes the text of killed
// ones: their next piece is denied, whether the kill is undone by then or not.
func (t *scanStreams) sweep(s *Service, now time.Time) {
	t.swept = now
	for id, mine := range t.byKey {
		key := s.set.Store.Key(id)
		gone := key == nil || key.Revoked(now) != nil || key.Expired(now)
		for _, st := range mine {
			switch {
			case (gone && !st.busy) || t.forgotten(st, now):
				t.drop(st)
			case !gone && st.ended == "" && !st.killed && s.set.Store.Killed(key, st.agent, st.session, st.name.tool) != nil:
				st.killed = true
				if !st.busy {
					t.empty(st)
				}
			}
		}
	}
}

// sweepScans lets go of streams that a kill or a revocation has just ended.
func (s *Service) sweepScans() {
	now := s.set.Now()
	s.scans.mu.Lock()
	defer s.scans.mu.Unlock()
	s.scans.sweep(s, now)
}
