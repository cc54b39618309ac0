package ops_test

import (
	"strings"
	"testing"
)

// The conditions of all standing grants have one bound of time: what was not looked at permits nothing, and the answer says so.
func TestConditionsOfGrantsHaveABound(t *testing.T) {
	b := newBench(t, nil)
	bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
	for range 3 {
		b.must(boss.Value, "standing_grant_add", `{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":60,"args_match":"slow"}`)
	}
	b.must(boss.Value, "standing_grant_add", `{"agent_id":"bot","tool_pattern":"*","ttl_seconds":60,"args_match":"{\"n\":1}"}`)
	got := b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"defer","args":{"n":1}}`)
	if member(got, "effect") != "PERMIT" { // by the one that needs no time
		t.Errorf("got %s", got)
	}
	got = b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"defer","args":{"n":2}}`)
	if member(got, "effect") != "DEFER" || !strings.Contains(got, "4 standing grants were left out: their args_match took longer than 50ms") {
		t.Errorf("got %s", got)
	}
}
