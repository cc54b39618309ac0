// Package conform holds a plugin binary to the protocol of sdk/proto/v1, whatever language it is written in, and keeps
// the projects that an author begins with. It owns the list of checks and their sentences. It starts the plugin as the
// gateway does (core/prochost) or by hand (core/supervise), talks raw gRPC to it and judges what comes back. Nothing
// that a plugin does may hang or crash the suite, and what was not checked is never reported as a pass. The binary and
// its settings come from the author; the report goes to the commands of cmd/yett.
package conform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/supervise"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// The bounds of a run.
const (
	defaultTotal   = 2 * time.Minute
	defaultTimeout = 50 * time.Millisecond // of one call: the gateway's default for limits.timeout
	checkLimit     = 10 * time.Second      // of one check that says nothing else
	maxTimeouts    = 3                     // so many checks that got no answer end the run
	maxAnswer      = 4 << 20               // bytes of one message
	maxCalls       = 1000                  // sample calls
)

// Session is one process of the plugin after the handshake, or one connection to a plugin that somebody else started.
type Session interface {
	// Conn carries the calls. It is valid until Close.
	Conn() grpc.ClientConnInterface
	// Process is what was started; nil when somebody else did.
	Process() *supervise.Process
	// Close ends the connection and the process. It returns when ctx ends at the latest.
	Close(ctx context.Context) error
}

// Call is one sample call of an author.
type Call struct {
	ToolID    string          `json:"tool_id"`
	AgentID   string          `json:"agent_id,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	KeyName   string          `json:"key_name,omitempty"`
	Operation string          `json:"operation,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`    // an object
	Context   json.RawMessage `json:"context,omitempty"` // an object
	// what the answer must be: ABSTAIN, PERMIT, DEFER, DENY; "" for anything
	Effect string `json:"effect,omitempty"`
}

// Options say what is checked. Path or Connect or Open is required.
type Options struct {
	Path    string            // the plugin's file
	Connect string            // unix:///…: a plugin that runs already; what concerns its process is skipped
	Config  json.RawMessage   // an object; nil: the example of Info
	Secrets map[string][]byte // by name; what Info requires and is not here gets a stand-in
	Env     map[string]string // the whole environment beside the handshake's; the gateway's env
	Calls   []Call            // authorizers: calls to try beside the suite's own
	Texts   []string          // scanners: texts to try beside the suite's own
	Only    []string          // names of checks; none: all
	Timeout time.Duration     // of one call, as limits.timeout of the gateway; 0 is 50 ms
	Total   time.Duration     // of the whole run; 0 is 2 min
	Version string            // of the host, for Info

	// what the process keeps beside the system's directories and its own, as the gateway's paths and network
	Confine    confine.Policy
	Unconfined bool // the kernel takes nothing from it

	// CheckConfig holds settings against a JSON Schema as the gateway does; nil: what needs it is skipped.
	CheckConfig func(schema string, config []byte) error
	// Log takes each line that the plugin writes to its log; nil drops them. It may be called from several goroutines.
	Log func(line string)
	// Open replaces how a session is opened; for tests. What needs a file is skipped then unless Path is set.
	Open func(ctx context.Context) (Session, error)

	start, drain, ack time.Duration // 0: startLimit, drainLimit, ackLimit; tests are shorter
	most              time.Duration // of one check, whatever its limit; 0: no such bound
}

// Outcome is how a check ended.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Skipped Outcome = "skipped"
)

// Result is one check of a report.
type Result struct {
	Name    string  `json:"name"`
	Expects string  `json:"expects"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`    // of a failure or a skip; of a pass, what was seen
	Advice  string  `json:"advice,omitempty"` // of a failure: what to do
	Millis  int64   `json:"ms"`
}

