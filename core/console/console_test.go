package console

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
)

var allPaths = []string{"/", "/approvals", "/activity", "/agents", "/grants", "/rules", "/scanners", "/plugins",
	"/keys", "/kill", "/settings"}

func TestWithoutASession(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleAdmin)
	paths := append([]string{"/keys/abc/roll", "/keys/abc/revoke", "/nowhere", "/approvals/x"}, allPaths...)
	for _, about := range []string{"", "made-up-cookie", strings.Repeat("A", 43)} {
		for _, p := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
				b := d.browser()
				b.cookie = about
				a := b.send(method, p, "application/x-www-form-urlencoded", "name=x")
				if method == "GET" || method == "HEAD" {
					a.to(t, "/signin")
				} else {
					a.is(t, http.StatusForbidden, "not signed in")
				}
			}
		}
		b := d.browser()
		b.cookie = about
		b.post("/signout").is(t, http.StatusForbidden)
	}
	if n := len(d.ops.Keys()); n != 0 {
		t.Errorf("%d keys were made", n)
	}
	d.browser().get("/signin").is(t, http.StatusOK, "Password")
}

func TestPagesNotYet(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	for _, p := range allPaths {
		switch p {
		case "/":
			b.get(p).to(t, "/keys")
		case "/keys":
			b.get(p).is(t, http.StatusOK, "API keys")
		case "/approvals", "/plugins":
			b.get(p).is(t, http.StatusOK)
			if a := b.post(p).is(t, http.StatusMethodNotAllowed); a.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s: 405 with Allow %q", p, a.header.Get("Allow"))
			}
		default:
			b.get(p).is(t, http.StatusNotFound, "not part of this version")
			b.get(p+"/some/where").is(t, http.StatusNotFound, "not part of this version")
			b.post(p).is(t, http.StatusNotFound, "not part of this version")
		}
	}
	b.get("/nowhere").is(t, http.StatusNotFound, "no page at this address")
	if a := b.send("DELETE", "/keys", "", ""); a.is(t, http.StatusMethodNotAllowed).header.Get("Allow") == "" {
		t.Error("405 without Allow")
	}
}

// tour visits every kind of answer.
func tour(t *testing.T, d *desk) []*answer {
	t.Helper()
	link, err := d.c.FirstLink("http://" + here)
	if err != nil {
		t.Fatal(err)
	}
	b := d.browser()
	path := strings.TrimPrefix(link, "http://"+here)
	b.get("/signin")
	b.get("/setup?token=wrong").is(t, http.StatusForbidden)
	b.get(path).is(t, http.StatusOK)
	token := strings.TrimPrefix(path, "/setup?token=")
	b.post("/setup", "token", token, "name", "ada", "password", "short", "again", "short").is(t,
		http.StatusUnprocessableEntity)
	b.post("/setup", "token", token, "name", "ada", "password", password, "again", password).to(t, "/")
	b.get("/keys").is(t, http.StatusOK)
	b.post("/keys", "name", "").is(t, http.StatusUnprocessableEntity)
	b.post("/keys", "name", "one", "environment", "prod", "note", "a note").is(t, http.StatusOK)
	b.get("/keys").is(t, http.StatusOK)
	id := d.keyNamed("one").ID
	b.get("/keys/"+id+"/roll").is(t, http.StatusOK)
	b.post("/keys/"+id+"/roll", "grace", "never").is(t, http.StatusUnprocessableEntity)
	b.post("/keys/"+id+"/roll", "grace", "1h").is(t, http.StatusOK)
	b.get("/keys/" + d.keyNamed("one").ID + "/revoke")
	d.advance(freshFor)
	b.post("/keys/"+id+"/revoke").is(t, http.StatusForbidden, "password again")
	b.signIn("ada", password).to(t, "/")
	b.get("/approvals").is(t, http.StatusOK, "No call waits")
	asked, _ := d.asks(d.keyNamed("one"), `,"args":{"a":1}`)
	b.get("/approvals").is(t, http.StatusOK, asked)
	b.get("/approvals/"+asked).is(t, http.StatusOK)
	b.post("/approvals/"+asked+"/approve", "reason", "x").is(t, http.StatusUnprocessableEntity)
	b.post("/approvals/"+asked+"/deny", "reason", "no").to(t, "/approvals/"+asked)
	b.get("/approvals/"+asked).is(t, http.StatusOK, "denied")
	b.get("/approvals/nothing").is(t, http.StatusNotFound)
	b.get("/plugins").is(t, http.StatusOK, "There are no plugins")
	d.rack.plugins = []status.Plugin{{Name: "siem", Kind: "subscriber", State: "quarantined",
		Replicas: []status.Replica{{State: "quarantined"}}, Subscriber: &status.Subscriber{State: "paused", StuckAt: 7}}}
	b.get("/plugins").is(t, http.StatusOK, "siem")
	b.get("/plugins/siem/resume").is(t, http.StatusOK)
	b.post("/plugins/siem/resume", "skip", "8").is(t, http.StatusConflict)
	b.post("/plugins/siem/resume").to(t, "/plugins")
	b.get("/activity")
	b.send("POST", "/keys", "text/plain", "x").is(t, http.StatusUnsupportedMediaType)
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.post("/keys", "name", "x").is(t, http.StatusForbidden)
	b.header.Del("Sec-Fetch-Site")
	b.host = "evil.example"
	b.get("/").is(t, http.StatusMisdirectedRequest)
	b.host = here
	b.get("/assets/console.css").is(t, http.StatusOK)
	b.get("/assets/console.js").is(t, http.StatusOK)
	b.get("/assets/icon.svg").is(t, http.StatusOK)
	b.get("/assets/nothing").is(t, http.StatusNotFound)
	b.post("/signout").to(t, "/signin")
	b.signIn("ada", "wrong").is(t, http.StatusForbidden)
	return b.seen
}

