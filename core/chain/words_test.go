package chain_test

import (
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// TestWordsOfStepsHideNothing: what a plugin says reaches agents, models and terminals without what could move or hide
// text there.
func TestWordsOfStepsHideNothing(t *testing.T) {
	s := step("plugin", sdk.Deny)
	s.Inline = false
	s.Checker = says{v: sdk.Verdict{Effect: sdk.Deny, Code: "NO", Reason: "a\x1b[2J\u202eb\nc", Message: "d\u200be\u2028",
		RuleID: "f\x00\xff\u2066 é 日"}}
	v := run(sdk.Deny, s).Verdict
	if v.Reason != `a\u{1b}[2J\u{202e}b\nc` || v.Message != `d\u{200b}e\u{2028}` || v.RuleID != `f\u{0}\xff\u{2066} é 日` {
		t.Errorf("%q, %q, %q", v.Reason, v.Message, v.RuleID)
	}
}
