package hook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// fields reads the members of one object of an input. It keeps the first mistake, so that a reader may read on and look
// once, at its end.
type fields struct {
	v     exact.Value
	path  string // "" or "tool_info."
	phase Phase  // what the mistake is told to have happened in
	err   *Error
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = &Error{Phase: f.phase, Text: fmt.Sprintf(format, args...)}
	}
}

// has reports whether the member is there and not null.
func (f *fields) has(name string) bool {
	k := f.v.Get(name).Kind()
	return k != exact.Absent && k != exact.Null
}

// need gives a member of one kind.
func (f *fields) need(name string, kind exact.Kind) exact.Value {
	v := f.v.Get(name)
	switch k := v.Kind(); k {
	case kind:
	case exact.Absent:
		f.fail("the hook input has no %s%s", f.path, name)
	default:
		f.fail("the hook input: %s%s: expected %s, got %s", f.path, name, kind, k)
	}
	return v
}

// text gives a string that is not empty.
func (f *fields) text(name string) string {
	s := f.need(name, exact.String).Str()
	if s == "" {
		f.fail("the hook input: %s%s is empty", f.path, name)
	}
	return s
}

// maybe gives a string that may be missing or null.
func (f *fields) maybe(name string) string {
	if !f.has(name) {
		return ""
	}
	return f.need(name, exact.String).Str()
}

// within gives the members of a member.
func (f *fields) within(name string) *fields {
	return &fields{v: f.need(name, exact.Object), path: f.path + name + ".", phase: f.phase, err: f.err}
}

// args gives arguments: an object, with its bytes, and whether it came inside a string.
func (f *fields) args(name string, insideString bool) (raw []byte, wrapped bool) {
	v := f.v.Get(name)
	if insideString && v.Kind() == exact.String {
		var doc exact.Doc
		if err := doc.Parse(v.Str(), exact.DefaultLimits); err != nil || doc.Root().Kind() != exact.Object {
			f.fail("the hook input: %s%s: expected an object or a string with an object in it", f.path, name)
			return nil, true
		}
		return []byte(doc.Root().Raw()), true
	}
	return []byte(f.need(name, exact.Object).Raw()), false
}

// output gives a member as an Output; it must be there.
func (f *fields) output(name, tool string) Output {
	v := f.v.Get(name)
	if !v.Exists() {
		f.fail("the hook input has no %s%s", f.path, name)
	}
	return outputOf("/"+strings.ReplaceAll(f.path, ".", "/")+name, tool, v)
}

func outputOf(at, tool string, v exact.Value) Output {
	return Output{At: at, Tool: tool, JSON: []byte(v.Raw())}
}

// alien refuses the input of an agent that runs another agent's hook files. It has a member that only this agent sends.
func (f *fields) alien(agent, member, who string) {
	if f.v.Get(member).Exists() {
		f.fail("this hook line is for %s, but %s runs it: give %s its own hooks with `yett connect`", agent, who, who)
	}
}

// unknownEvent is an event that the agent's documents do not name. It is a Notice, because nothing depends on the
// answer to a notification. It is refused if it has a tool, or a name that may mean the time before or after a tool.
func (f *fields) unknownEvent(name string) *Event {
	low := strings.ToLower(name)
	for _, word := range []string{"pre", "before", "post", "after", "tool", "permission"} {
		if strings.Contains(low, word) {
			f.fail("unknown event %q: update Yett, or take this event out of the agent's hooks", cut(clean(name), 64))
		}
	}
	for member := range f.v.Members() {
		if strings.HasPrefix(strings.ToLower(member), "tool") {
			f.fail("unknown event %q with a member %q: update Yett, or take this event out of the agent's hooks",
				cut(clean(name), 64), cut(clean(member), 64))
		}
	}
	return &Event{Phase: Notice, Name: name}
}

// maxName is how many bytes the gateway takes for a name.
const maxName = 256

// callID is agent:session:id, or a hash of it where that is no name for the gateway or could be read in two ways.
func callID(agent Agent, session, id string) string {
	whole := string(agent) + ":" + session + ":" + id
	if len(whole) <= maxName && isASCII(whole) && !strings.Contains(session+id, ":") {
		return whole
	}
	return hashID(agent, session, id)
}

