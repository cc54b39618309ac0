package mesh

import (
	"mime"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// toolOf names an HTTP request: http.HOST/METHOD. The port is no part of it, so that no rule is passed by writing it.
func toolOf(host, method string) (tool, port string, err error) {
	h := lower(host)
	if name, p, err := net.SplitHostPort(h); err == nil {
		h, port = name, p
	}
	h = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(h, "["), "]"), ".")
	if n, err := strconv.ParseUint(port, 10, 16); port != "" {
		if err != nil {
			return "", "", sdk.Errf(sdk.CodeBadRequest, "the port of the host is no number")
		}
		port = strconv.FormatUint(n, 10)
	}
	if ip, err := netip.ParseAddr(h); err == nil {
		h = ip.Unmap().String()
	} else if !hostName(h) {
		return "", "", sdk.Errf(sdk.CodeBadRequest, "the host of the request is no name and no address")
	}
	if !token(method) {
		return "", "", sdk.Errf(sdk.CodeBadRequest, "the method of the request is not one of HTTP")
	}
	return "http." + h + "/" + method, port, nil
}

func hostName(h string) bool {
	if h == "" || strings.Contains(h, "..") || h[0] == '.' {
		return false
	}
	for _, c := range []byte(h) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// token says whether a method is of letters, as all that are registered are. A rule compares it as it is written.
func token(method string) bool {
	for _, c := range []byte(method) {
		if (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return method != ""
}

// agentOf is the agent that acts: whom the header names that the configuration names, else the only one that the key
// acts for, else one with the key's name.
func agentOf(key *store.Key, h headers, named string) (string, error) {
	if named != "" {
		agent, ok, err := h.get(lower(named))
		if err != nil {
			return "", &sdk.Error{Code: sdk.CodeBadRequest, Msg: err.Error()}
		}
		if ok && agent != "" {
			return agent, nil
		}
	}
	if len(key.Agents) == 1 && !strings.ContainsAny(key.Agents[0], `*?[\`) {
		return key.Agents[0], nil
	}
	return key.Name, nil
}

// always are the headers that rules see in any case: what the body is, and whether more follows than one answer.
var always = [...]string{"content-type", "upgrade"}

// authorizeCall makes the call that a request of HTTP is.
func (c *httpCall) authorizeCall(key *store.Key, set *config.DoorExtAuthz, lim exact.Limits) (*wire.AuthorizeRequest,
	error) {
	tool, port, err := toolOf(c.host, c.method)
	if err != nil {
		return nil, err
	}
	agent, err := agentOf(key, c.headers, set.AgentHeader)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(c.path, "?")
	if strings.Contains(c.path, "#") || !utf8.ValidString(c.path) {
		return nil, sdk.Errf(sdk.CodeBadRequest, "the path of the request has a fragment, or is no text")
	}
	o := wire.Object(nil)
	o.Str("method", c.method)
	o.Opt("scheme", c.scheme)
	o.Str("host", strings.TrimSuffix(strings.TrimPrefix(tool, "http."), "/"+c.method))
	o.Opt("port", port)
	o.Str("path", path)
	o.Opt("query", query)
	var seen error
	o.Object("headers", func(w *wire.Writer) {
		done := map[string]bool{}
		for _, name := range append(always[:], set.Headers...) {
			name = lower(name)
			value, ok := c.headers.all(name)
			if !ok || done[name] {
				continue
			}
			done[name] = true
			if !utf8.ValidString(value) {
				seen = sdk.Errf(sdk.CodeBadRequest, "the header %s is no text", name)
				continue
			}
			w.Str(name, value)
		}
	})
	if seen != nil {
		return nil, seen
	}
	if set.Bodies == "require" {
		if err := c.putBody(&o, lim); err != nil {
			return nil, err
		}
	}
	var doc exact.Doc
	if err := doc.Parse(string(o.Close()), lim); err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	return &wire.AuthorizeRequest{AgentID: agent, ToolID: tool, Args: doc.Root(), Redeem: "auto"}, nil
}

// putBody adds the body: as a JSON value where it is one, whatever its type says, else as text.
func (c *httpCall) putBody(o *wire.Writer, lim exact.Limits) error {
	if err := c.whole(); err != nil || len(c.body) == 0 {
		return err
	}
	if coding, ok := c.headers.all("content-encoding"); ok && lower(strings.TrimSpace(coding)) != "identity" {
		return sdk.Errf(sdk.CodeUnsupportedCoding, "the body of the request is compressed, so no rule can read it")
	}
	var doc exact.Doc
	err := doc.Parse(string(c.body), lim)
	kind, _ := c.headers.all("content-type")
	switch {
	case err == nil:
		o.Raw("body", c.body)
	case isJSON(kind):
		return &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: "the body of the request: " + err.Error()}
	case utf8.Valid(c.body):
		o.Str("body_text", string(c.body))
	default:
		return sdk.Errf(sdk.CodeUnsupportedCoding, "the body of the request is neither JSON nor text, so no rule can read it")
	}
	return nil
}

// partialHeader says whether a body was cut. Envoy adds it where it sends bodies.
const partialHeader = "x-envoy-auth-partial-body"

// whole refuses a request whose body is not there, or not all of it.
func (c *httpCall) whole() error {
	if partial, ok := c.headers.all(partialHeader); ok && lower(partial) != "false" {
		return sdk.Errf(sdk.CodeTooLarge, "Envoy sent a part of the body; raise with_request_body.max_request_bytes, and "+
			"leave allow_partial_message off")
	}
	missing := sdk.Errf(sdk.CodeBadRequest, "the request may have a body, and Envoy sent none; set with_request_body, or "+
		"decide without bodies (doors.ext_authz.bodies: ignore)")
	length, announced, err := c.headers.get("content-length")
	if err != nil {
		return &sdk.Error{Code: sdk.CodeBadRequest, Msg: err.Error()}
	}
	_, chunked := c.headers.all("transfer-encoding")
	switch n, err := strconv.ParseUint(length, 10, 63); {
	case announced && err != nil:
		return sdk.Errf(sdk.CodeBadRequest, "content-length is no number")
	case announced && n == uint64(len(c.body)):
		return nil
	case announced && len(c.body) > 0:
		return sdk.Errf(sdk.CodeBadRequest, "the body has %d bytes, and content-length says %d", len(c.body), n)
	case announced:
		return missing
	case len(c.body) > 0:
		return nil
	case chunked, c.method == "POST", c.method == "PUT", c.method == "PATCH":
		return missing
	}
	return nil
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// ownHeaders are those that the gateway reserves: no upstream gets them from a client.
func ownHeaders(h headers) []string {
	var out []string
	seen := map[string]bool{}
	for i := range h {
		if name := h[i].name; strings.HasPrefix(name, "x-yett-") && !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}
