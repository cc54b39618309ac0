package wire

// KillRequest stops, or with undo lets go on, everything of one agent, session, key or tool, or everything.
type KillRequest struct {
	AgentID string `json:"agent_id,omitempty" yett:"name" doc:"The agent to stop, or with \"undo\" the agent whose kill ends. The member means the same as the scope \"agent\" with this agent as the target."`
	Scope   string `json:"scope,omitempty" yett:"name" doc:"\"global\", \"agent\", \"session\", \"key\" or \"tool\"."`
	Target  string `json:"target,omitempty" yett:"name" doc:"What to stop: the name or a pattern of an agent, a session or a tool, or the id of a key. With the scope \"global\", a target is not allowed."`
	Reason  string `json:"reason,omitempty" doc:"The gateway records this text. At most 1024 bytes."`
	Undo    bool   `json:"undo,omitempty" doc:"true ends the kill of this target."`
}

// Killed is one kill in effect, or one that was undone.
type Killed struct {
	Scope  string `json:"scope"`
	Target string `json:"target,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by"`
	ByName string `json:"by_name,omitempty" doc:"The name of the key whose id is \"by\"."`
	At     string `json:"at"`
	Active bool   `json:"active" doc:"false after an undo."`
}

// Members appends the kill's members.
func (k *Killed) Members(o *Writer) {
	o.Str("scope", k.Scope)
	o.Opt("target", k.Target)
	o.Opt("reason", k.Reason)
	o.Str("by", k.By)
	o.Opt("by_name", k.ByName)
	o.Str("at", k.At)
	o.Bool("active", k.Active)
}

// KillResponse says what is stopped now.
type KillResponse struct {
	OK            bool   `json:"ok"`
	Killed        Killed `json:"killed"`
	PendingDenied int    `json:"pending_denied" doc:"The number of deferred calls that the kill denied."`
	Warning       string `json:"warning,omitempty" doc:"The request was successful, but its effect may not be what you wanted. The text says why."`
}

// AppendJSON appends the response.
func (r *KillResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	o.Object("killed", r.Killed.Members)
	o.Int("pending_denied", int64(r.PendingDenied))
	o.Opt("warning", r.Warning)
	return o.Close()
}

// KillListRequest lists the kills in effect.
type KillListRequest struct {
	Cursor string `json:"cursor,omitempty" yett:"name,query" doc:"next_cursor of the previous page."`
}

// KillListResponse is one page of the kills in effect, by scope and target.
type KillListResponse struct {
	OK    bool     `json:"ok"`
	Kills []Killed `json:"kills"`
	Next  string   `json:"next_cursor,omitempty" doc:"Absent on the last page."`
}

// NextCursor is the cursor of the page that follows, "" if there is none.
func (r *KillListResponse) NextCursor() string { return r.Next }

// AppendJSON appends the response.
func (r *KillListResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	o.List("kills", len(r.Kills), func(i int, w *Writer) { r.Kills[i].Members(w) })
	o.Opt("next_cursor", r.Next)
	return o.Close()
}
