package ops_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// ailing is a scanner that fails with err.
type ailing struct{ err error }

func (a ailing) About() chain.About                                        { return chain.About{} }
func (a ailing) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) { return nil, a.err }

// deepEscapes is JSON text in more layers of escapes than are decoded.
var deepEscapes = strconv.Quote(strings.Repeat(`\\`, 600) + `u0041`)

// A text that could not be scanned comes with when to ask again: by the scanners that denied it. One that abstains is
// among them only where it was alone.
func TestScanRetryIsOfWhatDenied(t *testing.T) {
	b := newBench(t, nil)
	key := b.newKey("k", "agent")
	quarantined := chain.Later(chain.ErrUnavailable, chain.Never)
	later, soon := chain.Later(chain.ErrUnavailable, 40*time.Second), chain.Later(chain.ErrUnavailable, 0)
	const never = `"retry":{"class":"never"}`
	for name, c := range map[string]struct {
		deny, abstain error // of a scanner whose on_error is that; nil for none such
		want          string
	}{
		"required, back later":            {later, nil, `"retry":{"class":"after","after_seconds":40}`},
		"required, in quarantine":         {quarantined, nil, `"retry":{"class":"never"}`},
		"alone and abstains, back later":  {nil, later, `"retry":{"class":"after","after_seconds":40}`},
		"alone and abstains, quarantine":  {nil, quarantined, `"retry":{"class":"never"}`},
		"required, beside one that is in": {soon, quarantined, `"retry":{"class":"after","after_seconds":5}`},
	} {
		var steps []chain.ScanStep
		if c.deny != nil {
			steps = append(steps, chain.ScanStep{Name: "required", OnError: sdk.Deny, Scanner: ailing{c.deny}})
		}
		if c.abstain != nil {
			steps = append(steps, chain.ScanStep{Name: "abstains", OnError: sdk.Abstain, Scanner: ailing{c.abstain}})
		}
		b.gen.Scan.Steps = steps
		if got := b.must(key.Value, "scan_output", `{"tool_id":"t","output":"x"}`); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	abstains := func(err error) chain.ScanStep {
		return chain.ScanStep{Name: "abstains", OnError: sdk.Abstain, Scanner: ailing{err}}
	}
	deep := `"output":` + deepEscapes
	for name, c := range map[string]struct {
		steps []chain.ScanStep
		text  string
		want  string
	}{
		"two abstain, one is back later": {[]chain.ScanStep{abstains(quarantined), abstains(later)}, `"output":"x"`,
			`"retry":{"class":"after","after_seconds":40}`},
		"two abstain, one at once":           {[]chain.ScanStep{abstains(later), abstains(soon)}, `"output":"x"`, `"retry":{"class":"after","after_seconds":5}`},
		"two abstain, both in quarantine":    {[]chain.ScanStep{abstains(quarantined), abstains(quarantined)}, `"output":"x"`, never},
		"another has looked, but too deep":   {[]chain.ScanStep{abstains(later), {Name: "in", OnError: sdk.Deny, Scanner: ailing{}}}, deep, never},
		"too deep, and a required one fails": {[]chain.ScanStep{{Name: "in", OnError: sdk.Deny, Scanner: ailing{later}}}, deep, `"retry":{"class":"after","after_seconds":40}`},
	} {
		b.gen.Scan.Steps = c.steps
		got := b.must(key.Value, "scan_output", `{"tool_id":"t",`+c.text+`}`)
		if !strings.Contains(got, c.want) || !strings.Contains(got, "SCAN_UNAVAILABLE") {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
