package prochost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A plugin may put what it was asked about where a name belongs. What is no name is quoted nowhere: cut, it could not
// be masked.
func TestErrorsQuoteNoTextInPlaceOfAName(t *testing.T) {
	deny, hold := uint64(pluginv1.CheckResponse_EFFECT_DENY), uint64(pluginv1.CheckResponse_EFFECT_DEFER)
	for n := range 320 {
		said := strings.Repeat("y", n) + "tok" + "_" + strings.Repeat("k9", 16)
		for name, a := range map[string]answer{
			"code":          {effect: deny, code: said},
			"priority":      {effect: hold, code: "D", priority: said},
			"approver":      {effect: hold, code: "D", approvers: []string{said}},
			"approver role": {effect: hold, code: "D", approvers: []string{"role:" + said}},
		} {
			if _, err := a.verdict(); err == nil || strings.Contains(err.Error(), "tok") || strings.Contains(err.Error(), "yy") {
				t.Fatalf("%s: %v", name, err)
			}
		}
		r := &pluginv1.ScanResponse{Findings: []*pluginv1.Finding{{Kind: said, End: 1}}}
		if _, err := findings(r, "s", map[string]string{"A": "A"}, &chain.Input{Text: "x"}); err == nil ||
			strings.Contains(err.Error(), "tok") || strings.Contains(err.Error(), "yy") {
			t.Fatalf("kind: %v", err)
		}
	}
}

// What a plugin says comes whole as far as masking needs it.
func TestWordsAreHeardWhole(t *testing.T) {
	token := "tok" + "_" + strings.Repeat("k9", 16)
	for _, at := range []int{0, 270, 290, 299, 500, 1010} {
		said := strings.Repeat("y", at) + token + strings.Repeat("\n", chain.HeardMost)
		_, checked := (&answer{failure: said}).verdict()
		_, scanned := findings(&pluginv1.ScanResponse{Error: said}, "s", nil, nil)
		in := &instance{}
		if err := in.heed(&pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_SERVING, Detail: said}); err !=
			nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{"check": checked, "scan": scanned,
			"status":  quoted(status.Error(codes.Internal, said)),
			"health":  &chain.Spoken{Err: fmt.Errorf("it does not serve"), Words: in.said.Load().words},
			"replica": &chain.Spoken{Err: errLost, Words: (&replica{failed: checked}).words()}} {
			if words := chain.Words(err); !strings.Contains(words, token) || len(words) > chain.HeardMost ||
				strings.Contains(words, "\n") {
				t.Errorf("%s, %d bytes before: %.600s", name, at, words)
			}
		}
	}
}
