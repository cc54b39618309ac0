package formats_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/log/formats"
)

// cefEvent is a CEF event as a reader takes it apart that knows nothing of who has written it.
type cefEvent struct {
	header []string // version, vendor, product, version, signature, name, severity
	ext    map[string]string
}

var cefKey = regexp.MustCompile(`(?:^| )([A-Za-z0-9_]+)=`)

func readCEF(line string) (e cefEvent, err error) {
	rest, ok := strings.CutPrefix(line, "CEF:")
	if !ok || strings.ContainsAny(line, "\r\n\x00") {
		return e, fmt.Errorf("no CEF in one line")
	}
	field := ""
	for len(e.header) < 7 {
		if rest == "" {
			return e, fmt.Errorf("%d fields in the header, want 7", len(e.header))
		}
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			field, rest = field+rest[1:2], rest[2:]
		case rest[0] == '|':
			e.header, field, rest = append(e.header, field), "", rest[1:]
		default:
			field, rest = field+rest[:1], rest[1:]
		}
	}
	e.ext = map[string]string{}
	at := cefKey.FindAllStringSubmatchIndex(rest, -1)
	for i, m := range at {
		end := len(rest)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		key := rest[m[2]:m[3]]
		if _, twice := e.ext[key]; twice {
			return e, fmt.Errorf("%s stands twice", key)
		}
		e.ext[key] = strings.NewReplacer(`\\`, `\`, `\=`, `=`, `\n`, "\n", `\r`, "\r").Replace(rest[m[1]:end])
	}
	return e, nil
}

func TestCEF(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(string(convert(t, "cef", records(t)...)), "\n"), "\n")
	signatures := map[string]string{}
	for i, line := range lines {
		e, err := readCEF(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.ext["externalId"] != fmt.Sprint(i+1) || e.ext["deviceExternalId"] != "sto_TEST" || e.ext["cat"] == "" ||
			!strings.HasPrefix(e.ext["rt"], "17726") {
			t.Errorf("%s: it does not lead back to record %d", line, i+1)
		}
		for key := range e.ext {
			if label, ok := strings.CutSuffix(key, "Label"); ok && e.ext[label] == "" {
				t.Errorf("%s: %s has no value", line, key)
			}
		}
		if name, ok := signatures[e.header[4]]; ok && name != e.header[5] {
			t.Errorf("signature %s has two names", e.header[4])
		}
		signatures[e.header[4]] = e.header[5]
	}
	e, err := readCEF(lines[3])
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"suid": "1000", "spid": "77", "act": "DENY", "outcome": "failure",
		"reason": "RULE_DENY",
		"msg":    "=cmd|' /C calc'!A0\r\nnext=\"line\" \\ tab end",
		"cs3":    "a|b", "cs3Label": "ruleId", "suser": "key_agent"} {
		if e.ext[key] != want {
			t.Errorf("%s is %q, want %q", key, e.ext[key], want)
		}
	}
}

func TestCEFSeverities(t *testing.T) {
	const line = `{"v":1,"seq":1,"store_id":"s","timestamp":"2026-03-04T05:06:07Z",%s}`
	for members, want := range map[string]string{
		`"type":"decision","effect":"PERMIT"`:              "1",
		`"type":"decision","effect":"DEFER"`:               "3",
		`"type":"decision","effect":"DENY"`:                "5",
		`"type":"decision","effect":"DENY","dry_run":true`: "1",
		`"type":"scan","outcome":"PASS"`:                   "1",
		`"type":"scan","outcome":"WARNED"`:                 "3",
		`"type":"scan","outcome":"DENIED"`:                 "5",
		`"type":"scan","outcome":"REDACTED","findings":[{"severity":"high"},{"severity":"critical","shadow":true}]`: "8",
		`"type":"scan","outcome":"REDACTED","findings":[{"severity":"low"},{"severity":"critical"}]`:                "10",
		`"type":"plugin_state","to":"running"`:     "1",
		`"type":"plugin_state","to":"backoff"`:     "5",
		`"type":"plugin_state","to":"quarantined"`: "8",
		`"type":"action_result","success":false`:   "3",
		`"type":"kill"`:                            "8",
		`"type":"voided"`:                          "8",
		`"type":"from the future"`:                 "0",
	} {
		var out strings.Builder
		w, err := formats.New("cef", &out)
		if err == nil {
			err = w.Record(fmt.Appendf(nil, line, members))
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, err := readCEF(strings.TrimSuffix(out.String(), "\n")); err != nil || e.header[6] != want {
			t.Errorf("%s: %v, severity %v, want %s", members, err, e.header, want)
		}
	}
}

func TestCEFValues(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"a=b", ` k=a\=b`}, {`a\b`, ` k=a\\b`}, {"a|b", " k=a|b"}, {"a\r\nb", ` k=a\r\nb`}, {"a\tb", " k=a b"},
		{"a\x00\x7fb", " k=a\ufffd\ufffdb"}, {strings.Repeat("é", 10), " k=" + strings.Repeat("é", 10)},
		{strings.Repeat("é", 11), " k=" + strings.Repeat("é", 9) + "…"}, {`\=\=\=\=\=x`, ` k=\\\=\\\=\\\=\\\=\\…`},
	} {
		if got := string(formats.CEFPair(nil, "k", c.in, 10)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
	if got := string(formats.CEFHeader(nil, "a|b\\c=d\ne")); got != `a\|b\\c=d`+"\ufffde" {
		t.Errorf("a field of the header: %q", got)
	}
}