func TestHeadersOnEveryAnswer(t *testing.T) {
	d := newDesk(t)
	ids := map[string]bool{}
	for _, a := range tour(t, d) {
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
				"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Strict-Transport-Security":    "",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", a.method, a.path, name, got, want)
			}
		}
		want := "no-store"
		if strings.HasPrefix(a.path, "/assets/") && a.status == http.StatusOK {
			want = "no-cache"
		}
		if got := a.header.Get("Cache-Control"); got != want {
			t.Errorf("%s %s: Cache-Control is %q, want %q", a.method, a.path, got, want)
		}
		id := a.header.Get("X-Request-Id")
		if !regexp.MustCompile(`^req_[0-9a-f]{32}$`).MatchString(id) || ids[id] {
			t.Errorf("%s %s: X-Request-Id %q", a.method, a.path, id)
		}
		ids[id] = true
	}
	secure := newDesk(t, func(s *Settings) { s.Secure, s.Hosts = true, []string{"console.example"} })
	b := secure.browser()
	b.host = "console.example"
	if got := b.get("/signin").is(t, http.StatusOK).header.Get("Strict-Transport-Security"); got == "" {
		t.Error("no Strict-Transport-Security over https")
	}
}

// The policy forbids inline script and style; a page that had some would be broken, and a policy that allowed it too.
func TestNothingInline(t *testing.T) {
	d := newDesk(t)
	inline := regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|<script(?:[^>](?:[^s>]|s[^r])*)>|\sstyle=|\son[a-z]+=|javascript:|https?://`)
	pages := 0
	for _, a := range tour(t, d) {
		if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			continue
		}
		pages++
		body := strings.ReplaceAll(a.body, `<script type="module" src="/assets/console.js"></script>`, "")
		if m := inline.FindString(body); m != "" || strings.Contains(body, "<script") {
			t.Errorf("%s %s: %q is inline or elsewhere", a.method, a.path, m)
		}
		for _, must := range []string{`<html lang="en">`, `<main id="main"`, `<h1>`, `name="viewport"`, `class="skip"`} {
			if !strings.Contains(a.body, must) {
				t.Errorf("%s %s: the page has no %s", a.method, a.path, must)
			}
		}
		labelled(t, a)
	}
	if pages < 15 {
		t.Errorf("only %d pages were looked at", pages)
	}
}

var (
	field = regexp.MustCompile(`<(?:input|textarea|select)\b[^>]*>`)
	attr  = regexp.MustCompile(`\b(id|type)="([^"]*)"`)
)

