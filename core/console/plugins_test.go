package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

func TestNoPluginsTeaches(t *testing.T) {
	d := newDesk(t)
	d.rack.config = Config{Policy: "p-1"}
	d.as("eve", store.RoleAuditor).get("/plugins").is(t, http.StatusOK, "There are no plugins", "yett plugin new",
		"yett plugin conform", "yett reload", "p-1", "not reloaded since").lacks(t, "<table")
}

var hashed = "sha256:" + strings.Repeat("ab", 32)

// someplugins are plugins in the states that an operator has to tell apart.
func someplugins() []status.Plugin {
	return []status.Plugin{
		{Name: "entitle", Kind: "authorizer", State: "ready", Version: "1.2.0", Digest: hashed, Breaker: "closed", Calls: 1234, Errors: 5, Starts: 3,
			Replicas: []status.Replica{{State: "ready", Pid: 4711, Crashes: 1}, {State: "ready", Pid: 4712}}},
		{Name: "half", Kind: "authorizer", State: "ready", Breaker: "closed", Replicas: []status.Replica{{State: "ready", Pid: 1}, {State: "quarantined", Detail: "5 crashes in 10m0s", Crashes: 5}}},
		{Name: "open", Kind: "authorizer", State: "ready", Breaker: "open", Replicas: []status.Replica{{State: "ready", Pid: 1}}},
		{Name: "secrets", Kind: "scanner", State: "ready", Version: "2.0.0", Digest: hashed, Calls: 9},
		{Name: "siem", Kind: "subscriber", State: "ready", Starts: 1, Replicas: []status.Replica{{State: "ready", Pid: 7}},
			Subscriber: &status.Subscriber{State: "paused", Detail: "record 77 failed 5 times: <b>no</b>\u202e", Cursor: 76,
				LagRecords: 1000, LagBytes: 65536, LagSeconds: 90, StuckAt: 77}},
	}
}

func TestPluginsAreShown(t *testing.T) {
	d := newDesk(t)
	d.rack.plugins = someplugins()
	for _, role := range []string{store.RoleAdmin, store.RoleApprover, store.RoleAuditor} {
		a := d.as("has-"+role, role).get("/plugins").is(t, http.StatusOK, "Plugins (5)", "entitle", "authorizer", "1.2.0",
			hashed, "1234", "errors: 5", "starts: 3", "process 4711", "crashes: 1", "breaker closed", "breaker open",
			"5 crashes in 10m0s", "in the gateway's sandbox", "paused", "at record 77", "up to 76",
			"1000 records, about 65536 bytes on disk, 90 s", "record 77 failed 5 times: &lt;b&gt;no&lt;/b&gt;", "⟨U&#43;202E⟩")
		a.lacks(t, "<b>no", "\u202e")
		for name, needs := range map[string]bool{"entitle": false, "half": true, "open": true, "secrets": false,
			"siem": true} {
			if got := strings.Contains(a.body, "/plugins/"+name+"/resume"); got != (needs && role == store.RoleAdmin) {
				t.Errorf("%s, %s: the link to resume is there: %v", role, name, got)
			}
		}
	}
}

func TestReloadIsShown(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	at := time.Date(2027, 3, 1, 8, 59, 58, 0, time.UTC)
	d.rack.config = Config{Policy: "p-2", Reloaded: at}
	b.get("/plugins").is(t, http.StatusOK, "p-2", "2027-03-01 08:59:58 UTC", "went well")
	d.rack.config.Error = "plugins.entitle: the plugin is <i>wrong</i>\nline 2\x1b" + strings.Repeat("x", maxError)
	b.get("/plugins").is(t, http.StatusOK, "p-2", "08:59:58", "was refused", "the configuration before it stays",
		"&lt;i&gt;wrong", "line 2<span class=\"mark\">", "bytes more").lacks(t, "<i>wrong", "\x1b", "went well")
}

