package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

func TestEmptyListTeaches(t *testing.T) {
	d := newDesk(t)
	d.as("ada", store.RoleAdmin).get("/keys").is(t, http.StatusOK, "There are no keys yet", "Make a key above",
		"YETT_API_KEY").lacks(t, "<table")
	d.as("eve", store.RoleAuditor).get("/keys").is(t, http.StatusOK, "There are no keys yet",
		"Ask an operator with the role admin").lacks(t, "<table")
}

func TestCreateKey(t *testing.T) {
	for _, c := range []struct {
		about  string
		fields []string
		check  func(k *store.Key) bool
	}{
		{"a name alone", []string{"name", "one"}, func(k *store.Key) bool {
			return k.Scope().String() == "authorize scan" && len(k.Agents) == 0 && k.ExpiresAt.IsZero() && k.Note == "" &&
				k.Environment == ""
		}},
		{"the whole form, untouched", []string{"name", " one ", "preset", "agent", "agents", "", "environment", "", "last_day", "", "note", ""}, func(k *store.Key) bool {
			return k.Scope().String() == "authorize scan"
		}},
		{"a preset", []string{"name", "one", "preset", "operator"}, func(k *store.Key) bool { return k.Scope().String() == "approve grants kill audit" }},
		{"scopes", []string{"name", "one", "preset", "custom", "scopes", "kill", "scopes", "audit"}, func(k *store.Key) bool { return k.Scope().String() == "kill audit" }},
		{"scopes alone", []string{"name", "one", "scopes", "scan"}, func(k *store.Key) bool { return k.Scope().String() == "scan" }},
		{"agents", []string{"name", "one", "agents", " billing-* \r\n\r\nops/**, x\n"}, func(k *store.Key) bool { return fmt.Sprint(k.Agents) == "[billing-* ops/** x]" }},
		{"the rest", []string{"name", "one", "environment", "prod", "note", "first\nsecond", "last_day", "2027-03-01"}, func(k *store.Key) bool {
			return k.Environment == "prod" && k.Note == "first\nsecond" &&
				k.ExpiresAt.Equal(time.Date(2027, 3, 2, 0, 0, 0, 0, time.UTC))
		}},
		{"with tokens only", []string{"name", "one", "redeem", "explicit"}, func(k *store.Key) bool { return k.Explicit }},
		{"as before", []string{"name", "one", "preset", "agent"}, func(k *store.Key) bool { return !k.Explicit }},
	} {
		t.Run(c.about, func(t *testing.T) {
			d := newDesk(t)
			b := d.as("ada", store.RoleAdmin)
			value := b.post("/keys", c.fields...).is(t, http.StatusOK, "only time its value is shown").valueOf(t)
			k := d.keyNamed("one")
			if !c.check(k) || k.CreatedBy != "console:ada" || !strings.Contains(value, k.ID) {
				t.Errorf("the key is %+v, its value %s", k, value)
			}
			if r := d.audit("key_created"); len(r) != 1 || r[0]["principal_id"] != "console:ada" ||
				r[0]["principal_method"] != "console" || r[0]["surface"] != "console" || r[0]["peer"] != "127.0.0.1" ||
				r[0]["request_id"] != b.seen[len(b.seen)-1].header.Get("X-Request-Id") {
				t.Errorf("the record is %v", r)
			}
		})
	}
}