// labelled wants a label for every field that a person fills in.
func labelled(t *testing.T, a *answer) {
	t.Helper()
	for _, f := range field.FindAllString(a.body, -1) {
		has := map[string]string{}
		for _, m := range attr.FindAllStringSubmatch(f, -1) {
			has[m[1]] = m[2]
		}
		if has["type"] == "hidden" {
			continue
		}
		if has["id"] == "" || !strings.Contains(a.body, `<label for="`+has["id"]+`"`) {
			t.Errorf("%s %s: no label for %s", a.method, a.path, f)
		}
	}
}

func TestHost(t *testing.T) {
	for _, c := range []struct {
		host   string
		hosts  []string
		secure bool
		ok     bool
	}{
		{here, nil, false, true},
		{"localhost:8422", nil, false, true},
		{"LocalHost:8422", nil, false, true},
		{"[::1]:8422", nil, false, true},
		{"localhost", nil, false, false}, // port 80
		{"localhost:9000", nil, false, false},
		{"localhost:9000", []string{"localhost:9000"}, false, true}, // a forwarded port
		{"evil.example:8422", nil, false, false},
		{"evil.example", nil, true, false},
		{"127.0.0.1.evil.example:8422", nil, false, false},
		{"localhost.:8422", nil, false, false},
		{"127.0.0.2:8422", nil, false, false},
		{"127.1:8422", nil, false, false},
		{"[::1", nil, false, false},
		{"", nil, false, false},
		{"10.0.0.7:8422", nil, false, false},
		{"console.example", []string{"console.example"}, true, true},
		{"Console.Example", []string{"console.EXAMPLE"}, true, true},
		{"console.example:8422", []string{"console.example"}, true, true},
		{"console.example:8422", []string{"console.example:8422"}, true, true},
		{"console.example:444", []string{"console.example:8422"}, true, false},
		{"sub.console.example", []string{"console.example"}, true, false},
		{"localhost:9000", []string{"localhost"}, false, true},
		{"console.example", []string{"console.example"}, false, false}, // without https the cookie would not be kept
	} {
		d := newDesk(t, func(s *Settings) { s.Hosts, s.Secure = c.hosts, c.secure })
		d.add("ada", store.RoleAdmin)
		b := d.browser()
		b.host = c.host
		a, want := b.get("/signin"), http.StatusOK
		if !c.ok {
			want = http.StatusMisdirectedRequest
		}
		if a.status != want {
			t.Errorf("host %q with %q, secure %v: %d, want %d", c.host, c.hosts, c.secure, a.status, want)
		}
		if c.host != "" && !c.ok && strings.Contains(a.body, c.host) {
			t.Errorf("host %q: the answer repeats it", c.host)
		}
		if a = b.signIn("ada", password); (a.status == http.StatusSeeOther) != c.ok {
			t.Errorf("host %q: sign-in gives %d", c.host, a.status)
		}
	}
}

// A console off loopback answers under the very address it was reached at, over https.
func TestHostIsTheListeningAddress(t *testing.T) {
	for _, c := range []struct {
		host, at string
		secure   bool
		want     int
	}{
		{"10.0.0.7:8422", "10.0.0.7", true, http.StatusOK},
		{"10.0.0.7:8422", "10.0.0.7", false, http.StatusMisdirectedRequest},
		{"10.0.0.8:8422", "10.0.0.7", true, http.StatusMisdirectedRequest},
		{"10.0.0.7:9000", "10.0.0.7", true, http.StatusMisdirectedRequest},
		{"evil.example:8422", "10.0.0.7", true, http.StatusMisdirectedRequest},
		{"[2001:db8::7]:8422", "2001:db8::7", true, http.StatusOK},
		{"[2001:db8::8]:8422", "2001:db8::7", true, http.StatusMisdirectedRequest},
		{here, "127.0.0.1", false, http.StatusOK},
	} {
		d := newDesk(t, func(s *Settings) { s.Secure = c.secure })
		b := d.browser()
		b.host, b.local = c.host, net.ParseIP(c.at)
		if a := b.get("/signin"); a.status != c.want {
			t.Errorf("host %s at %s, secure %v: %d, want %d", c.host, c.at, c.secure, a.status, c.want)
		}
	}
}

