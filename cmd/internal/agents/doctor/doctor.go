// Package doctor is `yett doctor AGENT`: it looks whether a coding agent really asks the gateway, and says what was
// seen and what to do. It owns the checks and the live probe, which runs the agent itself against a scripted model on
// loopback. It must never change a configuration, run a command that does more than make or read files in a directory
// of its own, send anything to a real model, or call good what it has not seen.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/connect"
	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

// Status is how a check ended.
type Status string

// The statuses. Open is a way past the hooks that nothing here can close.
const (
	OK   Status = "ok"
	Open Status = "open"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Line is one check: what was seen, and what to do about it.
type Line struct {
	Status Status `json:"status"`
	Saw    string `json:"saw"`
	Do     string `json:"do,omitempty"`
}

// Doctor looks at one agent.
type Doctor struct {
	Agent   hook.Agent
	Places  connect.Places
	UID     int
	Command hook.Command
	File    string // the hook's own file; "" finds it
	NoProbe bool   // do not run the agent
	Env     []string
	lines   []Line
}

func (d *Doctor) say(s Status, do, format string, args ...any) {
	d.lines = append(d.lines, Line{s, fmt.Sprintf(format, args...), do})
}

// Run makes all checks, and gives a line for each. An error means that they could not be made.
func (d *Doctor) Run(ctx context.Context) ([]Line, error) {
	path, err := d.installed()
	if err != nil {
		return nil, err
	}
	if d.File != "" {
		path = d.File
	}
	if path == "" {
		d.say(Fail, "Run `yett connect "+string(d.Agent)+"`.", "%s is not connected: there is no file of its hook", d.Agent)
		return d.lines, nil
	}
	file, err := hookfile.Load(path)
	switch {
	case err != nil:
		d.say(Fail, "Connect the agent again, or mend the file.", "%v", err)
		return d.lines, nil
	case file.Agent != string(d.Agent):
		d.say(Fail, "Name the agent's own file.", "%s is the file of %s", path, file.Agent)
		return d.lines, nil
	}
	d.say(OK, "", "%s can be trusted", path)
	switch {
	case d.UID == 0:
		d.say(Warn, "Run the agent, and doctor, as a user who is not root.",
			"advisory: root reaches the gateway's admin socket and its data")
	case file.SocketOwner != nil && int(*file.SocketOwner) == d.UID:
		d.say(Warn, "Run the gateway as another user than the agent.",
			"advisory: the gateway runs as the agent's user, who can reach its admin socket and its data")
	}
	d.wraps(path, file)
	switch answers := d.gateway(ctx, file); {
	case d.NoProbe:
	case answers:
		d.probe(ctx, file)
	default:
		d.say(Warn, "Start the gateway, and run doctor again.", "%s was not run: without a gateway there is nothing to see",
			d.Agent)
	}
	return d.lines, nil
}

// installed looks where the hooks stand, and gives the hook's file that counts.
func (d *Doctor) installed() (path string, err error) {
	found, err := connect.Look(d.Agent, d.Places, d.UID, d.Command)
	if err != nil {
		return "", err
	}
	for _, in := range found {
		again := fmt.Sprintf("Run `yett connect %s --%s` again.", d.Agent, in.Scope)
		if in.Err != nil {
			d.say(Fail, again, "%s hooks: %v", in.Scope, in.Err)
		}
		for _, f := range in.Files {
			switch f.Change {
			case "unchanged":
				d.say(OK, "", "%s has the hooks of %s (%s)", f.Path, d.Agent, in.Scope)
			case "created":
				d.say(Fail, again, "%s is not there: %s runs its tools without asking", f.Path, d.Agent)
			default:
				d.say(Fail, again, "%s does not have the hooks as this program writes them", f.Path)
			}
		}
		for _, note := range in.Notes {
			d.say(Warn, "", "%s hooks: %s", in.Scope, note)
		}
		for _, w := range in.Open {
			d.say(Open, w.Do, "%s", w.What)
		}
		if path == "" {
			path = in.HookFile
		}
	}
	if len(found) > 1 {
		d.say(Warn, "Take the hooks out of all places but one: yett connect … --undo.",
			"%s is connected in %d places: each call is asked about more than once", d.Agent, len(found))
	}
	return path, nil
}

// wraps says what becomes of the output of shell commands.
func (d *Doctor) wraps(path string, file *hookfile.File) {
	if file.Wrap == "" {
		return
	}
	if err := connect.Trusted(d.Agent, d.Places, file.Wrap, d.UID); err != nil {
		d.say(Fail, "Run `yett connect "+string(d.Agent)+" --wrap` again.", "shell commands cannot be wrapped: %v", err)
		return
	}
	if why := hook.NoWrap(d.Agent); why != "" {
		d.say(Fail, "Run `yett connect "+string(d.Agent)+" --wrap=false`.", "shell commands cannot be wrapped: %s", why)
		return
	}
	id, err := wrap.Issue(path, wrap.Ticket{Command: ":", Shell: "sh", Tool: "yett.doctor/probe"})
	if err == nil {
		_, err = wrap.Take(path, id, time.Now())
	}
	if err != nil {
		d.say(Fail, "Mend that: until then no shell command runs.", "shell commands cannot be wrapped: %v", err)
		return
	}
	d.say(OK, "", "shell commands are run by %s exec", file.Wrap)
	d.say(Open, connect.WrapWay.Do, "%s", connect.WrapWay.What)
}

// skew is by how much two clocks may differ.
const skew = 5 * time.Second

// gateway asks the gateway as a hook does, and reports whether it answers. It asks for nothing that could run.
func (d *Doctor) gateway(ctx context.Context, file *hookfile.File) (answers bool) {
	where := file.Socket + file.URL
	gate, err := hookrun.Dial(file)
	if err != nil {
		d.say(Fail, "Mend the hook's file.", "the gateway at %s: %v", where, err)
		return false
	}
	defer gate.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	agent := file.AgentID
	if agent == "" {
		agent = file.Agent
	}
	from := time.Now()
	made, err := gate.Authorize(ctx, client.Call{AgentID: agent, ToolID: "yett.doctor/probe", DryRun: true})
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		d.say(Fail, "Make a key and connect the agent again.", "the gateway at %s does not accept the key", where)
		return false
	case errors.Is(err, client.ErrForbidden):
		d.say(Fail, "Give the key the scope authorize, and this agent.", "the key may not ask for %s: %v", agent, err)
		return false
	case err != nil:
		d.say(Fail, "Start the gateway, and look who may reach it.", "the gateway at %s does not answer: %v", where, err)
		return false
	}
	d.say(OK, "", "the gateway at %s answers in %.1f ms and accepts the key", where, float64(time.Since(from))/1e6)
	if _, id, ok := strings.Cut(made.DecisionID, "_"); ok {
		if at, ok := timeOf(id); ok {
			if off := time.Until(at).Round(time.Second); off > skew || off < -skew {
				d.say(Warn, "Set both clocks.", "the gateway's clock is %v from this machine's", off)
			}
		}
	}
	d.scans(ctx, gate, agent)
	return true
}

