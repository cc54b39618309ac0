package wire

// WhoamiRequest asks which key the caller has.
type WhoamiRequest struct{}

// WhoamiResponse says what a key may do. It never has the key's value.
type WhoamiResponse struct {
	KeyID       string   `json:"key_id" doc:"The id that is part of the key's value."`
	Name        string   `json:"name"`
	Environment string   `json:"environment,omitempty"`
	Scopes      []string `json:"scopes"`
	Agents      []string `json:"agents" doc:"Patterns of agents. An empty list means every agent."`
	Redeem      string   `json:"redeem,omitempty" doc:"\"explicit\" if the gateway treats \"redeem\":\"auto\" from this key as \"explicit\". Absent if calls of this key may choose."`
	ExpiresAt   string   `json:"expires_at,omitempty" doc:"When the key expires, or when a rolled key ends."`
}

// AppendJSON appends the response.
func (r *WhoamiResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("key_id", r.KeyID)
	o.Str("name", r.Name)
	o.Opt("environment", r.Environment)
	o.Strs("scopes", r.Scopes)
	o.Strs("agents", r.Agents)
	o.Opt("redeem", r.Redeem)
	o.Opt("expires_at", r.ExpiresAt)
	return o.Close()
}