// Every write asks where it comes from, the ones without a session too.
func TestWritesFromElsewhere(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/keys", "name", "victim").is(t, http.StatusOK)
	id := d.keyNamed("victim").ID
	asked, _ := d.asks(d.keyNamed("victim"), "")
	link, err := newDesk(t).c.FirstLink("http://" + here) // of no use here, but a token of the right shape
	if err != nil {
		t.Fatal(err)
	}
	before := len(d.audit(""))
	origins := []struct {
		about string
		site  string
		from  string
		ok    bool
	}{
		{"another site", "cross-site", "https://evil.example", false},
		{"a neighbouring name", "same-site", "http://other.localhost:8422", false},
		{"an old browser, another site", "", "https://evil.example", false},
		{"an old browser, another port", "", "http://127.0.0.1:9999", false},
		{"an old browser, a sandboxed page", "", "null", false},
		{"an old browser, here", "", "http://" + here, true},
		{"here", "same-origin", "http://" + here, true},
		{"typed or from a bookmark", "none", "", true},
		{"no browser", "", "", true},
	}
	for _, o := range origins {
		for _, p := range []string{"/keys", "/keys/" + id + "/roll", "/keys/" + id + "/revoke", "/signout", "/signin",
			"/setup", "/activity", "/approvals/" + asked + "/approve", "/approvals/" + asked + "/deny", "/plugins/siem/resume"} {
			if o.ok && p != "/activity" {
				continue
			}
			b.header = http.Header{"Sec-Fetch-Site": {o.site}, "Origin": {o.from}}
			a := b.post(p, "name", "planted", "grace", "now", "password", password, "token", link[len(link)-43:], "again",
				password)
			if o.ok {
				a.is(t, http.StatusNotFound, "not part of this version")
			} else {
				a.is(t, http.StatusForbidden, "another site")
			}
		}
	}
	if n := len(d.audit("")); n != before || len(d.ops.Keys()) != 1 || len(d.rack.resumed) > 0 {
		t.Errorf("%d records and %d keys came of it", n-before, len(d.ops.Keys())-1)
	}
	b.header = http.Header{}
	b.get("/keys").is(t, http.StatusOK) // still signed in
}

func TestRoles(t *testing.T) {
	d := newDesk(t)
	admin := d.as("ada", store.RoleAdmin)
	admin.post("/keys", "name", "one").is(t, http.StatusOK)
	id := d.keyNamed("one").ID
	for _, role := range []string{store.RoleApprover, store.RoleAuditor} {
		b := d.as("has-"+role, role)
		b.get("/keys").is(t, http.StatusOK, "one", id).lacks(t, "Make a key", "/roll", "/revoke",
			"<th role=\"columnheader\" scope=\"col\">Do</th>")
		for _, p := range []string{"/keys", "/keys/" + id + "/roll", "/keys/" + id + "/revoke"} {
			b.post(p, "name", "more", "grace", "now", confirmField, password).is(t, http.StatusForbidden, "takes the role admin")
		}
		b.get("/keys/"+id+"/roll").is(t, http.StatusForbidden, "takes the role admin")
		b.get("/keys/"+id+"/revoke").is(t, http.StatusForbidden, "takes the role admin")
	}
	if keys := d.ops.Keys(); len(keys) != 1 || keys[0].Revocation() != nil {
		t.Error("a role did what is not its to do")
	}
}

