package chain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
)

// shownAs is what stands in the view for a value that scanners find under these kinds.
func shownAs(t *testing.T, value string, kinds ...string) string {
	t.Helper()
	scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now}
	for _, kind := range kinds {
		scan.Steps = append(scan.Steps, chain.ScanStep{Name: kind, Scanner: literal(kind, value)})
	}
	if err := scan.Prepare(); err != nil {
		t.Fatal(err)
	}
	m, err := scan.Look(context.Background(), &chain.Input{Text: "x " + value, ToolID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := m.Shown()
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// Of a value that a person chose nobody sees how it begins, whatever else it was found as. Its length and what it is
// made of stay.
func TestMaskShowsNoBeginningOfAChosenValue(t *testing.T) {
	value := "Winter" + "2024!xy7Q"
	const shape = ": 15 characters (9 letters, 5 digits, 1 sign)]"
	for kind, want := range map[string]string{
		"SECRET_PASSWORD": "[SECRET_PASSWORD", "DB_PASSPHRASE": "[DB_PASSPHRASE", "CARD_PIN": "[CARD_PIN",
		"PASSCODE": "[PASSCODE", "FTP_PASSWD_OLD": "[FTP_PASSWD_OLD", "ADMIN_PWD": "[ADMIN_PWD",
		"SECRET_URL_CREDENTIALS": "[SECRET_URL_CREDENTIALS", "SECRET_CONNECTION_STRING": "[SECRET_CONNECTION_STRING",
		"SECRET_CURL_USER": "[SECRET_CURL_USER", "SECRET_BASIC_AUTH": "[SECRET_BASIC_AUTH",
		"SECRET_GENERIC": "[SECRET_GENERIC", "SECRET_KUBERNETES_SECRET": "[SECRET_KUBERNETES_SECRET",
	} {
		for _, kinds := range [][]string{{kind}, {"A_TOKEN", kind}, {kind, "ZZ_TOKEN"}} {
			if got := shownAs(t, value, kinds...); got != "x "+want+shape {
				t.Errorf("%v is shown as %s", kinds, got)
			}
		}
	}
	for _, kind := range []string{"SECRET_TOKEN", "SECRET_1PASSWORD_SERVICE_TOKEN", "SPINNING_KEY",
		"SECRET_BEARER_TOKEN"} {
		if got := shownAs(t, value, kind); !strings.HasSuffix(got, ", begins Win…]") {
			t.Errorf("%s is shown as %s", kind, got)
		}
	}
}

// An issuer's mark is no secret, and shows what a token is that stands where a password should. No more than the mark
// is shown.
func TestMaskShowsTheMarkOfAnIssuer(t *testing.T) {
	rest := strings.Repeat("q7", 12)
	for mark, lead := range map[string]string{
		"ghp_": "ghp_", "github_pat_": "gith", "glpat-": "glpa", "AKIA": "AKIA", "sk-": "sk-", "sk_live_": "sk_l",
		"xoxb-": "xoxb", "AIza": "AIza", "SG.": "SG.", "hf_": "hf_", "npm_": "npm_", "eyJ": "eyJ", "yett_": "yett",
		"-----BEGIN": "----",
	} {
		if got := shownAs(t, mark+rest, "SECRET_PASSWORD"); !strings.HasSuffix(got, ", begins "+lead+"…]") {
			t.Errorf("%s is shown as %s", mark, got)
		}
	}
	for _, value := range []string{"ghp" + rest, "GHP_" + rest, "xghp_" + rest, "git" + rest, "sk" + rest} {
		if got := shownAs(t, value, "SECRET_PASSWORD"); strings.Contains(got, "begins") {
			t.Errorf("%s is shown as %s", value, got)
		}
	}
	// a quarter of it at most
	if got := shownAs(t, "sk-Winter", "SECRET_PASSWORD"); !strings.HasSuffix(got, ", begins sk…]") {
		t.Errorf("a short one is shown as %s", got)
	}
}
