package hook

import (
	"slices"
	"strings"
)

// Gated says whether a call is one of a tool whose server is the gateway's own entry in the agent's configuration, as
// `yett connect AGENT --mcp` writes it: the gateway decides about it when it arrives there. Where the agent says more
// than the server's name, that must fit too: another server under the same name is no entry of ours. names are those
// of the entries, program is yett, and file the hook's own file.
func (e *Event) Gated(names []string, program, file string) bool {
	server, tool, ok := strings.Cut(strings.TrimPrefix(e.Tool, "mcp."), "/")
	if e.Phase != Before || !e.mcp || !ok || tool == "" || !slices.Contains(names, server) {
		return false
	}
	switch e.Agent {
	case ClaudeCode: // where connect writes: a project's shared file is another place
		return e.origin == "user" || e.origin == "local"
	case Gemini:
		return e.origin == originOf(program, GateArgs(server, file))
	}
	return true
}

// GateArgs are the arguments with which yett is an MCP server.
func GateArgs(server, file string) []string {
	return []string{"mcp", "--server", server, "--config", file}
}

// originOf names a command.
func originOf(command string, args []string) string {
	return strings.Join(append([]string{command}, args...), "\x00")
}
