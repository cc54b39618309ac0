package wire

// AuditSubscribeRequest follows the audit log.
type AuditSubscribeRequest struct {
	FromSeq          int      `json:"from_seq,omitempty" doc:"The \"seq\" of the first record to send. With 0, the stream begins with the next new record."`
	AgentID          string   `json:"agent_id,omitempty" yett:"name" doc:"Only records of this agent."`
	Types            []string `json:"types,omitempty" doc:"Only records of these types."`
	HeartbeatSeconds int      `json:"heartbeat_seconds,omitempty" doc:"The gateway sends a heartbeat line after this many seconds without a record, 1 to 300. If the member is absent, there are no heartbeats."`
}

// CallbackSubscribeRequest follows what happens to calls.
type CallbackSubscribeRequest struct {
	AgentID string   `json:"agent_id,omitempty" yett:"name" doc:"Only events of this agent."`
	Events  []string `json:"events,omitempty" doc:"Only these events. The events are \"decision\", \"defer_created\", \"defer_resolved\", \"defer_expired\", \"grant_added\", \"grant_revoked\", \"grant_consumed\", \"kill\" and \"unkill\"."`
	FromSeq int      `json:"from_seq,omitempty" doc:"The \"seq\" of the first record to send. With 0, the stream begins with the next new record."`
}

// SubscribeResponse opens a stream.
type SubscribeResponse struct {
	Subscribed bool   `json:"subscribed"`
	Stream     string `json:"stream,omitempty" doc:"The value is \"callbacks\" for callback_subscribe. The member is absent for audit_subscribe."`
	FromSeq    uint64 `json:"from_seq" doc:"The \"seq\" of the first record that the stream can send."`
}

// AppendJSON appends the response.
func (r *SubscribeResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("subscribed", r.Subscribed)
	o.Opt("stream", r.Stream)
	o.Int("from_seq", int64(r.FromSeq))
	return o.Close()
}
