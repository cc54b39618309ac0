package ops

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/log/follow"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Log is what streams need of the audit log.
type Log interface {
	follow.Log
	// ID identifies the store in every record.
	ID() string
}

// subOptions say what a stream brings. Its functions run on the pump's goroutine, one event after another: they must
// not wait, and must not keep the event.
type subOptions struct {
	from uint64 // first record wanted; 0 = what comes next
	// without from: begin with the last n wanted events that are there already, as far back as backlogReach and
	// backlogBytes go
	backlog int
	agent   string // if not "": events that are about another agent alone do not come, without want being asked

	types  []string // if any: events of other types do not come, without want being asked
	want   func(e *event) bool
	format func(dst []byte, e *event) []byte // appends whole lines
	// asked about every kill: why the stream ends with it, "" if it does not; nil = none ends it
	ends func(e *event) string

	heartbeat time.Duration                                          // a line when nothing was sent for so long; 0 = none
	beat      func(dst []byte, seq uint64, now time.Time) []byte     // nil = the line of audit_subscribe
	closing   func(dst []byte, reason string, lastSeq uint64) []byte // nil = a line of JSON; may append nothing
	// the first line, where retention has removed the records up to lastSeq that were asked for; nil = first says so
	gone func(dst []byte, lastSeq uint64) []byte

	first *wire.SubscribeResponse // the opening answer, nil for none; its FromSeq is filled in
}

// passes reports whether want is to be asked about an event. It looks at what peek has found only.
func (o *subOptions) passes(e *event) bool {
	return (len(o.types) == 0 || slices.Contains(o.types, e.Type)) && (o.agent == "" || o.agent == e.AgentID || e.broad())
}

// hub brings the log to streams. One goroutine, the pump, reads every record once, asks the streams and fills their
// buffers; it runs while there are streams.
type hub struct {
	log Log
	now func() time.Time
	max int // streams per key

	times func() store.Times // what keys end by

	poke chan struct{} // a stream came, went, or has room again
	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex // never held while a record is looked at
	perKey  map[string]int
	joining []*subscriber
	running bool
	closed  bool
}

func newHub(set *Settings) *hub {
	db := set.Store
	return &hub{log: set.Log, now: set.Now, max: set.Limits.StreamsPerKey, times: func() store.Times { return db.Times() },
		poke: make(chan struct{}, 1), quit: make(chan struct{}), perKey: map[string]int{}}
}

// Close ends all streams and waits until nothing reads the store any more. Call it before the store is closed.
func (s *Service) Close() {
	h := s.hub
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.quit)
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// subscribe opens a stream for the request's key. The stream ends by itself when the key is revoked or expires, when
// the server drains, and with an event that o.ends names.
func (s *Service) subscribe(r *Request, o subOptions) (Stream, error) {
	h := s.hub
	if h.log == nil {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "subscribe", Err: errors.New("there is no log to follow")}
	}
	size := h.log.Seq() // before kills are looked at: one that comes meanwhile ends the stream with its record
	if err := s.notKilled(r.Key, o.agent); err != nil {
		return nil, err
	}
	if o.from > size+1 {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "from_seq",
			"from_seq is %d, but the log ends with %d: the largest that can be asked for is %d", o.from, size, size+1)
	}
	if err := h.enter(r.Key); err != nil {
		return nil, err
	}
	from := o.from
	if from == 0 {
		var err error
		if from, err = s.begin(r, size, &o); err != nil {
			h.leave(r.Key)
			return nil, err
		}
	}
	asked := from
	from = max(from, h.log.First())
	if o.first != nil {
		o.first.FromSeq = from
	}
	u := newSubscriber(h, r, o, from, size)
	if from > asked && o.gone != nil {
		u.say(o.gone(nil, from-1), from-1)
	}
	if err := h.join(u); err != nil {
		h.leave(r.Key)
		return nil, err
	}
	return u, nil
}

// begin is where a stream begins that asks for no record. Its backlog is a list like any other: few are read at once.
func (s *Service) begin(r *Request, size uint64, o *subOptions) (uint64, error) {
	if o.backlog == 0 {
		return size + 1, nil
	}
	leave, err := s.pages.enter(r)
	if err != nil {
		return 0, err
	}
	defer leave()
	from, err := s.hub.backlog(size, o)
	if err != nil {
		return 0, &sdk.Error{Code: sdk.CodeInternal, Op: "read the log", Err: err}
	}
	return from, nil
}

// enter counts a key's streams.
func (h *hub) enter(k *store.Key) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.perKey[k.ID] >= h.max {
		return sdk.Errf(sdk.CodeTooManyRequests, "this key has %d streams open already (limits.streams_per_key)", h.max)
	}
	h.perKey[k.ID]++
	return nil
}

func (h *hub) leave(k *store.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.perKey[k.ID]--; h.perKey[k.ID] <= 0 {
		delete(h.perKey, k.ID)
	}
}

// join hands a stream to the pump, and starts the pump if none runs.
func (h *hub) join(u *subscriber) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return sdk.Errf(sdk.CodeDraining, "the server is going down")
	}
	h.joining = append(h.joining, u)
	if !h.running {
		h.running = true
		h.wg.Add(1)
		go h.run()
	}
	h.nudge()
	return nil
}

func (h *hub) nudge() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

// How far back a stream's backlog is looked for: so many records, and no more than so many bytes of them.
const (
	backlogReach = 4096
	backlogBytes = 8 << 20
)

var (
	errEnough = errors.New("enough")
	errFar    = errors.New("too far back")
)

// backlog is the first record of a stream that is to begin with the last events before now.
func (h *hub) backlog(size uint64, o *subOptions) (uint64, error) {
	var e event
	reach, left := min(size, backlogReach), backlogBytes
	found := []uint64{} // in order, the newest last
	for end, step := size+1, uint64(4); o.backlog > len(found) && reach > 0; step *= 4 {
		step = min(step, reach)
		begin := end - step
		var here []uint64
		err := h.log.Records(begin, func(seq uint64, record []byte) error {
			if seq >= end {
				return errEnough
			}
			if left -= len(record); left < 0 {
				return errFar
			}
			if err := e.peek(seq, record); err != nil || !o.passes(&e) {
				return err
			}
			if err := e.load(); err != nil {
				return err
			}
			if o.want(&e) {
				here = append(here, seq)
			}
			return nil
		})
		if errors.Is(err, errFar) {
			break
		}
		if err != nil && !errors.Is(err, errEnough) {
			return 0, err
		}
		found = append(here, found...)
		end, reach = begin, reach-step
	}
	if len(found) == 0 {
		return size + 1, nil
	}
	return found[max(0, len(found)-o.backlog)], nil
}