func TestCreateKeyRefused(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/keys", "name", "taken").is(t, http.StatusOK)
	for _, c := range []struct {
		about  string
		fields []string
		status int
		says   string
		field  string
	}{
		{"no name", nil, 422, "Give the key a name.", "key-name"},
		{"spaces", []string{"name", "  "}, 422, "Give the key a name.", "key-name"},
		{"a taken name", []string{"name", "taken"}, 409, "called &#34;taken&#34; already", "key-name"},
		{"a long name", []string{"name", strings.Repeat("a", 257)}, 422, "more than the limit of 256", "key-name"},
		{"a name that cannot be seen", []string{"name", "x\u202ey"}, 422, "U&#43;202E", "key-name"},
		{"an unknown preset", []string{"name", "x", "preset", "root"}, 422, "Unknown preset", ""},
		{"an unknown scope", []string{"name", "x", "preset", "custom", "scopes", "all"}, 422, "Unknown scope", ""},
		{"custom without scopes", []string{"name", "x", "preset", "custom"}, 422, "Tick at least one scope", ""},
		{"a preset and scopes", []string{"name", "x", "preset", "agent", "scopes", "kill"}, 422, "a preset is chosen", ""},
		{"a bad pattern", []string{"name", "x", "agents", "a\u0000b"}, 422, "U&#43;0000", "agents"},
		{"many patterns", []string{"name", "x", "agents", strings.Repeat("a\n", 101)}, 422, "limit of 100", "agents"},
		{"a date in the past", []string{"name", "x", "last_day", "2027-02-28"}, 422, "past", "last_day"},
		{"no date", []string{"name", "x", "last_day", "soon"}, 422, "such as 2027-01-31", "last_day"},
		{"another way to redeem", []string{"name", "x", "redeem", "never"}, 422, "Redeem must be", "redeem"},
		{"a long note", []string{"name", "x", "note", strings.Repeat("a", 5000)}, 422, "Note is limited", "note"},
	} {
		t.Run(c.about, func(t *testing.T) {
			a := b.post("/keys", c.fields...).is(t, c.status, c.says, `role="alert"`)
			if c.field != "" && !strings.Contains(a.body, `aria-invalid="true"`) {
				t.Error("no field is marked")
			}
			for i := 0; i+1 < len(c.fields); i += 2 { // nothing has to be typed twice
				if v := c.fields[i+1]; c.fields[i] == "name" && len(v) == 1 && !strings.Contains(a.body, `value="`+v+`"`) {
					t.Error("the name is lost")
				}
			}
		})
	}
	if n := len(d.ops.Keys()); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// A value is on the answer that made it and nowhere else: no page, header, address, log or record.
func TestValueIsShownOnce(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	made := b.post("/keys", "name", "one", "note", "n").is(t, http.StatusOK)
	rolled := b.post("/keys/"+d.keyNamed("one").ID+"/roll", "grace", "1h").is(t, http.StatusOK)
	id := d.keyNamed("one").ID
	for _, p := range []string{"/keys", "/keys/" + id + "/roll", "/keys/" + id + "/revoke", "/", "/signin", "/approvals",
		"/keys/" + id} {
		b.get(p)
	}
	b.post("/keys", "name", "one", "note", "n").is(t, http.StatusConflict) // the answer page loaded again
	b.post("/keys/"+id+"/roll", "grace", "now").is(t, http.StatusOK)
	b.post("/keys/"+id+"/roll", "grace", "now").is(t, http.StatusConflict)
	d.restart()
	b.get("/keys").is(t, http.StatusOK, id)
	for _, a := range []*answer{made, rolled} {
		value := a.valueOf(t)
		if strings.Count(a.body, value) != 1 || a.header.Get("Cache-Control") != "no-store" ||
			a.header.Get("Location") != "" {
			t.Errorf("%s %s: the value is there %d times, %v", a.method, a.path, strings.Count(a.body, value), a.header)
		}
		secret := value[strings.LastIndexByte(value, '_')+1:]
		for _, other := range b.seen {
			if other != a && (strings.Contains(other.body, secret) || strings.Contains(fmt.Sprint(other.header), secret)) {
				t.Errorf("%s %s shows the value again", other.method, other.path)
			}
		}
		if strings.Contains(d.logged(), secret) || strings.Contains(fmt.Sprint(d.audit("")), secret) {
			t.Error("the value is in the log")
		}
	}
}

func TestRollKey(t *testing.T) {
	for _, c := range []struct {
		grace string
		for_  time.Duration
	}{{"now", 0}, {"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"30d", 30 * 24 * time.Hour}} {
		t.Run(c.grace, func(t *testing.T) {
			d := newDesk(t)
			b := d.as("ada", store.RoleAdmin)
			first := b.post("/keys", "name", "one", "preset", "auditor").valueOf(t)
			old := d.keyNamed("one")
			b.get("/keys/"+old.ID+"/roll").is(t, http.StatusOK, "same settings", `value="`+c.grace+`"`)
			says := "has stopped working"
			if c.for_ > 0 {
				says = "works until"
			}
			value := b.post("/keys/"+old.ID+"/roll", "grace", c.grace).is(t, http.StatusOK, "new value", says, old.ID).valueOf(t)
			fresh := d.keyNamed("one")
			if value == first || fresh.ID == old.ID || fresh.Scope() != old.Scope() || fresh.CreatedBy != "console:ada" {
				t.Errorf("the new key is %+v", fresh)
			}
			r := old.Revocation()
			if r == nil || !r.At.Equal(d.clock().Add(c.for_)) {
				t.Errorf("the old one ends %+v", r)
			}
			state := map[bool]string{true: "grace", false: "revoked"}[c.for_ > 0]
			b.get("/keys").is(t, http.StatusOK, `<span class="state live">live</span>`,
				`<span class="state `+state+`">`+state+`</span>`)
			b.get("/keys/"+old.ID+"/roll").is(t, http.StatusConflict, "nothing to roll")
			b.post("/keys/"+old.ID+"/roll", "grace", "now").is(t, http.StatusConflict)
		})
	}
}

func TestRollRefused(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/keys", "name", "one")
	id := d.keyNamed("one").ID
	for _, grace := range []string{"", "never", "0", "31d", "-1h", "1h "} {
		b.post("/keys/"+id+"/roll", "grace", grace).is(t, http.StatusUnprocessableEntity, "Choose how long")
	}
	b.post("/keys/"+id+"/roll").is(t, http.StatusUnprocessableEntity)
	for _, p := range []string{"/keys/nobody/roll", "/keys/nobody/revoke"} {
		b.get(p).is(t, http.StatusNotFound, "no key with that id")
		b.post(p, "grace", "now").is(t, http.StatusNotFound, "no key with that id")
	}
	for _, p := range []string{"/keys/%3Cscript%3E/revoke", "//keys", "/keys//" + id + "/revoke", "/keys/../keys",
		"/%6beys", "/keys/%2e%2e/approvals", "/keys/x%2frevoke"} {
		b.get(p).is(t, http.StatusNotFound, "No such page").lacks(t, "<script>")
		b.post(p, "grace", "now").is(t, http.StatusNotFound, "No such page")
	}
	if d.keyNamed("one").ID != id {
		t.Error("the key was rolled")
	}
}

func TestRevokeKey(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/keys", "name", "one", "agents", "billing-*")
	id := d.keyNamed("one").ID
	b.get("/keys/"+id+"/revoke").is(t, http.StatusOK, "Revoke now", "for ever", "billing-*", "one")
	if d.keyNamed("one").Revocation() != nil {
		t.Fatal("asking has revoked it")
	}
	b.post("/keys/"+id+"/revoke").to(t, "/keys")
	b.get("/keys").is(t, http.StatusOK, id, "revoked", "console:ada", "nothing left").lacks(t, id+"/roll", id+"/revoke")
	b.post("/keys/"+id+"/revoke").is(t, http.StatusConflict)
	b.get("/keys/"+id+"/revoke").is(t, http.StatusConflict)
	if r := d.audit("key_revoked"); len(r) != 1 || r[0]["principal_id"] != "console:ada" {
		t.Errorf("records: %v", r)
	}
	d.restart()
	b.get("/keys").is(t, http.StatusOK, id, "revoked") // tombstones stay
}

// Every state that a key can be in, and the order of the list.
func TestListStates(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	for _, name := range []string{"a-revoked", "b-rolled", "d-live"} {
		b.post("/keys", "name", name).is(t, http.StatusOK)
	}
	b.post("/keys", "name", "c-expires", "last_day", "2027-03-01").is(t, http.StatusOK)
	expires := d.keyNamed("c-expires").ID
	gone, old := d.keyNamed("a-revoked").ID, d.keyNamed("b-rolled").ID
	b.post("/keys/"+gone+"/revoke").to(t, "/keys")
	b.post("/keys/"+old+"/roll", "grace", "7d").is(t, http.StatusOK)
	d.advance(15 * time.Hour) // into the next day
	b.signIn("ada", password).to(t, "/")
	states := map[string]string{gone: "revoked", old: "grace", expires: "expired", d.keyNamed("b-rolled").ID: "live",
		d.keyNamed("d-live").ID: "live"}
	body := b.get("/keys").is(t, http.StatusOK, "All keys (5)").body
	ended := false
	for _, row := range strings.Split(body, `<tr role="row"`)[2:] {
		for id, state := range states {
			if !strings.Contains(row, `<code class="id">`+id+`</code>`) {
				continue
			}
			if !strings.Contains(row, `<span class="state `+state+`">`+state+`</span>`) {
				t.Errorf("the row of %s does not say %s: %s", id, state, row)
			}
			if isEnd := state == "revoked" || state == "expired"; ended && !isEnd {
				t.Error("a live key comes after one that has ended")
			} else {
				ended = isEnd
			}
			delete(states, id)
		}
	}
	if len(states) > 0 {
		t.Errorf("not in the list: %v", states)
	}
	b.post("/keys/"+expires+"/roll", "grace", "now").is(t, http.StatusConflict, "expired")
	b.post("/keys/"+expires+"/revoke").to(t, "/keys")
}

func TestListInPages(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	for i := range keysPerPage + 1 {
		if _, err := d.ops.CreateKey(context.Background(), ops.KeySpec{Name: fmt.Sprintf("key-%03d", i)},
			store.Who{Principal: "admin:0"}); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/keys").is(t, http.StatusOK, "All keys (101)", "key-000", "key-099", `href="/keys?page=2"`).lacks(t, "key-100",
		"page=0")
	b.get("/keys?page=2").is(t, http.StatusOK, "key-100", `href="/keys?page=1"`).lacks(t, "key-099", "page=3")
	b.get("/keys?page=3").is(t, http.StatusOK, "has no page 3")
	for _, p := range []string{"0", "-1", "x", "1e9", "9223372036854775807", "99999999999999999999"} {
		b.get("/keys?page="+p).is(t, http.StatusNotFound)
	}
}

// Whatever an agent or an operator has written is text, and what cannot be seen is made visible.
// A page of keys with as many agents as a key may have, each as long as a name may be.
func TestListOfKeysIsShort(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	var agents []string
	for i := range 100 {
		agents = append(agents, fmt.Sprintf("agent-%03d-%s", i, strings.Repeat("x", 240)))
	}
	for i := range keysPerPage {
		if _, err := d.ops.CreateKey(context.Background(), ops.KeySpec{Name: fmt.Sprintf("key-%03d", i), Agents: agents},
			store.Who{Principal: "admin:0"}); err != nil {
			t.Fatal(err)
		}
	}
	page := b.get("/keys").is(t, http.StatusOK, "key-000", "key-099", "agent-000",
		"more: <code>yett keys list -o json</code>")
	page.lacks(t, "agent-099")
	if len(page.body) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page.body))
	}
	b.get("/keys/"+d.keyNamed("key-000").ID+"/revoke").is(t, http.StatusOK, "agent-000", "agent-099")
}

