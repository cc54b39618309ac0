package config

// Audit says what the log keeps of a call.
type Audit struct {
	Args string `koanf:"args" default:"redacted" enum:"digest|redacted|full" doc:"What is kept of a call's args: digest (a hash), redacted (secrets masked) or full."`
}

// reserved lists the keys that later versions will know.
func (Audit) reserved() []string { return []string{"retention", "subscribers"} }
