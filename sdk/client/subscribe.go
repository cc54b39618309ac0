package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Record is one line of the audit log, or one callback.
type Record struct {
	Seq       uint64          // its place in the log
	Type      string          // type of an audit record, event_type of a callback
	Timestamp string          // RFC 3339
	Raw       json.RawMessage // the whole line
}

// Text is a member that is a string: agent_id, tool_id, effect, reason_code… "" when it is none or not there.
func (r *Record) Text(name string) string {
	v, err := parse(string(r.Raw))
	if err != nil {
		return ""
	}
	return v.Get(name).Str()
}

// heartbeat is how often the server is asked for a sign of life, and after three times that a silent connection is
// lost.
const heartbeat = 15 * time.Second

// Audit follows the audit log. On the socket only; needs scope audit. in.FromSeq is the first record wanted, 0 starts
// with what comes next. ctx is for connecting; the stream lives until Close. An *Error that refuses (a revoked key, a
// FromSeq beyond the log's end) ends it.
func (c *Client) Audit(ctx context.Context, in wire.AuditSubscribeRequest) (*Stream[Record], error) {
	if in.HeartbeatSeconds == 0 {
		in.HeartbeatSeconds = int(heartbeat / time.Second)
	}
	sub := &subscription{op: "audit_subscribe", from: uint64(max(in.FromSeq, 0)),
		quiet: 3 * time.Duration(in.HeartbeatSeconds) * time.Second}
	sub.body = func(from uint64) ([]byte, error) {
		next := in
		next.FromSeq = int(from)
		return encode(next)
	}
	return c.subscribe(ctx, sub, in.FromSeq)
}

// Callbacks follows what happens to calls: decisions, defers, grants, kills. On the socket only; needs scope audit, or
// authorize and then shows the agents that the key acts as. Everything else is as for Audit.
func (c *Client) Callbacks(ctx context.Context, in wire.CallbackSubscribeRequest) (*Stream[Record], error) {
	sub := &subscription{op: "callback_subscribe", from: uint64(max(in.FromSeq, 0))}
	sub.body = func(from uint64) ([]byte, error) {
		next := in
		next.FromSeq = int(from)
		return encode(next)
	}
	return c.subscribe(ctx, sub, in.FromSeq)
}

func (c *Client) subscribe(ctx context.Context, sub *subscription, from int) (*Stream[Record], error) {
	switch {
	case c.closed.Load():
		return nil, ErrClosed
	case c.socket == nil:
		return nil, &TransportError{Op: sub.op, Needs: "Socket"}
	case from < 0:
		return nil, fieldErr(sdk.CodeInvalidField, "from_seq", "must not be negative")
	}
	sub.link = c.socket
	s, err := stream(ctx, c, sub.open)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sub.op, err)
	}
	return s, nil
}

// subscription is where a stream stands: what its next connection has to ask for. It is one goroutine's at a time.
type subscription struct {
	link  *socketLink
	op    string
	body  func(from uint64) ([]byte, error)
	quiet time.Duration // a connection that is silent for so long is lost; 0: it may be

	from  uint64 // the first record that is still wanted; 0 as long as that is what comes next
	store string // the log's id; another one is another log
	told  bool   // a gap line was the last that came
}

// open connects and subscribes.
func (s *subscription) open(ctx context.Context) (feed[Record], error) {
	body, err := s.body(s.from)
	if err != nil {
		return nil, err
	}
	c, err := s.link.handshake(ctx)
	if err != nil {
		return nil, err
	}
	f := &lines{sub: s, conn: c}
	stop := context.AfterFunc(ctx, f.close)
	err = f.subscribe(body)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// lines is one connection of a subscription.
type lines struct {
	sub  *subscription
	conn *conn
	gap  *GapError // to be told before the first record
}

func (f *lines) close() { f.conn.nc.Close() }

func (f *lines) subscribe(body []byte) error {
	if _, err := f.conn.nc.Write(message(f.sub.op, `"s"`, body)); err != nil {
		return lostErr(err, false)
	}
	root, err := f.line()
	if err != nil {
		return err
	}
	first, ok := root.Get("from_seq").Decimal().Int64()
	if !root.Get("subscribed").Bool() || !ok || first < 0 {
		return malformed("the subscription is not confirmed")
	}
	wanted := f.sub.from
	if wanted != 0 && uint64(first) > wanted {
		f.gap = &GapError{From: wanted, To: uint64(first) - 1}
	}
	if wanted == 0 || f.gap != nil {
		f.sub.from = max(uint64(first), 1)
	}
	return nil
}

// line reads one line; an error line is an error.
func (f *lines) line() (exact.Value, error) {
	if f.sub.quiet > 0 {
		f.conn.nc.SetReadDeadline(time.Now().Add(f.sub.quiet))
	}
	text, err := readLine(f.conn.in)
	if errors.Is(err, ErrMalformed) {
		return exact.Value{}, err
	}
	if err != nil {
		return exact.Value{}, lostErr(err, false)
	}
	root, err := parse(text)
	if err != nil {
		return root, err
	}
	// a record may say ok too
	if ok := root.Get("ok"); ok.Kind() == exact.Bool && !ok.Bool() && !root.Get("seq").Exists() {
		return root, lineError(root)
	}
	return root, nil
}

// next is the next record that was not delivered yet.
func (f *lines) next() (Record, error) {
	if gap := f.gap; gap != nil {
		f.gap = nil
		return Record{}, gap
	}
	for {
		root, err := f.line()
		if err != nil {
			return Record{}, err
		}
		r, err := f.sub.sortLine(root)
		if err != nil || r.Seq != 0 {
			return r, err
		}
	}
}

// sortLine sorts one line: a record that is new, a record of Seq 0 for what is not to be delivered, or the end.
func (s *subscription) sortLine(root exact.Value) (Record, error) {
	kind := root.Get("type").Str()
	switch kind {
	case "heartbeat":
		return Record{}, nil
	case "closing":
		return Record{}, &closing{root.Get("reason").Str()}
	case "gap":
		return Record{}, s.gapLine(root)
	}
	if event := root.Get("event_type").Str(); event != "" {
		kind = event
	}
	seq, ok := root.Get("seq").Decimal().Int64()
	switch store := root.Get("store_id").Str(); {
	case kind == "" || !ok || seq < 1:
		return Record{}, malformed("a line that is neither a record nor a sign")
	case store != "" && s.store != "" && store != s.store &&
		(kind != "restored" || root.Get("from_store_id").Str() != s.store): // else it was restored from a backup there
		return Record{}, malformed("the server has another log now: %.64q instead of %.64q", store, s.store)
	case store != "":
		s.store = store
	}
	if uint64(seq) < s.from {
		return Record{}, nil // delivered before the connection was lost
	}
	s.from, s.told = uint64(seq)+1, false
	return Record{Seq: uint64(seq), Type: kind, Timestamp: root.Get("timestamp").Str(), Raw: json.RawMessage(root.Raw())},
		nil
}

// gapLine cuts a reader off that was too slow: what it missed comes after resuming. Only when the server says the same
// again right after that are the records gone.
func (s *subscription) gapLine(root exact.Value) error {
	last, ok := root.Get("last_seq").Decimal().Int64()
	if !ok || last < 0 {
		return malformed("a gap without last_seq")
	}
	if !s.told || uint64(last) < s.from {
		s.told = true
		return &closing{"it was read too slowly"}
	}
	gap := &GapError{From: s.from, To: uint64(last)}
	s.from, s.told = uint64(last)+1, false
	return gap
}