func TestHostileTextIsShown(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/keys", "name", `<script>alert(1)</script>"'`, "note",
		"<img src=x onerror=alert(1)>\u202etxt.exe\u200b\x1b[31m", "environment", "\u2066{{.Version}}").is(t, http.StatusOK)
	a := b.get("/keys").is(t, http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;",
		"&lt;img src=x onerror=alert(1)&gt;", `<span class="mark">⟨U&#43;202E⟩</span>txt.exe<span class="mark">⟨U&#43;200B⟩</span><span class="mark">⟨U&#43;001B⟩</span>[31m`,
		`<span class="mark">⟨U&#43;2066⟩</span>{{.Version}}`)
	a.lacks(t, "<script>alert", "<img", "\u202e", "\u200b", "\x1b", "\u2066")
	id := d.ops.Keys()[0].ID
	b.get("/keys/"+id+"/revoke").lacks(t, "<script>alert")
	b.post("/keys/"+id+"/roll", "grace", "now").is(t, http.StatusOK).lacks(t, "<script>alert")
}

// broken keys answer as a store does that has failed.
type broken struct {
	*ops.Service
	err error
}

func (b broken) CreateKey(context.Context, ops.KeySpec, store.Who) (*ops.NewKey, error) {
	return nil, b.err
}

func (b broken) RollKey(context.Context, string, time.Duration, store.Who) (*ops.NewKey, error) {
	return nil, b.err
}