// Report is what a run found.
type Report struct {
	File    string   `json:"file,omitempty"`
	Connect string   `json:"connect,omitempty"`
	Digest  string   `json:"digest,omitempty"` // of the file
	Name    string   `json:"name"`             // what Info says
	Version string   `json:"version"`
	Kinds   []string `json:"kinds"`
	Pass    bool     `json:"pass"` // no check failed, and the run came to its end
	Reason  string   `json:"reason,omitempty"`
	Checks  []Result `json:"checks"`
}

var checkName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// check refuses options that are not clear.
func (o *Options) check() error {
	switch {
	case (o.Path == "") == (o.Connect == "") && o.Open == nil:
		return errors.New("want either the plugin's file or the socket of a plugin that runs")
	case o.Connect != "" && (len(o.Secrets) > 0 || len(o.Env) > 0):
		return errors.New("who started the plugin gave it its secrets and its environment: none can be handed to one " +
			"that runs")
	case o.Timeout < 0, o.Total < 0:
		return errors.New("a time is negative")
	case len(o.Calls) > maxCalls:
		return fmt.Errorf("%d sample calls, at most %d", len(o.Calls), maxCalls)
	}
	for i := range o.Calls {
		if err := o.Calls[i].check(); err != nil {
			return fmt.Errorf("sample call %d: %w", i+1, err)
		}
	}
	if o.Config != nil && !isObject(o.Config) {
		return errors.New("the settings are no JSON object")
	}
	for _, name := range o.Only {
		if !checkName.MatchString(name) || !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no check %q: want some of %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

func (c *Call) check() error {
	if c.ToolID == "" {
		return errors.New("tool_id is missing")
	}
	if len(c.Args) > 0 && !isObject(c.Args) {
		return errors.New("args is no JSON object")
	}
	if len(c.Context) > 0 && !isObject(c.Context) {
		return errors.New("context is no JSON object")
	}
	if _, ok := pluginv1.CheckResponse_Effect_value["EFFECT_"+c.Effect]; c.Effect != "" &&
		(!ok || c.Effect == "UNSPECIFIED") {
		return fmt.Errorf("effect %q: want ABSTAIN, PERMIT, DEFER or DENY", c.Effect)
	}
	return nil
}

func isObject(text []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(text, &object) == nil && object != nil
}

// Run checks a plugin. An error means that nothing could be checked because of what the caller asked for; everything
// that the plugin does or leaves undone is in the report. ctx ends the run early, which the report says.
func Run(ctx context.Context, o Options) (*Report, error) {
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.Total, fmt.Errorf("the whole run may take %v", r.opts.Total))
	defer cancel()
	r.all(ctx)
	r.rep.judge()
	return r.rep, nil
}

// newRun checks the options and fills in what is zero. The caller closes the run.
func newRun(o Options) (*run, error) {
	o.Total, o.Timeout = cmp.Or(o.Total, defaultTotal), cmp.Or(o.Timeout, defaultTimeout)
	o.start, o.drain, o.ack = cmp.Or(o.start, startLimit), cmp.Or(o.drain, drainLimit), cmp.Or(o.ack, ackLimit)
	if err := o.check(); err != nil {
		return nil, err
	}
	rep := &Report{Connect: o.Connect, Kinds: []string{}}
	if o.Path != "" {
		path, err := filepath.Abs(o.Path)
		if err != nil {
			return nil, err
		}
		o.Path, rep.File = path, path
		if rep.Digest, err = pin.File(path, maxFile); err != nil {
			return nil, err
		}
	}
	return &run{opts: o, rep: rep, digest: rep.Digest, journal: journal{log: o.Log}}, nil
}

// judge says whether it is a pass, and if not why in a sentence.
func (rep *Report) judge() {
	failed := 0
	first := ""
	for i := range rep.Checks {
		if c := &rep.Checks[i]; c.Outcome == Fail {
			failed++
			if first == "" {
				first = c.Name + ": " + c.Why
			}
		}
	}
	switch {
	case failed > 0 && rep.Reason == "":
		rep.Reason = first
	case failed > 0:
		rep.Reason = first + "; " + rep.Reason
	}
	rep.Pass = rep.Reason == ""
}
