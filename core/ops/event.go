package ops

import (
	"fmt"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk/exact"
)

// event is one audit record on its way to streams. It is read once and formatted once, however many streams it goes to.
// It is valid during the call that it is handed to; strings taken out of it stay valid.
type event struct {
	Seq     uint64
	Type    string      // of the record: decision, scan, defer_created, kill, …
	AgentID string      // "" for a record of no agent; a pattern in the records of grants and of kills of agents
	Body    exact.Value // the record

	head   log.Head
	record []byte
	doc    exact.Doc
	lines  [slots]cached
}

// slot is a format that more than one stream may use: its line is made once for an event.
type slot int

// The formats.
const (
	slotAudit       slot = iota // audit_subscribe
	slotCallback                // callback_subscribe
	slotCallbackOwn             // callback_subscribe of the key that asked
	slotAction                  // GET /v1/events

	slotAuditNameless    // of a kill, to a key that must not see whom it names
	slotCallbackNameless // likewise
	slots
)

type cached struct {
	made bool
	line []byte
}

// recordLimits let every record through that was written: it was within the limits of its request then.
var recordLimits = exact.Limits{Depth: 1 << 12, Tokens: 1 << 26}

// peek takes in as much of a record as says whom it may concern: Seq, Type and AgentID. The rest is there after load,
// and only as long as record is.
func (e *event) peek(seq uint64, record []byte) error {
	for i := range e.lines {
		e.lines[i].made = false
	}
	e.Seq, e.Body, e.record = seq, exact.Value{}, record
	ok := e.head.Peek(record)
	typ, agent := e.head.Type, e.head.AgentID
	if !ok { // not as records are written: let the parser say what it is
		if err := e.load(); err != nil {
			return err
		}
		typ, agent = []byte(e.Str("type")), []byte(e.Str("agent_id"))
	}
	if len(typ) == 0 {
		return fmt.Errorf("record %d has no type", seq)
	}
	if e.Type != string(typ) {
		e.Type = string(typ)
	}
	if e.AgentID != string(agent) {
		e.AgentID = string(agent)
	}
	return nil
}

// load reads the record whole, once.
func (e *event) load() error {
	if e.Body.Exists() {
		return nil
	}
	if err := e.doc.Parse(string(e.record), recordLimits); err != nil {
		return fmt.Errorf("record %d: %w", e.Seq, err)
	}
	if e.Body = e.doc.Root(); e.Body.Kind() != exact.Object {
		return fmt.Errorf("record %d is %s", e.Seq, e.Body.Kind())
	}
	return nil
}

// read takes in one record whole.
func (e *event) read(seq uint64, record []byte) error {
	if err := e.peek(seq, record); err != nil {
		return err
	}
	return e.load()
}

// broad reports whether the event may be about more agents than one.
func (e *event) broad() bool { return e.AgentID == "" || strings.Contains(e.AgentID, "*") }

// Str is a string member of the record, "" if it is not there or is something else.
func (e *event) Str(name string) string { return e.Body.Get(name).Str() }

// Get is a member of the record, or Absent.
func (e *event) Get(name string) exact.Value { return e.Body.Get(name) }

// Time is when the record was written; zero if it does not say.
func (e *event) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.Str("timestamp"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// once appends the event's line of that format to dst; write makes it when no stream has asked for it yet.
func (e *event) once(s slot, dst []byte, write func(dst []byte, e *event) []byte) []byte {
	c := &e.lines[s]
	if !c.made {
		c.line, c.made = write(c.line[:0], e), true
	}
	return append(dst, c.line...)
}