func (b broken) RevokeKey(context.Context, string, store.Who) error { return b.err }

func TestKeyOperationsThatFail(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		says   string
		logs   string
	}{
		{&sdk.Error{Code: sdk.CodeAuditUnavailable, Msg: "x", Err: errors.New("disk full")}, 503, "could not be recorded", "disk full"},
		{errors.New("pebble: secret detail"), 500, "Something went wrong", "secret detail"},
		{&sdk.Error{Code: sdk.CodeInternal, Msg: "secret detail"}, 500, "Something went wrong", "secret detail"},
		{&sdk.Error{Code: sdk.CodeDraining}, 503, "going down", ""},
	} {
		d := newDesk(t)
		b := d.as("ada", store.RoleAdmin)
		b.post("/keys", "name", "one").is(t, http.StatusOK)
		id := d.keyNamed("one").ID
		d.c.set.Keys = broken{d.ops, c.err}
		for path, fields := range map[string][]string{"/keys": {"name", "two"}, "/keys/" + id + "/roll": {"grace", "now"},
			"/keys/" + id + "/revoke": nil} {
			b.post(path, fields...).is(t, c.status, c.says).lacks(t, "secret detail", "disk full", `id="value"`)
		}
		if !strings.Contains(d.logged(), c.logs) {
			t.Errorf("the log does not say %q: %s", c.logs, d.logged())
		}
	}
}

// The list says of which keys approvals are redeemed with their token only.
func TestExplicitKeysAreMarked(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/keys", "name", "free").is(t, http.StatusOK).lacks(t, "token only")
	b.get("/keys").is(t, http.StatusOK, "free").lacks(t, "token only")
	b.post("/keys", "name", "shared", "redeem", "explicit").is(t, http.StatusOK, "redeemed with their token only")
	b.get("/keys").is(t, http.StatusOK, "shared", "redeems with the token only")
}
