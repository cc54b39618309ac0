package wire

// RevealRequest asks for the values behind the tokens of one session.
type RevealRequest struct {
	AgentID   string `json:"agent_id" yett:"required,name" doc:"The agent of the scan that made the tokens."`
	SessionID string `json:"session_id" yett:"required,name" doc:"The session of that scan. Tokens of other sessions stay as they are."`
	Text      string `json:"text" yett:"required" doc:"A text with tokens, such as \"[PII_EMAIL#…]\"."`
}

// RevealResponse is the text with the values.
type RevealResponse struct {
	Text     string `json:"text" doc:"The text. Where it is JSON, the values are escaped, and it stays JSON."`
	Revealed int    `json:"revealed" doc:"The number of tokens that the gateway replaced with their values."`
	Unknown  int    `json:"unknown" doc:"The number of tokens that are not of this session, or that were changed. They stay as they are."`
}

// AppendJSON appends the response.
func (r *RevealResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("text", r.Text)
	o.Int("revealed", int64(r.Revealed))
	o.Int("unknown", int64(r.Unknown))
	return o.Close()
}
