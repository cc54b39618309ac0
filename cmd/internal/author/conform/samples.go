package conform

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/log"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"github.com/yett-dev/yett/sdk/wire"
)

// check makes a well-formed check of a call. The deadline is far enough away not to matter.
func (r *run) check(id uint64, c Call) *pluginv1.CheckRequest {
	text, err := json.Marshal(c)
	if err != nil {
		text = []byte(c.ToolID) // only for the digest
	}
	digest, tool := sha256.Sum256(text), wire.ToolOf(c.ToolID, c.Operation)
	call := &pluginv1.Call{
		KeyId: "01CONFORM00000000000000000", KeyName: "conform", AgentId: "conform", SessionId: "conform-session",
		ToolId: tool, Operation: wire.OperationOf(tool, c.Operation),
		CallId: fmt.Sprintf("conform-%d", id), Args: c.Args, Context: c.Context,
		Digest: digest[:], TimeUnixNano: time.Now().UnixNano(),
	}
	for _, f := range []struct {
		to   *string
		from string
	}{{&call.AgentId, c.AgentID}, {&call.SessionId, c.SessionID}, {&call.KeyName, c.KeyName}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	return &pluginv1.CheckRequest{Id: id, DeadlineUnixNano: time.Now().Add(checkLimit).UnixNano(), Generation: generation,
		Call: call}
}

// unknownTool is a tool that no policy has heard of.
const unknownTool = "conform-unknown-7f3a/probe"

func (r *run) unknownCall(id uint64) *pluginv1.CheckRequest {
	return r.check(id, Call{ToolID: unknownTool, Operation: "probe",
		Args: json.RawMessage(`{"amount":12.50,"path":"/etc/hosts","note":"größer"}`)})
}

// suiteCalls are the calls that the suite makes of itself, all of them unknown to any policy.
var suiteCalls = []Call{
	{ToolID: unknownTool, Operation: "probe"},
	{ToolID: unknownTool, Operation: "probe", Args: json.RawMessage(`{}`), Context: json.RawMessage(`{}`)},
	{ToolID: unknownTool, Operation: "probe", Args: json.RawMessage(`{"amount":12.50,"big":12345678901234567890123,"deep":{"a":[1,null,true,"ü"]}}`), Context: json.RawMessage(`{"ticket":"T-1"}`)},
	{ToolID: "conform-unknown-7f3a", Args: json.RawMessage(`{"id":12345678901234567890}`)},
	{ToolID: "conform-ünknown/☃", Operation: "☃", AgentID: "agent-☃"},
}

// calls are the suite's and the author's.
func (r *run) calls() []Call {
	return append(suiteCalls[:len(suiteCalls):len(suiteCalls)], r.opts.Calls...)
}

func (r *run) text(id uint64, text string) *pluginv1.ScanRequest {
	return &pluginv1.ScanRequest{Id: id, DeadlineUnixNano: time.Now().Add(checkLimit).UnixNano(), Generation: generation,
		Text: []byte(text), ToolId: unknownTool, AgentId: "conform", ContentType: "text/plain"}
}

// auditLog makes batches of a log as the gateway would: real records with their place in the tree.
type auditLog struct {
	store string
	next  uint64
	tree  log.Tree
}

// newLog is an empty log of a store of its own.
func newLog() *auditLog { return &auditLog{store: "sto_CONFORM" + randomHex(8), next: 1} }

// batch makes the next n records; none makes a batch of one record that the filter kept back.
func (l *auditLog) batch(n int) *pluginv1.Batch {
	b := &pluginv1.Batch{StoreId: l.store, FirstSeq: l.next}
	for range max(n, 1) {
		line := l.record()
		leaf := sha256.Sum256(append([]byte{0}, line...))
		l.tree.Append(line, nil)
		if n > 0 {
			b.Records = append(b.Records, &pluginv1.Record{Seq: l.next, Json: line, LeafHash: leaf[:]})
		}
		l.next++
	}
	b.LastSeq = l.next - 1
	root := l.tree.Root()
	b.TreeRoot = root[:]
	return b
}

// gap makes the next n records ones that retention has removed.
func (l *auditLog) gap(n int) *pluginv1.Batch {
	b := l.batch(0)
	for range n - 1 {
		more := l.batch(0)
		b.LastSeq, b.TreeRoot = more.LastSeq, more.TreeRoot
	}
	b.Gap = &pluginv1.Gap{FirstSeq: b.FirstSeq, LastSeq: b.LastSeq, Reason: "retention"}
	return b
}

// record is one decision as the log has it.
func (l *auditLog) record() []byte {
	w := log.Begin(nil, l.store, l.next, time.Unix(1_700_000_000, int64(l.next)), "decision")
	w.Str("agent_id", "conform")
	w.Str("tool_id", unknownTool)
	w.Str("effect", "DENY")
	w.Str("reason_code", "UNMATCHED_DENY")
	return w.Close()
}
