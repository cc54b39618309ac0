package authzen_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/doortest"
)

const (
	alice   = `"subject":{"type":"user","id":"alice"}`
	bob     = `"subject":{"type":"user","id":"bob"}`
	admin   = `"subject":{"type":"user","id":"bob","properties":{"role":"admin"}}`
	read    = `"action":{"name":"read"}`
	write   = `"action":{"name":"write"}`
	record1 = `"resource":{"type":"record","id":"record-1"}`
	closed  = `"resource":{"type":"record","id":"record-2","properties":{"status":"archived"}}`
)

// join makes a request of its members.
func join(members ...string) string { return "{" + strings.Join(members, ",") + "}" }

// certified is the door with the rules of the certification scenario.
func certified(t testing.TB) (*bench, string) {
	t.Helper()
	b := open(t, doortest.WithRule(t, byRules(t, "certification.yaml")))
	return b, b.Key("pep", "agent").Value
}

// The fixed decisions of the certification scenario, and its requests around them.
func TestCertificationBasic(t *testing.T) {
	b, key := certified(t)
	for _, c := range []struct {
		name, body string
		want       bool
	}{
		{"1", join(alice, read, record1), true},
		{"2", join(alice, write, record1), true},
		{"3", join(bob, read, record1), true},
		{"4", join(bob, write, record1), false},
		{"5", join(alice, write, closed), false},
		{"6", join(admin, write, closed), true},
		{"7", join(alice, `"action":{"name":"delete","properties":{"soft":true}}`, record1), true},
		{"8", join(alice, `"action":{"name":"delete","properties":{"soft":false}}`, record1), false},
		{"context", join(alice, read, record1, `"context":{"time":"2025-06-27T18:03-07:00","ip":"192.168.1.1"}`), true},
		{"more properties", join(`"subject":{"type":"user","id":"alice","properties":{"department":"Sales"}}`,
			`"action":{"name":"read","properties":{"method":"GET"}}`,
			`"resource":{"type":"record","id":"record-1","properties":{"status":"active","owner":"bob"}}`), true},
		{"unknown members", join(alice, read, record1, `"foo":"bar","futureField":{"nested":true}`), true},
	} {
		for range 2 { // the same request has the same decision
			if got, r := b.decide(key, c.body); got != c.want {
				t.Errorf("%s: %t, want %t: %s", c.name, got, c.want, r.text)
			}
		}
	}
	_, r := b.decide(key, join(alice, write, closed))
	if r.str("context", "reason_code") != "ARCHIVED" || r.str("context", "decision_id") == "" ||
		r.str("context", "reason_user", "en") != "The record is archived." {
		t.Errorf("a denial does not say why: %s", r.text)
	}
}

