package wire

// GrantAddRequest makes a standing grant: calls that a rule would defer are permitted while it lasts.
type GrantAddRequest struct {
	AgentID       string `json:"agent_id" yett:"required,name" doc:"The agent, or a pattern of agents. \"*\" matches within one segment between slashes, and \"**\" matches across segments."`
	ToolPattern   string `json:"tool_pattern" yett:"required,name" doc:"A pattern of tools. \"*\" matches within one segment between slashes, and \"**\" matches across segments."`
	TTLSeconds    int    `json:"ttl_seconds" yett:"required" doc:"How long the grant is valid, 1 to 2592000 (30 days)."`
	MaxUses       int    `json:"max_uses,omitempty" doc:"How many calls the grant permits. 0 means no limit."`
	SessionID     string `json:"session_id,omitempty" yett:"name,filled" doc:"The grant permits only calls of this session."`
	PolicyVersion string `json:"policy_version,omitempty" yett:"name,filled" doc:"The grant is valid only while this policy version is in force."`
	RuleID        string `json:"rule_id,omitempty" yett:"name,filled" doc:"The grant permits a call if this rule defers it and no other rule or step defers it. Without \"step\", the rule may be in any step."`
	Step          string `json:"step,omitempty" yett:"name,filled" doc:"The grant is only for the rule in this step. With \"step\", rule_id is required."`
	ArgsMatch     string `json:"args_match,omitempty" yett:"filled" doc:"A condition on the call, in CEL (Common Expression Language). A condition that ends in an error does not match. At most 2048 bytes."`
	IssuedBy      string `json:"issued_by,omitempty" yett:"name" doc:"A note. The issuer is the key that sends the request."`
	Note          string `json:"note,omitempty" doc:"A note on the reason, at most 1024 bytes."`
}

// Grant is a standing grant.
type Grant struct {
	ID            string   `json:"id"`
	AgentID       string   `json:"agent_id"`
	ToolPattern   string   `json:"tool_pattern"`
	Operation     string   `json:"operation,omitempty" doc:"The grant permits only calls with this operation. A grant has this member if it came with an approval and the tool's full name does not end with the operation."`
	SessionID     string   `json:"session_id,omitempty"`
	PolicyVersion string   `json:"policy_version,omitempty"`
	RuleID        string   `json:"rule_id,omitempty"`
	Rules         []string `json:"rules,omitempty" doc:"If the grant came with an approval: the rules that deferred the call. If the grant was made with \"step\": the rule of that step. The grant permits a call only if no other rule defers it. If no named rule deferred the call, the entry says what did: \"step NAME\" is a step whose verdict names no rule, \"failure of step NAME\" is a step that failed, and an empty text is the chain's default. If the gateway masked a rule name, the entry ends with a digest, so it differs from other entries. If a plugin gives a rule of its own a name in one of these forms, the gateway puts the name in quotes and adds a digest."`
	Steps         []string `json:"steps,omitempty" doc:"The step of each rule, in the same order as rules. Rules of the same name in two steps are two different rules."`
	ArgsMatch     string   `json:"args_match,omitempty"`
	ExpiresAt     string   `json:"expires_at"`
	MaxUses       int      `json:"max_uses" doc:"0 means no limit."`
	Uses          int      `json:"uses"`
	Status        string   `json:"status" doc:"\"live\", \"used_up\", \"expired\", \"revoked\" or \"issuer_revoked\". The last value says that all issuers are revoked, expired or killed, so the grant permits nothing."`
	IssuedBy      string   `json:"issued_by" doc:"The id of the key that made the grant."`
	IssuedByName  string   `json:"issued_by_name,omitempty" doc:"The name of the key whose id is issued_by."`
	Issuers       []string `json:"issuers" doc:"All keys that made or approved the grant."`
	Note          string   `json:"note,omitempty"`
	CreatedAt     string   `json:"created_at"`
	RevokedAt     string   `json:"revoked_at,omitempty"`
	RevokedBy     string   `json:"revoked_by,omitempty"`
}

// Members appends the grant's members.
func (g *Grant) Members(o *Writer) {
	o.Str("id", g.ID)
	o.Str("agent_id", g.AgentID)
	o.Str("tool_pattern", g.ToolPattern)
	o.Opt("operation", g.Operation)
	o.Opt("session_id", g.SessionID)
	o.Opt("policy_version", g.PolicyVersion)
	o.Opt("rule_id", g.RuleID)
	if len(g.Rules) > 0 {
		o.Strs("rules", g.Rules)
	}
	if len(g.Steps) > 0 {
		o.Strs("steps", g.Steps)
	}
	o.Opt("args_match", g.ArgsMatch)
	o.Str("expires_at", g.ExpiresAt)
	o.Int("max_uses", int64(g.MaxUses))
	o.Int("uses", int64(g.Uses))
	o.Str("status", g.Status)
	o.Str("issued_by", g.IssuedBy)
	o.Opt("issued_by_name", g.IssuedByName)
	o.Strs("issuers", g.Issuers)
	o.Opt("note", g.Note)
	o.Str("created_at", g.CreatedAt)
	o.Opt("revoked_at", g.RevokedAt)
	o.Opt("revoked_by", g.RevokedBy)
}

// GrantAddResponse is the grant just made.
type GrantAddResponse struct {
	OK      bool   `json:"ok"`
	Grant   Grant  `json:"grant"`
	Warning string `json:"warning,omitempty" doc:"The request was successful, but its effect may not be what you wanted. The text says why."`
}

// AppendJSON appends the response.
func (r *GrantAddResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	o.Object("grant", r.Grant.Members)
	o.Opt("warning", r.Warning)
	return o.Close()
}

// GrantRevokeRequest ends a standing grant.
type GrantRevokeRequest struct {
	GrantID string `json:"grant_id" yett:"required,name"`
}

// OKResponse says that it was done.
type OKResponse struct {
	OK bool `json:"ok"`
}

// AppendJSON appends the response.
func (r *OKResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	return o.Close()
}

// GrantListRequest lists standing grants that the key may see, newest first.
type GrantListRequest struct {
	AgentID        string `json:"agent_id,omitempty" yett:"name,query" doc:"Only grants that cover this agent."`
	IncludeExpired bool   `json:"include_expired,omitempty" yett:"query" doc:"Also grants that are expired, used up or revoked."`
	Limit          int    `json:"limit,omitempty" yett:"query" doc:"1 to 1000; the default is 100."`
	Cursor         string `json:"cursor,omitempty" yett:"name,query" doc:"next_cursor of the previous page."`
}

// GrantListResponse is one page of grants.
type GrantListResponse struct {
	OK         bool    `json:"ok"`
	Grants     []Grant `json:"grants"`
	NextCursor string  `json:"next_cursor,omitempty" doc:"Absent on the last page."`
}

// AppendJSON appends the response.
func (r *GrantListResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Bool("ok", r.OK)
	o.List("grants", len(r.Grants), func(i int, w *Writer) { r.Grants[i].Members(w) })
	o.Opt("next_cursor", r.NextCursor)
	return o.Close()
}
