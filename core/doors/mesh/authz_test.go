package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/mesh"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// check is what Envoy asks about a request. Headers are name, value, name, value.
func check(method, host, path string, pairs ...string) *authv3.CheckRequest {
	h := map[string]string{":method": method, ":path": path, ":authority": host}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Principal: "spiffe://mesh/agent"},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Id: "1", Method: method,
			Host: host, Path: path, Scheme: "https", Size: -1, Headers: h}}}}
}

func checkAnswer() *authv3.CheckResponse { return new(authv3.CheckResponse) }

// withBody adds a body as Envoy does with pack_as_bytes.
func withBody(r *authv3.CheckRequest, body string) *authv3.CheckRequest {
	http := r.Attributes.Request.Http
	http.RawBody = []byte(body)
	http.Headers["content-length"] = fmt.Sprint(len(body))
	http.Headers["x-envoy-auth-partial-body"] = "false"
	return r
}

func ask(t *testing.T, conn *grpc.ClientConn, key string, r *authv3.CheckRequest) *authv3.CheckResponse {
	t.Helper()
	got, err := authv3.NewAuthorizationClient(conn).Check(as(t, key), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// passes says whether Envoy lets a request pass for that answer.
func passes(r *authv3.CheckResponse) bool { return r.GetStatus().GetCode() == int32(codes.OK) }

// told is the JSON of a refusal.
func told(t *testing.T, body string) map[string]string {
	t.Helper()
	var out map[string]string
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return out
}

func TestCheckEffects(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	for host, want := range map[string]string{"api.example": "", "deny.example": "DENY", "defer.example": "DEFER",
		"fails.example": "DENY"} {
		got := ask(t, conn, key, check("GET", host, "/v1/x?q=1"))
		if want == "" {
			if !passes(got) || got.GetOkResponse() == nil {
				t.Errorf("%s: %v", host, got)
			}
			continue
		}
		if passes(got) || got.GetDeniedResponse().GetStatus().GetCode() != 403 {
			t.Fatalf("%s: %v", host, got)
		}
		why := told(t, got.GetDeniedResponse().GetBody())
		if why["effect"] != want || !strings.HasPrefix(why["decision_id"], "dec_") || why["reason_code"] == "" {
			t.Errorf("%s: %v", host, why)
		}
		link := ""
		if want == "DEFER" {
			link = console + "/approvals/" + why["decision_id"]
		}
		if why["approval_url"] != link || strings.Contains(got.String(), "dft_") || why["defer_token"] != "" {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// An approval lets exactly the approved request pass, once.
func TestCheckRedeems(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	pay := func(n string) *authv3.CheckRequest {
		return withBody(check("POST", "defer.example", "/pay", "content-type", "application/json"), `{"n":`+n+`}`)
	}
	if got := ask(t, conn, key, pay("1.10")); passes(got) {
		t.Fatal(got)
	}
	if n := b.AnswerPending(true); n != 1 {
		t.Fatalf("%d wait", n)
	}
	if got := ask(t, conn, key, pay("1.11")); passes(got) {
		t.Error("another body passes with the approval")
	}
	if got := ask(t, conn, key, pay("1.10")); !passes(got) {
		t.Errorf("approved: %v", got)
	}
	if got := ask(t, conn, key, pay("1.10")); passes(got) {
		t.Error("the approval is good for two")
	}
}

func TestCheckBuildsTheCall(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	r := withBody(check("POST", "API.Example.:8443", "/v1/x?token=1&b=2", "content-type", "application/json",
		"x-tenant", "acme", "x-other", "hidden"), `{"n":12345678901234567890.10}`)
	if got := ask(t, conn, key, r); !passes(got) {
		t.Fatal(got)
	}
	raw := check("GET", "[::1]:9", "/")
	raw.Attributes.Request.Http.Headers = nil
	raw.Attributes.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: "X-Tenant", RawValue: []byte("a")}, {Key: "x-tenant", RawValue: []byte("b")}}}
	if got := ask(t, conn, key, raw); !passes(got) {
		t.Fatal(got)
	}
	text := withBody(check("POST", "api.example", "/t", "content-type", "text/plain"), "hello")
	if got := ask(t, conn, key, text); !passes(got) {
		t.Fatal(got)
	}
	// the type that a client writes hides nothing from rules on args.body
	if got := ask(t, conn, key, withBody(check("POST", "api.example", "/t", "content-type", "text/plain"),
		`{"a":1}`)); !passes(got) {
		t.Fatal(got)
	}
	want := []string{
		`http.api.example/POST {"body":{"n":12345678901234567890.1},"headers":{"content-type":"application/json",` +
			`"x-tenant":"acme"},"host":"api.example","method":"POST","path":"/v1/x","port":"8443",` +
			`"query":"token=1&b=2","scheme":"https"}`,
		`http.::1/GET {"headers":{"x-tenant":"a, b"},"host":"::1","method":"GET","path":"/","port":"9","scheme":"https"}`,
		`http.api.example/POST {"body_text":"hello","headers":{"content-type":"text/plain"},"host":"api.example",` +
			`"method":"POST","path":"/t","scheme":"https"}`,
		`http.api.example/POST {"body":{"a":1},"headers":{"content-type":"text/plain"},"host":"api.example",` +
			`"method":"POST","path":"/t","scheme":"https"}`,
	}
	if got := b.Calls(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What a client sends of our own headers never reaches the upstream.
func TestCheckRemovesOwnHeaders(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, allOn()))
	got := ask(t, conn, b.Key("agent", "agent").Value, check("GET", "api.example", "/", "x-yett-defer-token", "x",
		"x-yett-authorization", "y", "x-tenant", "z"))
	remove := got.GetOkResponse().GetHeadersToRemove()
	slices.Sort(remove)
	if !slices.Equal(remove, []string{"x-yett-authorization", "x-yett-defer-token"}) {
		t.Errorf("removes %q", remove)
	}
}

func TestCheckRefuses(t *testing.T) {
	b := doortest.New(t)
	k := b.Key("agent", "agent")
	conn, _ := dial(t, settings(t, b, allOn()))
	partial := withBody(check("POST", "api.example", "/"), "half")
	partial.Attributes.Request.Http.Headers["x-envoy-auth-partial-body"] = "true"
	cut := withBody(check("POST", "api.example", "/"), "half")
	cut.Attributes.Request.Http.Headers["content-length"] = "9"
	binary := withBody(check("POST", "api.example", "/"), "")
	binary.Attributes.Request.Http.RawBody = []byte("\xff\xfe")
	binary.Attributes.Request.Http.Headers["content-length"] = "2"
	long := withBody(check("POST", "api.example", "/"), strings.Repeat("x", int(b.Limits.AuthorizeBody)))
	for name, c := range map[string]struct {
		r    *authv3.CheckRequest
		want int
	}{
		"partial body":        {partial, 413},
		"cut body":            {cut, 400},
		"no body":             {check("POST", "api.example", "/", "content-length", "4"), 400},
		"chunked, no body":    {check("GET", "api.example", "/", "transfer-encoding", "chunked"), 400},
		"unknown, no body":    {check("PUT", "api.example", "/"), 400},
		"compressed body":     {withBody(check("POST", "api.example", "/", "content-encoding", "gzip"), "xx"), 415},
		"binary body":         {binary, 415},
		"two members":         {withBody(check("POST", "a.example", "/", "content-type", "application/json"), `{"a":1,"a":2}`), 400},
		"oversized body":      {long, 413},
		"no host":             {check("GET", "", "/"), 400},
		"host with a slash":   {check("GET", "api.example/x", "/"), 400},
		"method with a slash": {check("GET/x", "api.example", "/"), 400},
		"small letters":       {check("get", "api.example", "/"), 400},
		"fragment":            {check("GET", "api.example", "/a#b"), 400},
		"long host":           {check("GET", strings.Repeat("a", 300), "/"), 403},
		"nothing":             {new(authv3.CheckRequest), 400},
	} {
		got := ask(t, conn, k.Value, c.r)
		if passes(got) || int(got.GetDeniedResponse().GetStatus().GetCode()) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if calls := b.Calls(); len(calls) > 0 {
		t.Errorf("a rule saw %q", calls)
	}
}

func TestCheckFailsClosed(t *testing.T) {
	for _, f := range append([]failure{killed}, failures...) {
		t.Run(f.name, func(t *testing.T) {
			b := doortest.New(t)
			conn, _ := dial(t, settings(t, b, allOn()))
			key := f.make(t, b)
			got := ask(t, conn, key, check("GET", "api.example", "/"))
			if passes(got) || got.GetDeniedResponse() == nil {
				t.Errorf("%v", got)
			}
		})
	}
}

// A header may name the agent, and the key says which agents it may name.
func TestCheckAgents(t *testing.T) {
	b := doortest.New(t)
	k := b.Key("agent", "agent")
	conn, _ := dial(t, settings(t, b, allOn()))
	if _, err := b.Service.Kill(context.Background(), doortest.Operator, kill("robot")); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, conn, k.Value, check("GET", "api.example", "/", "x-agent-id", "robot")); passes(got) {
		t.Errorf("the killed agent passes: %v", got)
	}
	if got := ask(t, conn, k.Value, check("GET", "api.example", "/", "x-agent-id", "other")); !passes(got) {
		t.Errorf("another agent: %v", got)
	}
	only := scoped(t, b, "only-bot", "bot-1")
	if got := ask(t, conn, only, check("GET", "api.example", "/", "x-agent-id", "other")); passes(got) {
		t.Errorf("a key acts for an agent that is not its own: %v", got)
	}
	if got := ask(t, conn, only, check("GET", "api.example", "/")); !passes(got) {
		t.Errorf("the only agent of a key: %v", got)
	}
}

// With bodies: ignore, a call is decided without its body, wherever it is.
func TestCheckIgnoresBodies(t *testing.T) {
	b := doortest.New(t)
	doors := allOn()
	doors.ExtAuthz.Bodies = "ignore"
	conn, _ := dial(t, settings(t, b, doors))
	key := b.Key("agent", "agent").Value
	for _, r := range []*authv3.CheckRequest{check("POST", "api.example", "/", "content-length", "4"),
		withBody(check("POST", "api.example", "/"), "\xff")} {
		if got := ask(t, conn, key, r); !passes(got) {
			t.Errorf("%v", got)
		}
	}
	for _, c := range b.Calls() {
		if strings.Contains(c, "body") {
			t.Error(c)
		}
	}
}

// The settings that no configuration gives deny as well.
func TestCheckWithoutSettings(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, config.Doors{ExtAuthz: config.DoorExtAuthz{Enabled: true}}))
	if got := ask(t, conn, "", check("GET", "api.example", "/")); passes(got) {
		t.Errorf("%v", got)
	}
	if routes := mesh.Routes(settings(t, b, config.Doors{})); len(routes) != 0 {
		t.Errorf("%d routes of a door that is off", len(routes))
	}
}