// What is malformed gets status 400, an error message and no decision.
func TestMalformed(t *testing.T) {
	b, key := certified(t)
	deepEnd := strings.Repeat("]", 80) + "}"
	for name, body := range map[string]string{
		"no subject":           join(read, record1),
		"no action":            join(alice, record1),
		"no resource":          join(alice, read),
		"no subject type":      join(`"subject":{"id":"alice"}`, read, record1),
		"no subject id":        join(`"subject":{"type":"user"}`, read, record1),
		"empty subject id":     join(`"subject":{"type":"user","id":""}`, read, record1),
		"null subject id":      join(`"subject":{"type":"user","id":null}`, read, record1),
		"no action name":       join(alice, `"action":{}`, record1),
		"no resource type":     join(alice, read, `"resource":{"id":"record-1"}`),
		"no resource id":       join(alice, read, `"resource":{"type":"record"}`),
		"subject is text":      join(`"subject":"alice"`, read, record1),
		"action is a number":   join(alice, `"action":{"name":123}`, record1),
		"properties are text":  join(`"subject":{"type":"user","id":"alice","properties":"x"}`, read, record1),
		"context is a list":    join(alice, read, record1, `"context":[]`),
		"not JSON":             `{"subject":`,
		"two documents":        join(alice, read, record1) + `{}`,
		"a list":               `[` + join(alice, read, record1) + `]`,
		"twice the same name":  join(bob, alice, read, record1),
		"twice, within":        join(`"subject":{"type":"user","id":"bob","id":"alice"}`, read, record1),
		"a long id":            join(`"subject":{"type":"user","id":"`+strings.Repeat("a", 300)+`"}`, read, record1),
		"a long action":        join(alice, `"action":{"name":"`+strings.Repeat("a", 300)+`"}`, record1),
		"deep":                 join(alice, read, record1, `"context":{"a":`+strings.Repeat("[", 80)+deepEnd),
		"an id with a control": join(`"subject":{"type":"user","id":"al\u0000ice"}`, read, record1),
		"an id with a key":     join(`"subject":{"type":"user","id":"`+key+`"}`, read, record1),
	} {
		r := b.send(key, "POST", "/access/v1/evaluation", body)
		message, isText := r.json.(string)
		if r.status != http.StatusBadRequest || !isText || message == "" {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
	whole := join(alice, read, record1)
	for name, header := range map[string]string{"another type": "text/plain", "no type": ""} {
		if r := b.send(key, "POST", "/access/v1/evaluation", whole, "Content-Type", header); r.status != 400 {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
	if r := b.send(key, "POST", "/access/v1/evaluation", ""); r.status != http.StatusBadRequest {
		t.Errorf("empty: %d %s", r.status, r.text)
	}
}

func TestCertificationBatch(t *testing.T) {
	b, key := certified(t)
	for _, c := range []struct {
		name, body, want string
	}{
		{"order", join(bob, record1, `"evaluations":[{`+read+`},{`+write+`}]`), "true false"},
		{"properties", join(alice, write, `"evaluations":[{"resource":{"type":"record","id":"record-1","properties":`+
			`{"status":"active"}}},{`+closed+`}]`), "true false"},
		{"subject properties", join(write, closed, `"evaluations":[{`+alice+`},{`+admin+`}]`), "false true"},
		{"no defaults", join(`"evaluations":[` + join(alice, read, record1) + `,` + join(bob, write, record1) + `]`), "true false"},
		{"a default of the type", join(alice, write, `"resource":{"type":"record"}`, `"evaluations":[{"resource":`+
			`{"id":"record-1","properties":{"status":"active"}}},{`+closed+`}]`), "true false"},
		{"properties are not merged", join(write, `"subject":{"type":"user","id":"x","properties":{"role":"admin"}}`, closed,
			`"evaluations":[{},{`+bob+`},{"subject":{"id":"bob"}}]`), "true false false"},
		{"an empty entity", join(alice, read, record1, `"evaluations":[{"resource":{ }}]`), "true"},
		{"an error is one evaluation's", join(alice, read, `"evaluations":[{`+record1+`},{},{"resource":1},7]`),
			"true false false false"},
		{"until a denial", join(alice, write, `"evaluations":[{`+record1+`},{`+closed+`},{`+record1+`}]`,
			`"options":{"evaluations_semantic":"deny_on_first_deny"}`), "true false"},
		{"until an error", join(alice, write, `"evaluations":[{`+record1+`},{},{`+record1+`}]`,
			`"options":{"evaluations_semantic":"deny_on_first_deny"}`), "true false"},
		{"until a permit", join(alice, write, `"evaluations":[{`+closed+`},{`+record1+`},{`+record1+`}]`,
			`"options":{"evaluations_semantic":"permit_on_first_permit"}`), "false true"},
		{"all", join(alice, write, `"evaluations":[{`+closed+`},{`+record1+`},{`+record1+`}]`,
			`"options":{"evaluations_semantic":"execute_all","another_option":"value"}`), "false true true"},
	} {
		r := b.send(key, "POST", "/access/v1/evaluations", c.body)
		list, _ := r.at("evaluations").([]any)
		var got []string
		for i := range list {
			got = append(got, fmt.Sprint(r.at("evaluations", i, "decision")))
		}
		if r.status != http.StatusOK || strings.Join(got, " ") != c.want || r.at("decision") != nil {
			t.Errorf("%s: %d %s, want %s", c.name, r.status, r.text, c.want)
		}
	}
	r := b.send(key, "POST", "/access/v1/evaluations", join(alice, read, `"evaluations":[{}]`))
	if r.at("evaluations", 0, "context", "error", "status") != 400.0 ||
		r.str("evaluations", 0, "context", "error", "message") != "resource is required" {
		t.Errorf("an error within: %s", r.text)
	}
	for _, list := range []string{"", `,"evaluations":[]`} {
		body := strings.TrimSuffix(join(alice, read, record1), "}") + list + "}"
		if r := b.send(key, "POST", "/access/v1/evaluations", body); r.status != 200 || r.at("decision") != true {
			t.Errorf("%s: %s", body, r.text)
		}
	}
}

// A batch as a whole can be malformed, or too long.
func TestBadBatches(t *testing.T) {
	b, key := certified(t)
	many := `"evaluations":[` + strings.TrimSuffix(strings.Repeat("{},", 101), ",") + `]`
	for name, body := range map[string]string{
		"no list":          join(alice, read, record1, `"evaluations":{}`),
		"null":             join(alice, read, record1, `"evaluations":null`),
		"unknown semantic": join(alice, read, record1, `"evaluations":[{}],"options":{"evaluations_semantic":"any"}`),
		"a semantic of 1":  join(alice, read, record1, `"evaluations":[{}],"options":{"evaluations_semantic":1}`),
		"options are text": join(alice, read, record1, `"evaluations":[{}],"options":"x"`),
		"101":              join(alice, read, record1, many),
	} {
		if r := b.send(key, "POST", "/access/v1/evaluations", body); r.status != http.StatusBadRequest || permits(r.json) {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
	big := join(alice, read, record1, `"context":{"x":"`+strings.Repeat("x", 900_000)+`"}`,
		`"evaluations":[`+strings.TrimSuffix(strings.Repeat("{},", 12), ",")+`]`)
	r := b.send(key, "POST", "/access/v1/evaluations", big)
	if r.at("evaluations", 8, "decision") != true || r.at("evaluations", 9, "decision") != false ||
		r.at("evaluations", 11, "context", "error", "status") != 413.0 {
		t.Errorf("%.2000s", r.text)
	}
}

func TestDiscovery(t *testing.T) {
	b, _ := certified(t)
	r := b.send("", "GET", "/.well-known/authzen-configuration", "")
	if r.status != 200 || r.header.Get("Content-Type") != "application/json" || r.str("policy_decision_point") != pdp ||
		r.str("access_evaluation_endpoint") != pdp+"/access/v1/evaluation" ||
		r.str("access_evaluations_endpoint") != pdp+"/access/v1/evaluations" ||
		r.str("access_request_endpoint") != pdp+"/access/v1/requests" ||
		r.str("capabilities", 0) != "urn:openid:authzen:capability:access-request" || strings.Contains(r.text, "search") {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// A door whose identifier has a path is below that path, and its metadata where the specification has it then.
func TestBelowAPath(t *testing.T) {
	d := doortest.New(t)
	b, key := openAs(t, d, pdp+"/tenant-1"), d.Key("pep", "agent").Value
	r := b.send("", "GET", "/.well-known/authzen-configuration/tenant-1", "")
	if r.str("policy_decision_point") != pdp+"/tenant-1" {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := b.send(key, "POST", r.str("access_evaluation_endpoint"), join(alice, read, record1)); !permits(r.json) {
		t.Errorf("%d %s", r.status, r.text)
	}
	for _, path := range []string{"/.well-known/authzen-configuration", "/access/v1/evaluation"} {
		if r := b.send(key, "POST", path, join(alice, read, record1)); r.status != 404 {
			t.Errorf("%s: %d %s", path, r.status, r.text)
		}
	}
}

// Nothing can be listed. What is asked in the right form gets an empty list, and never an error for an unknown type.
func TestSearch(t *testing.T) {
	b, key := certified(t)
	anybody := `"subject":{"type":"spaceship"}`
	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{"subject", join(anybody, read, record1, `"page":{"limit":1}`), 200},
		{"resource", join(alice, read, `"resource":{"type":"record"}`, `"context":{}`), 200},
		{"action", join(alice, record1), 200},
		{"subject", join(anybody, record1), 400},
		{"subject", join(anybody, read, `"resource":{"type":"record"}`), 400},
		{"resource", join(read, `"resource":{"type":"record"}`), 400},
		{"resource", join(anybody, read, `"resource":{"type":"record"}`), 400},
		{"action", join(alice), 400},
		{"action", `[]`, 400},
	} {
		r := b.send(key, "POST", "/access/v1/search/"+c.kind, c.body)
		list, isList := r.at("results").([]any)
		if r.status != c.want || c.want == 200 && (!isList || len(list) > 0 || r.at("page", "next_token") != "") {
			t.Errorf("%s %s: %d %s", c.kind, c.body, r.status, r.text)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	b, key := certified(t)
	holds := "a " + key
	for given, want := range map[string]string{"bfe9eb29-ab87": "bfe9eb29-ab87", "": "req_test", holds: "req_test",
		"any string, {even} this": "any string, {even} this", strings.Repeat("x", 300): "req_test"} {
		for _, k := range []string{key, "no key"} { // an error has it too
			r := b.send(k, "POST", "/access/v1/evaluation", join(alice, read, record1), "X-Request-ID", given)
			if got := r.header.Get("X-Request-Id"); got != want {
				t.Errorf("%q: %q", given, got)
			}
		}
	}
}
