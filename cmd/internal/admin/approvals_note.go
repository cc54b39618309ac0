package admin

import (
	"slices"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
)

// agentSays is what an agent says about its call, in one line that says whose words these are; "" where it says
// nothing. Nothing that an approver reads may look like a part of the note, so it comes last in its line.
func agentSays(p *client.Pending) string {
	switch {
	case p.AgentNoteWithheld != nil:
		return "the agent's note is withheld: " + p.AgentNoteWithheld.String()
	case p.AgentNote != "":
		return "the agent says: " + p.AgentNote
	}
	return ""
}

// withNotes adds a last column for what the agents say, where any of them says something.
func withNotes(cols []cli.Column, table [][]string, list []client.Pending) ([]cli.Column, [][]string) {
	if !slices.ContainsFunc(list, func(p client.Pending) bool { return agentSays(&p) != "" }) {
		return cols, table
	}
	for i := range list {
		cell := list[i].AgentNote
		if w := list[i].AgentNoteWithheld; w != nil {
			cell = "(withheld: " + w.String() + ")"
		}
		table[i] = append(table[i], cell)
	}
	return append(cols, cli.Cut("AGENT SAYS")), table
}
