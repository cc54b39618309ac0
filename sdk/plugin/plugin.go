// Package plugin is the author's side of a process plugin: a program that Yett starts and asks for decisions
// (Authorizer), looks through texts with (Scanner) or hands the audit log to (Subscriber). main's whole body is a call
// of Serve. The package owns the handshake, the gRPC services of sdk/proto/v1, panics, health, draining and logs;
// requests come from the host over a Unix socket, answers go back over it, logs go to stderr. It never lets a failed
// check look like a permit: a panic, a late answer or a verdict that breaks a rule is sent as an error, and the host
// does what its operator wrote.
//
// In a process that a host started (CookieKey is in its environment) os.Stdout is stderr from the start, since the host
// reads the handshake from stdout. README.md is the guide.
package plugin

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// What the host and a plugin agree on before they speak gRPC. The cookie is no secret: it tells a start by a host from
// one by hand.
const (
	CookieKey       = pluginv1.CookieKey
	CookieValue     = pluginv1.CookieValue
	ProtocolVersion = pluginv1.ProtocolVersion
)

// Info says what a plugin is. It holds constants: Serve reads it once.
type Info struct {
	Name          string // 1 to 64 of a-z 0-9 . _ -
	Version       string // 1 to 64 printable characters
	Description   string // one line, at most 1 024 bytes
	ConfigSchema  string // JSON Schema (2020-12) of the settings; "" takes none
	ExampleConfig string // JSON object with which the plugin runs as it is; "" is {}
	Secrets       []Secret
	// CacheKeyFields says on which fields of a call an answer with a TTL depends: key_id key_name agent_id session_id
	// tool_id operation args context, or args.NAME and context.NAME for one member. Empty: answers are never cached.
	CacheKeyFields []string
	MaxInFlight    int           // calls at once at most, 1 to 4 096; 0 leaves it to the operator
	Findings       []FindingKind // scanners: what they may report
}

// Secret is one secret that a plugin takes.
type Secret struct {
	Name        string // 1 to 64 of a-z A-Z 0-9 . _ -
	Required    bool
	Description string // one line for the operator
}

// FindingKind is one kind of finding that a scanner may report.
type FindingKind struct {
	Kind        string // upper case with underscores, such as SECRET_ACME; 1 to 64 of A-Z 0-9 _
	Description string
}

// Plugin is what Serve takes: an Authorizer, a Scanner or a Subscriber.
type Plugin interface{ bind(p *parts) error }

// Authorizer decides calls. Validate, Configure, Health and Close may be nil. Each function may panic: the call it was
// asked for fails, the process lives.
type Authorizer struct {
	Info Info
	// Validate says what is wrong with the settings, best as Problems. It must have no effect: the host also calls it
	// alone, at any time, for settings that never come into force.
	Validate func(ctx context.Context, s Settings) error
	// Configure puts the settings into force. It runs once, after Validate, before the first Check. An error ends the
	// start.
	Configure func(ctx context.Context, s Settings) error
	// Check decides one call. It runs in many goroutines at once. ctx ends at the call's deadline, and what is returned
	// later counts for nothing. The call is its own to keep. An error means that no decision was made.
	Check func(ctx context.Context, c *Call) (sdk.Verdict, error)
	// Health says whether calls would work; an error is shown to the operator, and the host asks nothing until it is nil
	// again. It is called about once a second, at most once at a time for each host, and must return at once.
	Health func() error
	// Close ends the work of Configure, after the last Check. ctx ends after 5 s.
	Close func(ctx context.Context) error
}

func (a Authorizer) bind(p *parts) error {
	l := life{"authorizer", pluginv1.Kind_KIND_AUTHORIZER, a.Info, a.Validate, a.Configure, a.Health, a.Close}
	p.check = a.Check
	return p.add(l, "Check", a.Check == nil)
}

// Scanner finds spans in texts. All but Scan is as Authorizer's.
type Scanner struct {
	Info      Info
	Validate  func(ctx context.Context, s Settings) error
	Configure func(ctx context.Context, s Settings) error
	// Scan looks through one text, in many goroutines at once. Of each finding it gives Kind, Start, End, Confidence,
	// Severity, Suggested and Replacement. An error means that the text was not covered.
	Scan   func(ctx context.Context, t *Text) ([]sdk.Finding, error)
	Health func() error
	Close  func(ctx context.Context) error
}

func (s Scanner) bind(p *parts) error {
	l := life{"scanner", pluginv1.Kind_KIND_SCANNER, s.Info, s.Validate, s.Configure, s.Health, s.Close}
	p.scan = s.Scan
	return p.add(l, "Scan", s.Scan == nil)
}

// Subscriber is given the audit log. All but Consume is as Authorizer's.
type Subscriber struct {
	Info      Info
	Validate  func(ctx context.Context, s Settings) error
	Configure func(ctx context.Context, s Settings) error
	// Consume takes in one batch; one call at a time for each host. nil acknowledges all of it, for good. A *RecordError
	// acknowledges what is before that record, and is held against it: after five times the operator's on_poison counts. A
	// *Later acknowledges what is before its record too, and is held against none. Any other error says that nothing of
	// the batch was taken in, and that nothing can be now. After an error the host waits and begins anew behind the last
	// acknowledged record, so a record may come twice: they are the same if StoreID and Seq are.
	Consume func(ctx context.Context, b *Batch) error
	Health  func() error
	Close   func(ctx context.Context) error
}

func (s Subscriber) bind(p *parts) error {
	l := life{"subscriber", pluginv1.Kind_KIND_SUBSCRIBER, s.Info, s.Validate, s.Configure, s.Health, s.Close}
	p.consume = s.Consume
	return p.add(l, "Consume", s.Consume == nil)
}

// Call is one call of an agent, as it was decided that it wants to make it.
type Call struct {
	KeyID, KeyName string
	AgentID        string
	SessionID      string
	ToolID         string // with the operation joined: "tool/operation"
	Operation      string
	CallID         string
	Args           json.RawMessage // a JSON object, numbers as they were written; nil when there are none
	Context        json.RawMessage // likewise
	Digest         [32]byte        // SHA-256 of the canonical call
	Time           time.Time       // when the gateway took it in
	Generation     string          // of the operator's configuration
}

// Text is one text to look through.
type Text struct {
	Text        string // UTF-8
	ToolID      string
	AgentID     string
	ContentType string
	Generation  string
}

// Settings are what the operator configured.
type Settings struct {
	Config     json.RawMessage   // a JSON object
	Secrets    map[string]string // name → value; one newline at the end is taken off, nothing else
	Instance   string            // the name the operator gave the plugin
	Generation string            // of the operator's configuration
	Log        *slog.Logger      // JSON lines on stderr, which go into the gateway's log; safe for concurrent use
}
