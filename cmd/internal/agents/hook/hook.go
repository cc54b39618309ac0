// Package hook is the pure core of `yett hook AGENT`. It reads what a coding agent writes to a hook's stdin, says what
// to ask the gateway about, and writes the answer that this agent understands. It owns one reader and one encoder for
// each agent, the guard lines around the command, and the list of what an agent's hooks cannot cover. It must never
// touch the network, files, the environment or a clock, and never share an encoder between two agents: a word that
// refuses in one agent runs the tool in another. It must never permit by mistake: what it cannot read, or cannot say
// exactly, it refuses. Bytes come from the command's stdin; a Reply goes to its stdout, stderr and exit status.
package hook

import (
	"fmt"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// Agent is a coding agent, by the name that commands use.
type Agent string

// The agents. Cursor, VS Code and Windsurf are written from their documents: nobody has run them against this package.
const (
	ClaudeCode Agent = "claude-code"
	Codex      Agent = "codex"
	Gemini     Agent = "gemini"
	Copilot    Agent = "copilot"
	Cursor     Agent = "cursor"
	VSCode     Agent = "vscode"
	OpenCode   Agent = "opencode"
	Cline      Agent = "cline"
	Windsurf   Agent = "windsurf"
)

// Agents are all agents, in the order of the documents.
func Agents() []Agent {
	return []Agent{ClaudeCode, Codex, Gemini, Copilot, Cursor, VSCode, OpenCode, Cline, Windsurf}
}

// ParseAgent gives the agent of that name.
func ParseAgent(name string) (Agent, error) {
	names := make([]string, 0, len(Agents()))
	for _, a := range Agents() {
		if string(a) == name {
			return a, nil
		}
		names = append(names, string(a))
	}
	return "", fmt.Errorf("unknown agent %q: expected one of %s", name, strings.Join(names, ", "))
}

// Phase is when the agent runs the hook. It decides how the agent is refused.
type Phase uint8

// The phases.
const (
	Unknown    Phase = iota // the input could not be read far enough
	Before                  // before a tool runs: the gateway decides
	After                   // after a tool ran: its output is scanned
	AfterBatch              // after several tools ran: all their outputs are scanned
	Prompt                  // before the model reads what a person wrote: the text is scanned
	Notice                  // nothing to decide: the answer has no effect
)

func (p Phase) String() string {
	switch p {
	case Before:
		return "before"
	case After:
		return "after"
	case AfterBatch:
		return "after-batch"
	case Prompt:
		return "prompt"
	case Notice:
		return "notice"
	}
	return "unknown"
}

// MaxStdin is how many bytes a hook reads from an agent. More is refused.
const MaxStdin = 5 << 20

// MaxNote is how many bytes of note a call carries to the gateway.
const MaxNote = 1 << 10

// Event is one hook input, as the gateway needs it.
type Event struct {
	Agent     Agent
	Phase     Phase
	Name      string   // the event, as the agent calls it
	SessionID string   // the agent's own name for its session
	Subagent  string   // the kind of subagent that calls, to be appended to the configured agent id; "" for the main one
	CallID    string   // tells this call from all others; "" where the agent sends nothing that does: make one
	Tool      string   // the tool; mcp.SERVER/TOOL for tools of MCP servers
	Args      []byte   // the arguments, with the bytes that the agent sent
	Asked     []byte   // Args without what a model writes anew for the same call (a description): ask with this
	Outputs   []Output // what the model would read, to be scanned
	Context   []byte   // a JSON object of what is stable in a session
	Note      string   // what is not stable and what the model says about its call, at most MaxNote bytes

	toolName string // the tool, as the agent calls it
	mcp      bool   // the tool belongs to an MCP server
	origin   string // of that server, where the agent says it: the kind of its configuration, or its command
	wrapped  bool   // the agent sent JSON inside a string where it could have sent JSON
}

// Output is one JSON value that the model would read. Scan its strings and its member names, decoded.
type Output struct {
	At   string // where it stands in the input, as a JSON pointer
	Tool string // whose output it is
	JSON []byte // the value, with the bytes that the agent sent
}

// Effect is what shall happen to a call.
type Effect uint8

// The effects. The zero Effect refuses.
const (
	Deny    Effect = iota
	Permit         // run the call
	Wait           // refuse, and tell the model that a person decides and that it may repeat the same call
	Ask            // let the person at the agent decide; Wait where the agent cannot ask safely
	Suspend        // end the run so that it can be resumed with this call; Wait where the agent cannot
)

// Decision is the gateway's answer about a call.
type Decision struct {
	Effect Effect
	Args   []byte // with Permit: run the call with these arguments; nil leaves them as they are
	Text   string // what the model is told
	Scans  []Scan // with Permit: the scans of the event's Outputs, where an event before a tool has some
	Allow  bool   // with Permit: also skip the agent's own question to its user, where the agent has such a word
}

// Verdict is what the gateway found in an output.
type Verdict uint8

// The verdicts. The zero Verdict withholds the output.
const (
	Denied Verdict = iota
	Redacted
	Warned
	Pass
)

// Scan is the gateway's answer about one Output.
type Scan struct {
	Verdict Verdict
	JSON    []byte // with Redacted: the output without its secrets, with the same shape
	Notice  string // what the model is told in place of, or beside, the output
}

// Reply is what the command writes and how it ends. Write it whole, once, and check the write.
type Reply struct {
	Stdout    []byte
	Stderr    []byte
	Exit      int
	Uncovered string // what this answer cannot prevent in this agent: log it; "" where it prevents everything
}

// Error says why an input was not understood, and in which phase, so that the refusal can take the right form.
type Error struct {
	Phase Phase
	Text  string
}

func (e *Error) Error() string { return e.Text }

// dialect is what one agent says and understands. Each has its own file.
type dialect interface {
	// read maps an input to an Event; what it cannot map is an error.
	read(in *fields, servers []string) (*Event, *Error)
	// powers says which answers the agent carries out for this event.
	powers(e *Event) powers
	// decide encodes a Decision that lies within the powers. Its text is not empty unless it permits.
	decide(e *Event, d Decision) Reply
	// scanned encodes checked scans, one for each output; worst is the strictest of their verdicts.
	scanned(e *Event, worst Verdict, scans []Scan) Reply
	// refuse encodes a failure. The text is not empty.
	refuse(p Phase, text string) Reply
}

// powers are the answers that an agent carries out.
type powers struct {
	rewrite rewriting
	ask     bool
	suspend bool
	quiet   string // what an event without consequence is answered with
}

// rewriting is what an agent makes of arguments in an answer.
type rewriting uint8

const (
	never    rewriting = iota // the agent ignores them
	replaces                  // the call runs with exactly these
	merges                    // the call runs with these over the old ones: what was left out stays
	fits                      // the agent ignores them unless they have the shape of the old ones
)

// of gives the agent's dialect, nil for an unknown agent.
func of(agent Agent) dialect {
	switch agent {
	case ClaudeCode:
		return claude{}
	case Codex:
		return codex{}
	case Gemini:
		return gemini{}
	case Copilot:
		return copilot{}
	case Cursor:
		return cursor{}
	case VSCode:
		return vscode{}
	case OpenCode:
		return opencode{}
	case Cline:
		return cline{}
	case Windsurf:
		return windsurf{}
	}
	return nil
}

// Read reads one hook input. The error is an *Error: answer it with RefusalOf. The names of the MCP servers that the
// agent knows tell server and tool apart where the agent joins them with a character that both may contain. They must
// come from the hook's own configuration.
func Read(agent Agent, stdin []byte, servers ...string) (*Event, error) {
	d := of(agent)
	if d == nil {
		return nil, &Error{Text: fmt.Sprintf("unknown agent %q", string(agent))}
	}
	if len(stdin) > MaxStdin {
		return nil, &Error{Text: fmt.Sprintf("the hook input has more than %d bytes (5 MiB)", MaxStdin)}
	}
	var doc exact.Doc
	if err := doc.Parse(string(stdin), exact.DefaultLimits); err != nil {
		return nil, &Error{Text: "the hook input is not strict JSON: " + err.Error()}
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return nil, &Error{Text: "the hook input: expected an object, got " + k.String()}
	}
	e, err := d.read(&fields{v: doc.Root()}, servers)
	if err != nil {
		return nil, err
	}
	e.Agent = agent
	if e.Context == nil {
		e.Context = []byte("{}")
	}
	e.Note = cut(clean(e.Note), MaxNote)
	if e.Asked == nil {
		e.Asked = e.Args
	}
	return e, nil
}
