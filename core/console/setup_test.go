package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
)

// link makes the first link and gives its path and token.
func (d *desk) link() (path, token string) {
	d.t.Helper()
	got, err := d.c.FirstLink("http://" + here)
	if err != nil {
		d.t.Fatal(err)
	}
	u, err := url.Parse(got)
	if err != nil || u.Scheme+"://"+u.Host != "http://"+here || u.Path != "/setup" || len(u.Query()["token"]) != 1 {
		d.t.Fatalf("the link is %s: %v", got, err)
	}
	return u.RequestURI(), u.Query().Get("token")
}

func TestFirstOperator(t *testing.T) {
	d := newDesk(t)
	path, token := d.link()
	if len(token) != 43 {
		t.Errorf("the token has %d characters, want 43 for 256 bits", len(token))
	}
	if strings.Contains(fmt.Sprintf("%v", d.c.first.hash), token) || strings.Contains(d.logged(), token) {
		t.Error("the token is kept or logged")
	}
	b := d.browser()
	b.get(path).is(t, http.StatusOK, "At least 12 characters", "works once")
	b.get(path).is(t, http.StatusOK) // a look does not use it up: mail programs and chat previews look
	b.post("/setup", "token", token, "name", "Ada", "password", password, "again", password).to(t, "/")
	b.get("/keys").is(t, http.StatusOK, "ada, admin")
	op, ok := d.state.Operator("ada")
	if !ok || op.Role != store.RoleAdmin || !strings.HasPrefix(op.Hash, "$argon2id$v=19$") {
		t.Errorf("the operator is %+v", op)
	}
	late := d.browser()
	late.get(path).is(t, http.StatusForbidden, "operator already")
	late.post("/setup", "token", token, "name", "eve", "password", password, "again", password).is(t, http.StatusForbidden,
		"operator already")
	if _, ok := d.state.Operator("eve"); ok {
		t.Error("the link worked twice")
	}
	if _, err := d.c.FirstLink("http://" + here); err == nil {
		t.Error("a link although there is an operator")
	}
	if r := d.audit("operator_added"); len(r) != 1 || r[0]["how"] != "one_time_link" ||
		r[0]["principal_id"] != "console:ada" {
		t.Errorf("records: %v", r)
	}
	d.restart()
	d.browser().signIn("ada", password).to(t, "/")
}

func TestFirstLinkEnds(t *testing.T) {
	for _, c := range []struct {
		about string
		do    func(d *desk) (token string)
		ok    bool
	}{
		{"just in time", func(d *desk) string { _, tok := d.link(); d.advance(24*time.Hour - 1); return tok }, true},
		{"after 24 hours", func(d *desk) string { _, tok := d.link(); d.advance(24 * time.Hour); return tok }, false},
		{"a newer link", func(d *desk) string { _, tok := d.link(); d.link(); return tok }, false},
		{"a restart", func(d *desk) string { _, tok := d.link(); d.restart(); return tok }, false},
		{"no link at all", func(d *desk) string { return strings.Repeat("A", 43) }, false},
		{"no token", func(d *desk) string { d.link(); return "" }, false},
		{"another token", func(d *desk) string { d.link(); return strings.Repeat("A", 43) }, false},
		{"an operator from elsewhere", func(d *desk) string { _, tok := d.link(); d.add("eve", store.RoleAdmin); return tok }, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			d := newDesk(t)
			token := c.do(d)
			get, post := d.browser().get("/setup?token="+url.QueryEscape(token)),
				d.browser().post("/setup", "token", token, "name", "ada", "password", password, "again", password)
			if c.ok {
				get.is(t, http.StatusOK)
				post.to(t, "/")
				return
			}
			get.is(t, http.StatusForbidden, "The link does not work")
			post.is(t, http.StatusForbidden, "The link does not work")
			if _, made := d.state.Operator("ada"); made {
				t.Error("an operator was made")
			}
		})
	}
	for _, base := range []string{"", "127.0.0.1:8422", "ftp://127.0.0.1", "http://", "http://%"} {
		if got, err := newDesk(t).c.FirstLink(base); err == nil {
			t.Errorf("base %q gives %s", base, got)
		}
	}
}

// A form that is refused does not use the link up.
func TestFirstOperatorRefused(t *testing.T) {
	d := newDesk(t)
	_, token := d.link()
	b := d.browser()
	for _, c := range []struct{ about, name, password, again, says string }{
		{"short", "ada", "eleven-char", "eleven-char", "has 11 characters"},
		{"short in characters, not in bytes", "ada", "ääääääääääå", "ääääääääääå", "has 11 characters"},
		{"long", "ada", strings.Repeat("a", 513), strings.Repeat("a", 513), "limit of 512"},
		{"no password", "ada", "", "", "has 0 characters"},
		{"not the same", "ada", password, password + "!", "not the same"},
		{"no name", "", password, password, "1 to 64 characters"},
		{"a name with a space", "ada l", password, password, "1 to 64 characters"},
		{"a name that looks like another", "аda", password, password, "1 to 64 characters"},
		{"a name with a hidden character", "ada\u200b", password, password, "1 to 64 characters"},
		{"a long name", strings.Repeat("a", 65), password, password, "1 to 64 characters"},
	} {
		t.Run(c.about, func(t *testing.T) {
			a := b.post("/setup", "token", token, "name", c.name, "password", c.password, "again", c.again).is(t,
				http.StatusUnprocessableEntity, c.says, `role="alert"`)
			if c.password != "" && strings.Contains(a.body, c.password) {
				t.Error("the page repeats the password")
			}
		})
	}
	if d.state.HasOperators() {
		t.Fatal("an operator was made")
	}
	b.post("/setup", "token", token, "name", "ada", "password", "twelve chars", "again", "twelve chars").to(t, "/")
}

func TestFirstOperatorSideBySide(t *testing.T) {
	d := newDesk(t)
	_, token := d.link()
	var wg sync.WaitGroup
	status := make([]int, 8)
	for i := range status {
		wg.Go(func() {
			status[i] = d.browser().post("/setup", "token", token, "name", fmt.Sprint("n", i), "password", password, "again",
				password).status
		})
	}
	wg.Wait()
	in := 0
	for _, s := range status {
		switch s {
		case http.StatusSeeOther:
			in++
		case http.StatusConflict, http.StatusForbidden:
		default:
			t.Errorf("status %d", s)
		}
	}
	if in != 1 || len(d.audit("operator_added")) != 1 {
		t.Errorf("%d got in, %d operators", in, len(d.audit("operator_added")))
	}
}
