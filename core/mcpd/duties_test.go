package mcpd

import (
	"testing"

	"github.com/yett-dev/yett/sdk/exact"
)

func value(t *testing.T, text string) exact.Value {
	t.Helper()
	var doc exact.Doc
	if err := doc.Parse(text, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}

// A header that repeats an argument says the same as the argument, in any of the forms that it may have.
func TestHeadersRepeatArguments(t *testing.T) {
	for _, c := range []struct {
		sent, arg string
		same      bool
	}{
		{"a b", `"a b"`, true}, {"=?base64?YQ==?=", `"a"`, true}, {"=?base64?YQ==", `"=?base64?YQ=="`, true},
		{"a", `"b"`, false}, {"A", `"a"`, false}, {"1", `1`, true}, {"1.0", `1`, true}, {"1e0", `1.0`, true}, {"2", `1`, false},
		{"1", `"1"`, true}, {"true", `true`, true}, {"false", `true`, false}, {"1,1", `1`, false}, {"", `1`, false},
		{"12345678901234567891", `12345678901234567890`, false},
	} {
		arg := value(t, c.arg)
		want, is := headerText(arg)
		if got := is && sameHeader(c.sent, want, arg.Kind()); got != c.same {
			t.Errorf("%q and %s: %t", c.sent, c.arg, got)
		}
	}
	for v, plain := range map[string]bool{"a b\t": true, "=?base64?YQ==?=": true, "=?base64?!?=": false, "é": false,
		"a\x01": false} {
		if plainHeader(v) != plain {
			t.Errorf("%q", v)
		}
	}
}

func TestParamHeaders(t *testing.T) {
	got := paramHeadersOf(value(t, `{"properties":{"region":{"x-mcp-header":"Region"},"to":{"properties":{"id":`+
		`{"x-mcp-header":"to-id"}}},"n":{"x-mcp-header":1}}}`), nil)
	if len(got) != 2 || got[0].name != "Mcp-Param-Region" || got[1].name != "Mcp-Param-To-Id" || len(got[1].path) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestErrorStatus(t *testing.T) {
	for text, want := range map[string]int{`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`: 404,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x"}}`: 400,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}`: 200, `{"jsonrpc":"2.0","id":1,"result":{}}`: 200} {
		if got := errorStatus(text, exact.DefaultLimits); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
}