// timeOf is when an id was made: the first ten characters of a ULID are milliseconds since 1970 in Crockford's base 32.
func timeOf(id string) (time.Time, bool) {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	if len(id) != 26 {
		return time.Time{}, false
	}
	ms := int64(0)
	for _, c := range []byte(id[:10]) {
		n := strings.IndexByte(digits, c)
		if n < 0 {
			return time.Time{}, false
		}
		ms = ms<<5 | int64(n)
	}
	return time.UnixMilli(ms), true
}

// scans looks whether outputs get through at all.
func (d *Doctor) scans(ctx context.Context, gate hookrun.Gateway, agent string) {
	res, err := gate.ScanOutput(ctx, wire.ScanRequest{ToolID: "yett.doctor/probe", AgentID: agent, Output: `"hello"`,
		ContentType: "application/json"})
	switch {
	case errors.Is(err, client.ErrForbidden):
		d.say(Fail, "Give the key the scope scan.", "the key may not scan: every output is withheld from the model")
	case err != nil:
		d.say(Fail, "", "outputs cannot be scanned: %v", err)
	case res.Outcome == "DENIED":
		d.say(Warn, "Give chains.scan_output a scanner, such as the built-in secrets.",
			"the gateway withholds every output (%s)", res.ReasonCode)
	default:
		d.say(OK, "", "outputs are scanned")
	}
}

// verdict says in one line what the checks come to.
func verdict(agent string, lines []Line) string {
	count, proven := map[Status]int{}, false
	for _, l := range lines {
		count[l.Status]++
		proven = proven || l.Status == OK && strings.HasPrefix(l.Saw, Obeys)
	}
	switch {
	case count[Fail] > 0:
		return fmt.Sprintf("%s cannot be relied on: see the lines marked fail.", agent)
	case !proven:
		return fmt.Sprintf("Nothing has failed, but no denial was seen to hold in %s.", agent)
	case count[Warn] > 0:
		return fmt.Sprintf("%s asks Yett and obeys. See the lines marked warn.", agent)
	}
	return fmt.Sprintf("%s asks Yett and obeys.", agent)
}

// Failed reports whether a check has failed.
func Failed(lines []Line) bool {
	for _, l := range lines {
		if l.Status == Fail {
			return true
		}
	}
	return false
}

// env is what the agent is run with, over the doctor's own.
func (d *Doctor) env() []string {
	if d.Env != nil {
		return d.Env
	}
	return os.Environ()
}
