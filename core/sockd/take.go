package sockd

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// keptAnswer is the largest buffer that is used again, in bytes.
const keptAnswer = 64 << 10

// task is one message on its way. c.mu guards next and done; before it is queued it is serve's, while it runs the
// worker's, and once it is done whoever is in flush has it.
type task struct {
	c      *conn
	doc    exact.Doc
	size   int // of its line, and of its parsed form when that is long
	env    envelope
	op     *ops.Op
	cred   credential
	number uint64
	req    ops.Request
	ctx    ops.Deadline
	out    []byte
	says   *wire.AuthorizeResponse // the decision in out; nil for none
	once   bool                    // the write side is closed behind its answer
	stream *socketWriter           // begins behind its answer

	// who it counts for: its key or, when only the message itself has the key and nothing is urgent, its user
	holder string
	urgent bool // it has places of its own
	held   int64
	begun  bool // its connection counts it as running

	next *task
	done bool
}

var tasks = sync.Pool{New: func() any { return &task{out: make([]byte, 0, 1024)} }}

func newTask(c *conn) *task {
	t := tasks.Get().(*task)
	t.c, t.cred, t.number = c, c.cred, c.count
	return t
}

// shed lets go of a long message that is answered: its answer may wait long to be read.
func (t *task) shed() {
	if t.size <= freeBytes {
		return
	}
	t.doc, t.size = exact.Doc{}, 0
	t.env = envelope{id: strings.Clone(t.env.id), rpc: t.env.rpc, mute: t.env.mute}
	t.req = ops.Request{}
}

// recycle gives a task back. A stream may still look at the message that opened it.
func (t *task) recycle() {
	t.letGo()
	if t.stream != nil {
		return // it runs until the connection ends
	}
	if t.begun {
		t.c.guest.End()
		t.begun = false
	}
	if cap(t.out) > keptAnswer {
		t.out = make([]byte, 0, 1024)
	}
	t.shed()
	t.c, t.op, t.next, t.done, t.once, t.urgent, t.says, t.size = nil, nil, nil, false, false, false, nil, 0
	t.env, t.cred, t.req, t.out = envelope{}, credential{}, ops.Request{}, t.out[:0]
	tasks.Put(t)
}

// requestID is the connection's id and the message's number.
func (t *task) requestID() string {
	var b [64]byte
	return string(strconv.AppendUint(append(append(b[:0], t.c.id...), '-'), t.number, 10))
}

// takeLine understands one line. What can be answered at once is; the rest waits for dispatch. It is true for a message
// after which no other one is taken.
func (c *conn) takeLine(line []byte, long bool) (last bool) {
	if c.room == 0 {
		c.dispatch()
		c.awaitRoom()
	}
	c.room--
	c.count++
	t := newTask(c)
	resp, err := c.understand(t, line, long)
	// Public one-shot clients of govern wait for the end of the stream; others say hello or auth first.
	t.once = t.env.rpc && (t.env.op == opGovern || t.env.op == "") && !t.env.mute && !c.greeted
	switch {
	case err != nil && t.env.mute:
	case err != nil:
		t.out = t.env.appendError(t.out, err, t.env.deniedAs(t.op))
	case resp != nil && !t.env.mute:
		t.out = t.env.appendAnswer(t.out, resp)
	}
	c.order = append(c.order, t)
	if err == nil && resp == nil {
		c.run = append(c.run, t)
	} else {
		t.shed()
		c.refused = append(c.refused, t)
	}
	return t.once
}

