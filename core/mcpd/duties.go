package mcpd

import (
	"net/http"
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// A server that is a command does not see HTTP, so the gateway does for it what the newer era asks of servers that are
// reached by HTTP: it refuses requests whose headers or _meta are missing, and gives errors their status.

// isCommand reports whether the server is one.
func (s *server) isCommand() bool {
	_, ok := s.up.(*local)
	return ok
}

// duties refuses a request of the newer era that a server reached by HTTP would refuse.
func (x *exchange) duties() *fault {
	if !x.c.modern || !x.srv.isCommand() || x.msg.kind != request {
		return nil
	}
	meta := x.msg.params.Get("_meta")
	for name, kind := range map[string]exact.Kind{metaVersion: exact.String, metaCapabilities: exact.Object} {
		if meta.Get(name).Kind() != kind {
			return &fault{code: codeParams, status: http.StatusBadRequest,
				msg: "the member _meta of params must have " + name + ", " + kind.String()}
		}
	}
	h := x.r.Header
	missing := func(name string) *fault {
		return &fault{code: codeHeaders, status: http.StatusBadRequest, msg: "the header " + name + " is missing"}
	}
	switch row := fromClients[x.msg.method]; {
	case h.Get("Mcp-Protocol-Version") == "":
		return missing("MCP-Protocol-Version")
	case h.Get("Mcp-Method") == "":
		return missing("Mcp-Method")
	case row.name != "" && len(h.Values("Mcp-Name")) == 0:
		return missing("Mcp-Name")
	}
	return nil
}

// errorStatus is the status of an answer of the newer era: errors that a server finds at the head of a request have one
// of their own.
func errorStatus(text string, lim exact.Limits) int {
	m, f := parseAnswer(text, lim)
	if f != nil {
		return http.StatusOK
	}
	switch m.member("error").Get("code").Raw() {
	case "-32601":
		return http.StatusNotFound
	case "-32020", "-32021", "-32022":
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// paramHeader is an argument that a client repeats in a header, because the tool's schema asks for that.
type paramHeader struct {
	path []string // names of members from the arguments
	name string   // of the header
}

// mostParamHeaders bounds those of one tool.
const mostParamHeaders = 64

// paramHeadersOf finds them in the schema of a tool's input.
func paramHeadersOf(schema exact.Value, path []string) (out []paramHeader) {
	for name, property := range schema.Get("properties").Members() {
		at := append(slices.Clone(path), strings.Clone(name)) // a part of a whole page
		if h := property.Get("x-mcp-header"); h.Kind() == exact.String {
			out = append(out, paramHeader{at, http.CanonicalHeaderKey(paramHeaders + h.Str())})
		}
		if len(at) < 8 {
			out = append(out, paramHeadersOf(property, at)...)
		}
		if len(out) > mostParamHeaders {
			return out[:mostParamHeaders]
		}
	}
	return out
}

// agreeParams compares the headers that repeat arguments with the arguments: what lies between may decide by the one,
// and the server act by the other. It knows the schemas that clients were shown. A command cannot look for itself, so a
// header that is missing there is refused too.
func (x *exchange) agreeParams() *fault {
	if !x.c.modern || x.msg.method != callTool {
		return nil
	}
	for _, p := range x.srv.defs.headersOf(x.msg.params.Get("name").Str()) {
		arg := x.msg.params.Get("arguments")
		for _, name := range p.path {
			arg = arg.Get(name)
		}
		sent := x.r.Header.Values(p.name)
		want, is := headerText(arg)
		switch {
		case len(sent) == 0 && (!is || !x.srv.isCommand()):
		case len(sent) != 1 || !is || !plainHeader(sent[0]) || !sameHeader(sent[0], want, arg.Kind()):
			return headersDiffer(p.name)
		}
	}
	return nil
}

// headerText is an argument as it stands in a header; is says that it can.
func headerText(arg exact.Value) (text string, is bool) {
	switch arg.Kind() {
	case exact.String:
		return arg.Str(), true
	case exact.Number, exact.Bool:
		return arg.Raw(), true
	}
	return "", false
}

// sameHeader compares a header with an argument.
func sameHeader(sent, want string, kind exact.Kind) bool {
	sent = decodeHeader(sent)
	if sent == want || kind != exact.Number {
		return sent == want
	}
	var doc exact.Doc
	if doc.Parse("["+sent+","+want+"]", exact.DefaultLimits) != nil || doc.Root().Len() != 2 {
		return false
	}
	a, b := doc.Root().Index(0), doc.Root().Index(1)
	return a.Kind() == exact.Number && string(a.AppendCanonical(nil)) == string(b.AppendCanonical(nil))
}

// plainHeader reports whether a header has the characters that it may have, base64 where others are meant.
func plainHeader(v string) bool {
	if strings.HasPrefix(v, "=?base64?") && strings.HasSuffix(v, "?=") && decodeHeader(v) == v {
		return false
	}
	return !strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' && r != '\t') || r > '~' })
}
