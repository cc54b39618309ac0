package feed

import (
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// recordLimits let every record through that was written: it was within the limits of its request then.
var recordLimits = exact.Limits{Depth: 1 << 12, Tokens: 1 << 26}

// head is what decides whether a record is wanted.
type head struct {
	typ, agent, tool string
	at               time.Time
	about            string // the subscriber that it is about
}

// headOf reads a record's own members. ok is false for what is no record.
func headOf(record []byte) (h head, ok bool) {
	ok = log.Members(record, func(name, value []byte) bool {
		var to *string
		switch string(name) {
		case "type":
			to = &h.typ
		case "agent_id":
			to = &h.agent
		case "tool_id":
			to = &h.tool
		case "subscriber":
			to = &h.about
		case "timestamp":
			if text, ok := log.PlainText(value); ok {
				h.at, _ = time.Parse(time.RFC3339Nano, string(text))
			}
		}
		if to == nil {
			return true
		}
		if text, plain := log.PlainText(value); plain {
			*to = string(text)
			return true
		}
		var doc exact.Doc
		if doc.Parse(string(value), recordLimits) == nil {
			*to = doc.Root().Str()
		}
		return true
	})
	return h, ok && h.typ != ""
}

// filters reports whether the settings let only some records through.
func (s *Settings) filters() bool { return len(s.Types)+len(s.Agents)+len(s.Tools) > 0 }

// wants reports whether a record is delivered. One that cannot be read is: what cannot be read cannot be left out.
func (s *Settings) wants(record []byte) bool {
	if !s.filters() {
		return true
	}
	h, ok := headOf(record)
	if !ok {
		return true
	}
	if len(s.Types) > 0 && !slices.Contains(s.Types, h.typ) {
		return false
	}
	if len(s.Agents) > 0 && h.agent != "" && !strings.Contains(h.agent, "*") && !sdk.MatchAgent(s.Agents, h.agent) {
		return false
	}
	return len(s.Tools) == 0 || h.tool == "" ||
		slices.ContainsFunc(s.Tools, func(glob string) bool { return sdk.MatchGlob(glob, h.tool) })
}