func TestResume(t *testing.T) {
	d := newDesk(t)
	d.rack.plugins = someplugins()
	b := d.as("ada", store.RoleAdmin)
	b.get("/plugins/half/resume").is(t, http.StatusOK, "half", "Resume").lacks(t, `name="skip"`)
	b.get("/plugins/siem/resume").is(t, http.StatusOK, "paused at record 77", "Leave out record 77", `value="77"`)
	b.get("/plugins/entitle/resume").is(t, http.StatusConflict, "nothing to resume")
	b.get("/plugins/secrets/resume").is(t, http.StatusConflict, "nothing to resume")
	b.get("/plugins/nobody/resume").is(t, http.StatusNotFound, "No plugin with that name")
	b.post("/plugins/nobody/resume").is(t, http.StatusNotFound)
	if len(d.rack.resumed) > 0 {
		t.Fatalf("asking has done it: %v", d.rack.resumed)
	}
	b.post("/plugins/half/resume").to(t, "/plugins")
	b.post("/plugins/siem/resume", "skip", "").to(t, "/plugins")
	b.post("/plugins/siem/resume", "skip", "77").to(t, "/plugins")
	want := []string{"half false console:ada", "siem false console:ada", "siem true console:ada"}
	if !slices.Equal(d.rack.resumed, want) {
		t.Errorf("resumed: %q", d.rack.resumed)
	}
	for skip, status := range map[string]int{"78": 409, "0": 422, "-1": 422, "on": 422, "99999999999999999999": 422} {
		b.post("/plugins/siem/resume", "skip", skip).is(t, status, `role="alert"`, "Nothing was done")
	}
	b.post("/plugins/half/resume", "skip", "1").is(t, http.StatusConflict)
	b.post("/plugins/siem/resume", "skip", "77", "skip", "77").is(t, http.StatusBadRequest)
	d.advance(freshFor)
	b.post("/plugins/siem/resume", "skip", "77").is(t, http.StatusForbidden, "Your password again",
		`name="skip" value="77"`, `href="/plugins"`)
	if len(d.rack.resumed) != len(want) {
		t.Errorf("resumed: %q", d.rack.resumed)
	}
	b.post("/plugins/siem/resume", "skip", "77", confirmField, password).to(t, "/plugins")
	for _, role := range []string{store.RoleApprover, store.RoleAuditor} {
		other := d.as("has-"+role, role)
		other.get("/plugins/half/resume").is(t, http.StatusForbidden, "takes the role admin")
		other.post("/plugins/half/resume").is(t, http.StatusForbidden, "takes the role admin")
	}
	if len(d.rack.resumed) != len(want)+1 {
		t.Errorf("resumed: %q", d.rack.resumed)
	}
}

// slowly is a state in which something happens while a session begins.
type slowly struct {
	State
	meanwhile func()
}

func (s slowly) StartSession(ctx context.Context, sess store.Session, replaces *[32]byte, by store.Who) error {
	s.meanwhile()
	return s.State.StartSession(ctx, sess, replaces, by)
}

// The record that is left out is the one on the form, also when the subscriber has got on while a password was looked
// at.
func TestResumeSkipsWhatWasShown(t *testing.T) {
	d := newDesk(t)
	d.rack.plugins = someplugins()
	b := d.as("ada", store.RoleAdmin)
	d.advance(freshFor)
	d.c.set.State = slowly{d.state, func() {
		for i := range d.rack.plugins {
			if p := &d.rack.plugins[i]; p.Name == "siem" {
				p.Subscriber = &status.Subscriber{State: "paused", StuckAt: 500}
			}
		}
	}}
	b.post("/plugins/siem/resume", "skip", "77", confirmField, password).is(t, http.StatusConflict,
		"not stuck at record 77 any more", "Leave out record 500")
	if len(d.rack.resumed) > 0 {
		t.Errorf("resumed: %q", d.rack.resumed)
	}
}

func TestResumeThatFails(t *testing.T) {
	d := newDesk(t)
	d.rack.plugins = someplugins()
	b := d.as("ada", store.RoleAdmin)
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{sdk.Errf(sdk.CodeConflict, "subscriber %q is being replaced or ended; try again", "siem"), 409, "try again"},
		{&sdk.Error{Code: sdk.CodeAuditUnavailable, Err: errors.New("disk full")}, 503, "could not be recorded"},
		{fmt.Errorf("secret detail"), 500, "Something went wrong"},
	} {
		d.rack.err = c.err
		b.post("/plugins/siem/resume").is(t, c.status, c.says, "Resume").lacks(t, "disk full", "secret detail")
	}
}