// understand finds out what a line asks for. The result is an answer, an error, or neither: then t is to be run.
func (c *conn) understand(t *task, line []byte, long bool) (ops.Response, *sdk.Error) {
	if long {
		t.env = envelope{rpc: looksRPC(line)}
		if c.lines.starved {
			c.lines.starved = false
			return nil, sdk.Errf(sdk.CodeOverloaded, "there is no room for so long a line now (limits.bodies, "+
				"limits.bodies_per_key; before auth an eighth of limits.bodies for all); send auth first, or try again in a second")
		}
		return nil, sdk.Errf(sdk.CodeTooLarge, "the line is longer than the limit of %d bytes (%s and what is around it)",
			c.lines.limit, c.largest())
	}
	t.size = len(line)
	who := c.cred.id
	if who == "" {
		who = c.peer.user
	}
	done, err := c.s.set.Service.Parsing(c.s.base, who, len(line))
	if err != nil {
		t.env = envelope{rpc: looksRPC(line)}
		return nil, shown(err)
	}
	defer done()
	if err := t.doc.Parse(string(line), c.s.set.Limits.JSON()); err != nil {
		t.doc, t.env = exact.Doc{}, envelope{rpc: looksRPC(line)} // it may have grown far
		return nil, &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	// that of many short values is ten times its line, and the canonical form of some is longer
	if n := t.doc.Size() + t.doc.Grows(); n > freeBytes {
		t.size += n
	}
	refused := t.env.read(t.doc.Root())
	t.op = c.s.ops[t.env.op]
	if refused != nil {
		return nil, refused
	}
	if c.s.draining.Load() {
		return nil, &sdk.Error{Code: sdk.CodeDraining, Msg: "the server is going down; ask again in a second",
			More: map[string]string{"reason_code": sdk.ReasonDraining}}
	}
	switch t.env.op {
	case opHello:
		c.greeted = true
		if err := negotiate(t.env.body); err != nil {
			return nil, err
		}
		return &helloAnswer{"yett/" + c.s.set.Version, c.s.features}, nil
	case opAuth:
		c.greeted = true
		return c.authenticate(t)
	}
	return nil, c.check(t)
}

// largest names the limit that the longest line comes from.
func (c *conn) largest() string {
	if c.s.set.Limits.AuthorizeBody > c.s.set.Limits.ScanBody {
		return "limits.authorize_body"
	}
	return "limits.scan_body"
}

// check refuses what needs no key to be refused.
func (c *conn) check(t *task) *sdk.Error {
	if t.op == nil {
		return sdk.FieldErrf(sdk.CodeUnknownOperation, t.env.nameField(),
			"there is no such operation on the socket; there are %s%s %s", c.s.names, opHello, opAuth)
	}
	limit, name := c.s.set.Limits.AuthorizeBody, "limits.authorize_body"
	if t.op.Body == ops.ScanBody {
		limit, name = c.s.set.Limits.ScanBody, "limits.scan_body"
	}
	if n := len(t.env.body.Raw()); int64(n) > int64(limit) {
		return sdk.Errf(sdk.CodeTooLarge, "the message is %d bytes long, more than the limit of %d (%s)", n, limit, name)
	}
	if t.op.Stream.Open != nil && t.env.mute {
		t.env.mute = false // a stream that nothing announces could not be told from answers
		return sdk.FieldErrf(sdk.CodeBadRequest, "id", "a subscription needs an id")
	}
	t.countFor()
	if !c.s.inFlight.Enter(t.holder, t.urgent) {
		return sdk.Errf(sdk.CodeTooManyRequests, "more than %d requests at once, the last quarter of which is for keys "+
			"that have few (limits.in_flight)", c.s.set.Limits.InFlight)
	}
	if err := t.hold(); err != nil {
		c.s.inFlight.Leave(t.holder, t.urgent)
		return err
	}
	return nil
}

// countFor says who the task counts for. What is urgent counts for its key, also where only the message itself has it:
// a kill must not wait for other messages of its user.
func (t *task) countFor() {
	if t.op.Urgent {
		if key, _, err := t.c.keyOf(t); err == nil && t.op.UrgentFor(key) {
			t.holder, t.urgent = key.ID, true
			return
		}
	}
	if t.holder = t.cred.id; t.holder == "" {
		t.holder = t.c.peer.user
	}
}

// freeBytes is how long a message or an answer may be that holds nothing of the budget: the pipeline bounds such ones.
const freeBytes = 8 << 10

// hold takes what a long message holds until its answer is written, of its holder's share. All of its line counts,
// whatever of it the operation gets.
func (t *task) hold() *sdk.Error {
	own := 0 // the line's buffer lies in the same share until the next line is read
	if t.c.lineOf == t.holder {
		own = t.c.lines.held
	}
	return t.holdUpTo(t.size, int64(own))
}

// holdAnswer counts the answer to a read like a message: who asks for many and reads none must not hold them all.
func (t *task) holdAnswer() *sdk.Error { return t.holdMore(len(t.out)) }

// holdMore takes so many bytes, or what is left of a share that is smaller: an answer alone always fits.
func (t *task) holdMore(size int) *sdk.Error { return t.holdUpTo(size, 0) }

// holdUpTo is holdMore where the task has taken own bytes of its share in another way.
func (t *task) holdUpTo(size int, own int64) *sdk.Error {
	if size <= freeBytes {
		return nil
	}
	s := t.c.s
	own += t.held
	n := max(0, min(int64(size), int64(s.set.Limits.BodiesPerKey)-own, s.set.Limits.Large()-own))
	switch err := s.bodies.Take(t.holder, n); {
	case errors.Is(err, edge.ErrOneIsFull):
		return sdk.Errf(sdk.CodeTooManyRequests, "the unanswered messages of this key may hold %d bytes together, and "+
			"this one does not fit (limits.bodies_per_key)", s.set.Limits.BodiesPerKey)
	case err != nil:
		return sdk.Errf(sdk.CodeOverloaded, "the unanswered messages of all keys may hold %d bytes together, and this one "+
			"does not fit (limits.bodies); try again in a second", s.set.Limits.Bodies)
	}
	t.held += n
	return nil
}

// letGo gives back what was held.
func (t *task) letGo() {
	if t.held > 0 {
		t.c.s.bodies.Give(t.holder, t.held)
	}
	t.holder, t.held = "", 0
}

// nameField is the member that names the operation.
func (e *envelope) nameField() string {
	if e.rpc {
		return "method"
	}
	return "type"
}

// urgentScopes are those of keys whose auth comes before something urgent.
const urgentScopes = sdk.ScopeKill | sdk.ScopeApprove | sdk.ScopeGrants

// authenticate makes a key stand for all later messages that have none. A failure takes away what an earlier one gave.
func (c *conn) authenticate(t *task) (ops.Response, *sdk.Error) {
	c.cred = credential{tried: true}
	c.guest.Know(false)
	if !t.env.keyed {
		return nil, sdk.FieldErrf(sdk.CodeMissingField, "api_key", "api_key is required")
	}
	key, err := c.s.set.Service.KeyOf(t.env.key)
	if err != nil {
		err = plain(err)
		c.s.workers.Go(func() { c.s.set.Service.Refused(c.s.base, err, "socket", c.peer.text) }) // it may wait for the disk
		return nil, shown(err)
	}
	if err := c.begin(key, key.Scope()&urgentScopes != 0); err != nil {
		return nil, shown(err)
	}
	c.guest.End()
	c.cred.id = key.ID
	return &authAnswer{key.ID, key.Name, key.Scopes}, nil
}

// awaitRoom waits until another message may be taken.
func (c *conn) awaitRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n >= c.s.set.Pipeline {
		c.changed.Wait()
	}
	c.room = c.s.set.Pipeline - c.n
}

// dispatch queues what was taken, in order, and starts what is to be run.
func (c *conn) dispatch() {
	if len(c.order) == 0 {
		return
	}
	c.mu.Lock()
	for _, t := range c.order {
		if c.tail == nil {
			c.head = t
		} else {
			c.tail.next = t
		}
		c.tail = t
	}
	c.n += len(c.order)
	c.mu.Unlock()
	c.s.pool.start(c.s, c.run) // from here on they may be answered and used again: only refused may be touched
	for _, t := range c.refused {
		c.answered(t)
	}
	clear(c.order)
	clear(c.run)
	clear(c.refused)
	c.order, c.run, c.refused = c.order[:0], c.run[:0], c.refused[:0]
}
