package feed

import (
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// recordLimits let every record through that was written: it was within the limits of its request then.
var recordLimits = exact.Limits{Depth: 1 << 12, Tokens: 1 << 26}

// filters reports whether the settings let only some records through.
func (s *Settings) filters() bool { return len(s.Types)+len(s.Agents)+len(s.Tools) > 0 }

// wants reports whether a record is delivered. One that cannot be read is: what cannot be read cannot be left out.
func (s *Settings) wants(record []byte) bool {
	if !s.filters() {
		return true
	}
	var h log.Head
	if !h.Read(record) {
		return true
	}
	if len(s.Types) > 0 && !slices.Contains(s.Types, string(h.Type)) {
		return false
	}
	agent, tool := string(h.AgentID), string(h.ToolID)
	if len(s.Agents) > 0 && agent != "" && !strings.Contains(agent, "*") && !sdk.MatchAgent(s.Agents, agent) {
		return false
	}
	return len(s.Tools) == 0 || tool == "" ||
		slices.ContainsFunc(s.Tools, func(glob string) bool { return sdk.MatchGlob(glob, tool) })
}
