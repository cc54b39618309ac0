package ops

import (
	"slices"
	"time"
	"unsafe"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// little is what a key may hold and still use the last quarter of the memory, so that keys that hold much never keep
// out one that holds little.
func (l *scanLimits) little() int64 { return max(l.memory/128, 64<<10) }

// room makes room for need more bytes of a key, and for one more stream of it if begins; or it refuses, and takes
// nothing from anybody. What has ended makes way for what goes on: the key's own first, then that of keys that hold
// more than little, then the rest, and of these the oldest first.
func (t *scanStreams) room(s *Service, key string, begins bool, need int64, now time.Time) error {
	if need <= 0 {
		return nil
	}
	if !t.fits(key, need) {
		t.sweep(s, now)
	}
	plan := scanPlan{t: t, need: need}
	for _, st := range t.byKey[key] {
		plan.mine += st.size
	}
	own := ended(t.byKey[key])
	if n := len(t.byKey[key]); begins && n >= t.set.perKey {
		if len(own) == 0 {
			return sdk.Errf(sdk.CodeTooManyRequests, "this key has %d scan streams open already (limits.scan_streams_per_key)",
				n)
		}
		plan.dropOwn(own[0])
		own = own[1:]
	}
	for len(own) > 0 && !(plan.inShare() && plan.inAll()) {
		plan.dropOwn(own[0])
		own = own[1:]
	}
	if !plan.inShare() {
		return sdk.Errf(sdk.CodeTooManyRequests, "this key's scan streams would hold %d bytes, more than its share of %d "+
			"(of limits.scan_streams_memory); nothing of the piece is taken, so send it again later", plan.mine+need,
			t.set.share)
	}
	if !plan.inAll() {
		plan.dropOthers(key)
	}
	if !plan.inAll() {
		return sdk.Errf(sdk.CodeTooManyRequests, "all scan streams together hold %d bytes, and this piece needs %d: more "+
			"than the limit of %d (limits.scan_streams_memory; a key that holds at most %d bytes may take all %d); nothing "+
			"of it is taken, so send it again later",
			t.memory, need, plan.most(), t.set.little(), t.set.memory)
	}
	for _, st := range plan.drop {
		t.drop(st)
	}
	return nil
}

// fits reports whether there is room while nothing makes way.
func (t *scanStreams) fits(key string, need int64) bool {
	plan := scanPlan{t: t, need: need}
	for _, st := range t.byKey[key] {
		plan.mine += st.size
	}
	return plan.inShare() && plan.inAll()
}

// ended are the streams that have ended, the oldest first.
func ended(of map[streamName]*scanStream) (out []*scanStream) {
	for _, st := range of {
		if st.ended != "" && !st.busy {
			out = append(out, st)
		}
	}
	slices.SortFunc(out, func(a, b *scanStream) int { return a.used.Compare(b.used) })
	return out
}

// scanPlan is what would make way for need more bytes of a key.
type scanPlan struct {
	t     *scanStreams
	need  int64
	mine  int64 // what the key holds without what makes way
	freed int64
	drop  []*scanStream
}

func (p *scanPlan) dropOwn(st *scanStream) {
	p.mine -= st.size
	p.dropAny(st)
}

func (p *scanPlan) dropAny(st *scanStream) {
	p.freed += st.size
	p.drop = append(p.drop, st)
}

// inShare reports whether one key does not take what all have together.
func (p *scanPlan) inShare() bool { return p.mine+p.need <= p.t.set.share }

// most is what all streams may hold for this key to take more.
func (p *scanPlan) most() int64 {
	all := p.t.set.memory
	if p.mine+p.need > p.t.set.little() {
		all -= all / 4
	}
	return all
}

func (p *scanPlan) inAll() bool { return p.t.memory-p.freed+p.need <= p.most() }

// dropOthers plans with what has ended of other keys, if that is enough.
func (p *scanPlan) dropOthers(key string) {
	var much, rest []*scanStream
	var sum int64
	for id, of := range p.t.byKey {
		if id == key {
			continue
		}
		held, done := int64(0), []*scanStream(nil)
		for _, st := range of {
			held += st.size
			if st.ended != "" && !st.busy {
				done = append(done, st)
				sum += st.size
			}
		}
		if held > p.t.set.little() {
			much = append(much, done...)
		} else {
			rest = append(rest, done...)
		}
	}
	if p.t.memory-p.freed-sum+p.need > p.most() {
		return
	}
	for _, done := range [][]*scanStream{much, rest} {
		slices.SortFunc(done, func(a, b *scanStream) int { return a.used.Compare(b.used) })
		for _, st := range done {
			if p.inAll() {
				return
			}
			p.dropAny(st)
		}
	}
}

// hold counts what a stream will hold once its piece has happened, or refuses the piece. A denial is never refused.
func (t *scanStreams) hold(s *Service, st *scanStream, out *wire.ScanResponse, text string, next *chain.Stream) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := st.names() + answerSize(out) + int64(len(text))
	if next != nil {
		size += int64(next.Kept())
	}
	if out.Outcome != chain.Denied {
		if err := t.room(s, st.key, false, size-st.size, s.set.Now()); err != nil {
			return err
		}
	}
	if more := size - st.size; more > 0 {
		st.size += more
		t.memory += more
	}
	return nil
}

// weigh counts what a stream takes now.
func (t *scanStreams) weigh(st *scanStream) {
	t.memory -= st.size
	st.size = st.names() + int64(len(st.ended))
	if st.at != nil {
		st.size += int64(st.at.Kept())
	}
	if st.last != nil {
		st.size += answerSize(st.last)
		if st.last.SanitizedOutput != nil {
			st.size += int64(len(*st.last.SanitizedOutput))
		}
	}
	t.memory += st.size
}

// names is what a stream takes without what it holds back and its last answer.
func (st *scanStream) names() int64 {
	return scanStreamSize + int64(len(st.key)+len(st.agent)+len(st.session)+len(st.content)+len(st.name.tool)+
		len(st.name.id))
}

// namesSize is what the names of a stream take that begins.
func namesSize(key string, in *wire.ScanRequest) int64 {
	return int64(len(key) + len(in.AgentID) + len(in.SessionID) + len(in.ContentType) + len(in.ToolID) + len(in.StreamID))
}

// answerSize is what an answer takes, its text apart.
func answerSize(out *wire.ScanResponse) int64 {
	n := int(unsafe.Sizeof(*out)) + len(out.Outcome) + len(out.ReasonCode) + len(out.Reason) + len(out.ScanID) +
		len(out.PolicyVersion)
	for i := range out.Findings {
		f := &out.Findings[i]
		n += int(unsafe.Sizeof(*f)) + len(f.Kind) + len(f.Scanner) + len(f.Severity) + len(f.Action)
	}
	for i := range out.ScannedBy {
		r := &out.ScannedBy[i]
		n += int(unsafe.Sizeof(*r)) + len(r.Scanner) + len(r.Version) + len(r.Digest) + len(r.Outcome) + len(r.Error)
	}
	return int64(n)
}