// isASCII reports whether all of s is visible ASCII, without spaces.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// hashID is agent:sha256:… of what together tells one call from all others.
func hashID(agent Agent, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return string(agent) + ":sha256:" + hex.EncodeToString(h.Sum(nil))
}

// stable writes the object of what is stable in a session: the named members of the input, where they are there.
func (f *fields) stable(names ...string) []byte {
	o := wire.Object(nil)
	for _, name := range names {
		if f.has(name) {
			o.Raw(name, []byte(f.v.Get(name).Raw()))
		}
	}
	return o.Close()
}

// note says what is not stable: the model's own description of the call, and the named members of the input.
func (f *fields) note(description string, names ...string) string {
	parts := []string{}
	if description != "" {
		parts = append(parts, description)
	}
	for _, name := range names {
		if v := f.v.Get(name); v.Kind() == exact.String {
			parts = append(parts, name+"="+v.Str())
		}
	}
	return strings.Join(parts, "; ")
}

// Shells are the tools of an agent that run shell commands, by the agent's own names.
func Shells(agent Agent) []string { return shells[agent] }

// NoWrap says why an agent's shell commands are not wrapped, "" where they can be. Cursor and VS Code run rewritten
// commands by their documents; the other agents were seen to.
func NoWrap(agent Agent) string {
	switch agent {
	case Copilot:
		return "copilot asks its user about each wrapped command; its hook replaces the output without that"
	case Windsurf:
		return "windsurf cannot change a command before it runs"
	}
	return ""
}

var shells = map[Agent][]string{
	ClaudeCode: {"Bash"},
	Codex:      {"Bash"},
	Gemini:     {"run_shell_command"},
	Copilot:    {"bash"},
	Cursor:     {"Shell"},
	VSCode:     {"run_in_terminal", "runInTerminal"},
	OpenCode:   {"bash"},
	Cline:      {"execute_command", "run_commands", "bash"},
}

// narrated takes the description out of a call of the agent's shell. A model writes it anew each time it repeats a
// call, so that an approval of the call would not fit the repetition. It never changes what runs there. In any other
// tool a description is an argument like all others.
func narrated(agent Agent, tool string, args []byte) (asked []byte, description string) {
	var doc exact.Doc
	if !slices.Contains(shells[agent], tool) || doc.Parse(string(args), exact.DefaultLimits) != nil {
		return nil, ""
	}
	root := doc.Root()
	about := root.Get("description")
	if root.Get("command").Kind() != exact.String || about.Kind() != exact.String {
		return nil, ""
	}
	o := wire.Object(nil)
	for name, v := range root.Members() {
		if name != "description" {
			o.Raw(name, []byte(v.Raw()))
		}
	}
	return o.Close(), about.Str()
}

// narrate puts the description back into arguments that were decided on without it, for an agent that keeps the members
// which an answer leaves out, or wants all of them.
func (e *Event) narrate(args []byte) []byte {
	var was, now exact.Doc
	if bytes.Equal(e.Asked, e.Args) || was.Parse(string(e.Args), exact.DefaultLimits) != nil ||
		now.Parse(string(args), exact.DefaultLimits) != nil || now.Root().Get("description").Exists() {
		return args
	}
	o := wire.Object(nil)
	for name, v := range now.Root().Members() {
		o.Raw(name, []byte(v.Raw()))
	}
	o.Raw("description", []byte(was.Root().Get("description").Raw()))
	return o.Close()
}

// mcpTool is the gateway's name for a tool of an MCP server.
func mcpTool(server, tool string) string { return "mcp." + server + "/" + tool }

// splitMCP splits a joined name: by the longest server that is known, else at the first separator.
func splitMCP(joined, sep string, servers []string) (server, tool string, ok bool) {
	for _, s := range servers {
		if rest, is := strings.CutPrefix(joined, s+sep); is && rest != "" && len(s) > len(server) {
			server, tool, ok = s, rest, true
		}
	}
	if ok {
		return server, tool, true
	}
	server, tool, ok = strings.Cut(joined, sep)
	return server, tool, ok && server != "" && tool != ""
}