func TestForms(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		about, kind, body string
		status            int
		says              string
	}{
		{"too large", form, "name=" + strings.Repeat("a", formBytes), http.StatusRequestEntityTooLarge, "limit of 64 KiB"},
		{"JSON", "application/json", `{"name":"x"}`, http.StatusUnsupportedMediaType, "forms"},
		{"multipart", "multipart/form-data; boundary=x", "--x--", http.StatusUnsupportedMediaType, "forms"},
		{"no type", "", "name=x", http.StatusUnsupportedMediaType, "forms"},
		{"not UTF-8", form, "name=%ff", http.StatusBadRequest, "not UTF-8"},
		{"a name that is not UTF-8", form, "name=x&%ff=x", http.StatusBadRequest, "not UTF-8"},
		{"broken escape", form, "name=%z", http.StatusBadRequest, "cannot be read"},
		{"name twice", form, "name=x&name=y", http.StatusBadRequest, "more than once"},
		{"password twice", form, "name=x&" + confirmField + "=a&" + confirmField + "=b", http.StatusBadRequest, "more than once"},
	} {
		for _, p := range []string{"/keys", "/signin", "/setup"} {
			if strings.HasSuffix(c.about, "twice") && p != "/keys" {
				continue
			}
			if c.about == "password twice" {
				d.advance(freshFor)
			}
			if a := b.send("POST", p, c.kind, c.body); a.status != c.status || !strings.Contains(a.body, c.says) {
				t.Errorf("%s to %s: %d, want %d and %q\n%s", c.about, p, a.status, c.status, c.says, a.body)
			}
		}
	}
	b.header.Set("Content-Encoding", "gzip")
	b.post("/keys", "name", "x").is(t, http.StatusUnsupportedMediaType)
	if n := len(d.ops.Keys()); n != 0 {
		t.Errorf("%d keys were made", n)
	}
	b.header.Del("Content-Encoding")
	b.signIn("ada", password).to(t, "/")
	b.post("/keys?name=from-the-address&preset=operator", "name", "from-the-form").is(t, http.StatusOK)
	if k := d.keyNamed("from-the-form"); k.Scope().String() != "authorize scan" {
		t.Errorf("the address had a say: %s", k.Scope())
	}
}

// Over a real connection: answers, cookies, the place limit, and the end.
func TestServe(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleAdmin)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.c.Serve(ln) }()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	base := "http://" + ln.Addr().String()
	for path, want := range map[string]int{"/keys": http.StatusSeeOther, "/signin": http.StatusOK,
		"/assets/console.js": http.StatusOK} {
		res, err := client.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Body.Close() != nil || res.StatusCode != want {
			t.Errorf("%s: %d %v, want %d", path, res.StatusCode, err, want)
		}
	}
	req, _ := http.NewRequest("GET", base+"/assets/console.js", nil)
	req.Header.Set("If-None-Match", d.c.assets["console.js"].tag)
	if res, err := client.Do(req); err != nil || res.StatusCode != http.StatusNotModified {
		t.Errorf("an asset that has not changed: %v %v", res, err)
	}
	res, err := client.Post(base+"/signin", "application/x-www-form-urlencoded",
		strings.NewReader("name=ada&password=correct+horse+battery"))
	if err != nil || res.StatusCode != http.StatusSeeOther {
		t.Fatalf("sign in: %v %v", res, err)
	}
	if got := res.Header.Get("Set-Cookie"); !regexp.MustCompile(`^__Host-yett=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; Secure; SameSite=Strict$`).MatchString(got) {
		t.Errorf("the cookie is %q", got)
	}
	client.CloseIdleConnections()
	if err := d.c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if h := d.c.http; h.ReadHeaderTimeout != 5*time.Second || h.ReadTimeout != 10*time.Second || h.WriteTimeout == 0 ||
		h.IdleTimeout != time.Minute || h.MaxHeaderBytes != 16<<10 {
		t.Error("a limit of the server is missing")
	}
}

// TestSilentConnectionsKeepNoOperatorOut: more of them than the console takes at all.
func TestSilentConnectionsKeepNoOperatorOut(t *testing.T) {
	d := newDesk(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.c.Serve(ln) }()
	var silent []net.Conn
	defer func() { closeAll(silent) }()
	for range connections + 20 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	resp, err := http.Get("http://" + ln.Addr().String() + "/signin")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	if testkit.Quick() { // a server that ends gives connections that said nothing five seconds
		closeAll(silent)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.c.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Pages hold a version and the name of who is signed in, and nobody's password hash.
func TestNoPageShowsAHash(t *testing.T) {
	d := newDesk(t)
	for _, a := range tour(t, d) {
		a.lacks(t, "argon2", "$m=", password)
	}
	if strings.Contains(d.logged(), "argon2") || strings.Contains(d.logged(), password) {
		t.Errorf("the log says %s", d.logged())
	}
	if !slices.ContainsFunc(d.audit(""), func(m map[string]any) bool { return m["type"] == "operator_added" }) {
		t.Error("no record of the operator")
	}
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}
