package store

import (
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Scanned records one scan.
type Scanned struct {
	Key       *Key
	By        Who
	ScanID    string
	AgentID   string
	SessionID string
	ToolID    string
	Bytes     int
	JSON      bool // it came as a JSON value
	Outcome   string
	Code      string
	Reason    string
	Policy    string
	Findings  []ScannedFinding
	Receipts  []wire.Receipt
	LatencyUS int64
	Stream    *ScannedPiece // nil: whole outputs
	Outputs   []ScannedOutput
	Began     uint64 // of whole outputs: what Store.Began was when their scan began

	Killed bool // out: a kill covers the scan, or one of Outputs, so it is recorded as denied
}

// ScannedOutput is one of several outputs that were sent at once. Such a scan has no tool of its own: ToolID says what
// tool they have in common, if any.
type ScannedOutput struct {
	ToolID  string
	Bytes   int
	JSON    bool   // it came as a JSON value
	Hash    string // keyed, of the text
	Outcome string
	Code    string
	Reason  string

	Killed bool // out: a kill covers it, so it is recorded as denied
}

// ScannedPiece says which piece of a stream was scanned.
type ScannedPiece struct {
	ID       string
	Offset   int
	Final    bool
	Settled  int    // bytes of the stream that all answers so far stand for
	Released int    // bytes that all answers so far gave
	Before   [2]int // Settled and Released before this piece: what holds when it is denied
}

// killed says whether a kill covers the scan now, or did since it began. A stream looks for past ones itself.
func (c *Scanned) killed(tx *tx) bool {
	if c.Stream != nil {
		return tx.s.Killed(c.Key, c.AgentID, c.SessionID, c.ToolID) != nil
	}
	if len(c.Outputs) == 0 {
		return tx.s.KilledSince(c.Began, c.Key, c.AgentID, c.SessionID, c.ToolID) != nil
	}
	some := false
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if o.Killed = tx.s.KilledSince(c.Began, c.Key, c.AgentID, c.SessionID, o.ToolID) != nil; o.Killed {
			o.Outcome, o.Code, o.Reason, some = "DENIED", sdk.ReasonKillSwitch, killedSince, true
		}
	}
	return some
}

const killedSince = "a kill is in effect, or was since the scan began"

// denied makes the record that of a denial by a kill. Of several outputs, the first that is denied says why all are.
func (c *Scanned) denied() {
	for i := range c.Outputs {
		if o := &c.Outputs[i]; o.Outcome == "DENIED" {
			c.Outcome, c.Code, c.Reason = o.Outcome, o.Code, o.Reason
			return
		}
	}
	c.Outcome, c.Code, c.Reason = "DENIED", sdk.ReasonKillSwitch, killedSince
	if c.Stream == nil {
		return
	}
	c.Stream.Settled, c.Stream.Released = c.Stream.Before[0], c.Stream.Before[1]
}

// ScannedFinding is a finding as the log keeps it: where and what kind, with a keyed hash of the text, never the text.
type ScannedFinding struct {
	Kind, Scanner, Severity, Action string
	Output                          int // of Outputs, the one that it is in
	Start, End                      int
	Hash                            string
	Shadow                          bool // of a step in shadow mode: without effect
}

func (c *Scanned) apply(tx *tx) error {
	if err := tx.live(c.Key); err != nil {
		return err
	}
	if c.Killed = c.killed(tx); c.Killed {
		c.denied()
	}
	tx.touch(c.Key)
	o := tx.record("scan")
	c.By.write(&o)
	o.Str("scan_id", c.ScanID)
	o.Str("agent_id", c.AgentID)
	o.Str("session_id", c.SessionID)
	o.Str("tool_id", c.ToolID)
	o.Int("bytes", int64(c.Bytes))
	o.True("json", c.JSON)
	if p := c.Stream; p != nil {
		o.Str("stream_id", p.ID)
		o.Int("offset", int64(p.Offset))
		o.Bool("final", p.Final)
		o.Int("settled", int64(p.Settled))
		o.Int("released", int64(p.Released))
	}
	if len(c.Outputs) > 0 {
		o.List("outputs", len(c.Outputs), func(i int, w *wire.Writer) { c.Outputs[i].members(w) })
	}
	o.Str("outcome", c.Outcome)
	o.Str("reason_code", c.Code)
	o.Opt("reason", c.Reason)
	o.Str("policy_version", c.Policy)
	o.Int("latency_us", c.LatencyUS)
	o.List("findings", len(c.Findings), func(i int, w *wire.Writer) {
		f := &c.Findings[i]
		if len(c.Outputs) > 0 {
			w.Int("index", int64(f.Output))
		}
		w.Str("kind", f.Kind)
		w.Str("scanner", f.Scanner)
		w.Int("start", int64(f.Start))
		w.Int("end", int64(f.End))
		w.Str("severity", f.Severity)
		w.Str("action", f.Action)
		w.Str("hash", f.Hash)
		if f.Shadow {
			w.Bool("shadow", true)
		}
	})
	o.List("scanned_by", len(c.Receipts), func(i int, w *wire.Writer) { c.Receipts[i].Members(w) })
	tx.end(o)
	return nil
}

func (s *ScannedOutput) members(w *wire.Writer) {
	w.Str("tool_id", s.ToolID)
	w.Int("bytes", int64(s.Bytes))
	w.True("json", s.JSON)
	w.Str("hash", s.Hash)
	w.Str("outcome", s.Outcome)
	w.Str("reason_code", s.Code)
	w.Opt("reason", s.Reason)
}
