package wire

// AuditSubscribeRequest follows the audit log.
type AuditSubscribeRequest struct {
	FromSeq          int      `json:"from_seq,omitempty" doc:"The first record wanted; 0 starts with what comes next."`
	AgentID          string   `json:"agent_id,omitempty" yett:"name" doc:"Only records of this agent."`
	Types            []string `json:"types,omitempty" doc:"Only records of these types."`
	HeartbeatSeconds int      `json:"heartbeat_seconds,omitempty" doc:"A heartbeat line after so long without a record, 1 to 300; none if not given."`
}

// CallbackSubscribeRequest follows what happens to calls.
type CallbackSubscribeRequest struct {
	AgentID string   `json:"agent_id,omitempty" yett:"name" doc:"Only events of this agent."`
	Events  []string `json:"events,omitempty" doc:"Only these: decision, defer_created, defer_resolved, defer_expired, grant_added, grant_revoked, grant_consumed, kill, unkill."`
	FromSeq int      `json:"from_seq,omitempty" doc:"The first record wanted; 0 starts with what comes next."`
}

// SubscribeResponse opens a stream.
type SubscribeResponse struct {
	Subscribed bool   `json:"subscribed"`
	Stream     string `json:"stream,omitempty" doc:"callbacks, or absent for the audit log."`
	FromSeq    uint64 `json:"from_seq" doc:"The first record that the stream may bring."`
}

// AppendJSON appends the response.
func (r *SubscribeResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("subscribed", r.Subscribed)
	o.Opt("stream", r.Stream)
	o.Int("from_seq", int64(r.FromSeq))
	return o.Close()
}
