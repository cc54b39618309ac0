package prochost

import (
	"errors"
	"strings"
	"testing"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// TestAnswerLimits: the longest name of an approver and the longest replacement hold, and one byte more does not.
func TestAnswerLimits(t *testing.T) {
	for more := range 2 {
		a := answer{effect: uint64(pluginv1.CheckResponse_EFFECT_DEFER), code: "D",
			approvers: []string{"key:" + strings.Repeat("x", maxApprover-len("key:")+more)}}
		v, err := a.verdict()
		if refused := errors.Is(err, ErrAnswer); refused != (more == 1) || !refused && len(v.From) != 1 {
			t.Errorf("approver of %d bytes: %+v, %v", len(a.approvers[0]), v, err)
		}
		f := &pluginv1.Finding{Kind: "A", Start: 0, End: 1, Severity: pluginv1.Finding_SEVERITY_LOW,
			Suggested: pluginv1.Finding_ACTION_REPLACE, Replacement: strings.Repeat("x", maxReplacement+more)}
		if _, err := finding(f, "s", map[string]string{"A": "A"}, "text"); (err != nil) != (more == 1) {
			t.Errorf("replacement of %d bytes: %v", len(f.Replacement), err)
		}
	}
}
