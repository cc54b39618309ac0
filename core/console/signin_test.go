package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

func TestSignIn(t *testing.T) {
	d := newDesk(t)
	d.browser().get("/signin").is(t, http.StatusOK, "one-time link")
	d.add("ada", store.RoleAdmin)
	d.browser().get("/signin").is(t, http.StatusOK).lacks(t, "one-time link")
	b := d.browser()
	b.signIn("ada", password).to(t, "/")
	b.get("/signin").to(t, "/")
	b.get("/keys").is(t, http.StatusOK, "ada, admin")
	b.post("/signout").to(t, "/signin")
	if b.cookie != "" {
		t.Error("the cookie is still there")
	}
	d.browser().signIn("  ADA ", password).to(t, "/") // as a phone's keyboard writes it
	var got []string
	for _, r := range d.audit("") {
		if s, ok := r["operator"].(string); ok {
			got = append(got, fmt.Sprint(r["type"], " ", s, " ", r["principal_id"], " ", r["surface"], " ", r["peer"]))
		}
	}
	want := []string{"operator_added ada system  <nil>", "console_sign_in ada console:ada console 127.0.0.1",
		"console_sign_out ada console:ada console 127.0.0.1", "console_sign_in ada console:ada console 127.0.0.1"}
	if !slices.Equal(got, want) {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// Whether a name exists shows neither in the answer nor in the work that is done.
func TestUnknownNamesLookTheSame(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleAdmin)
	type work struct {
		passes, memory, tag uint32
		threads             uint8
		salt                int
	}
	var done []work
	inner := d.c.vault.derive
	d.c.vault.derive = func(pw, salt []byte, passes, memory uint32, threads uint8, tag uint32) []byte {
		done = append(done, work{passes, memory, tag, threads, len(salt)})
		return inner(pw, salt, passes, memory, threads, tag)
	}
	body := map[string]string{}
	for _, name := range []string{"ada", "bob"} {
		b := d.browser()
		b.address = "10.0.0.1:1"
		for range guessesPerMinute {
			body[name] = strings.ReplaceAll(b.signIn(name, "not the password").is(t, http.StatusForbidden,
				"name or the password is not right").body, name, "NAME")
		}
		limited := b.signIn(name, "not the password").is(t, http.StatusTooManyRequests)
		body[name] += strings.ReplaceAll(limited.body, name, "NAME")
		d.advance(guessWindow)
	}
	if body["ada"] != body["bob"] {
		t.Errorf("the answers differ:\n%s\n%s", body["ada"], body["bob"])
	}
	if len(done) != 2*guessesPerMinute {
		t.Fatalf("%d hashes for %d tries", len(done), 2*guessesPerMinute)
	}
	for _, w := range done {
		if w != done[0] || w != (work{cheap.passes, cheap.memory, tagBytes, cheap.threads, saltBytes}) {
			t.Errorf("different work: %+v", done)
		}
	}
	for _, r := range d.audit("console_sign_in_refused") {
		if s := fmt.Sprint(r); strings.Contains(s, "bob") {
			t.Errorf("a name that nobody has is in the log; it may be a password: %s", s)
		}
	}
}

// The decoy's tag is known to nobody, but even its own password must not open anything.
func TestNobodysPasswordIsNeverRight(t *testing.T) {
	v := newVault(cheap, func(b []byte) { clear(b) })
	v.decoy.tag = v.derive([]byte("x"), v.decoy.salt, cheap.passes, cheap.memory, cheap.threads, tagBytes)
	if ok, err := v.verifyPassword(context.Background(), "", "x"); ok || err != nil {
		t.Errorf("got %v %v", ok, err)
	}
}

func TestGuessLimits(t *testing.T) {
	type try struct {
		name, address, password string
		after                   time.Duration
		status                  int
	}
	const wrong = "wrong"
	repeat := func(n int, tr try) (out []try) {
		for range n {
			out = append(out, tr)
		}
		return out
	}
	fromEach := func(n int, name, pw string) (out []try) {
		for i := range n {
			out = append(out, try{name, fmt.Sprintf("10.1.%d.1:1", i), pw, 0, 403})
		}
		return out
	}
	onEach := func(n int, address, pw string) (out []try) {
		for i := range n {
			out = append(out, try{fmt.Sprint("name", i), address + ":1", pw, 0, 403})
		}
		return out
	}
	for _, c := range []struct {
		about string
		tries []try
	}{
		{"an account from one address", append(repeat(5, try{"ada", "10.0.0.1:1", wrong, 0, 403}),
			try{"ada", "10.0.0.1:1", password, 0, 429}, try{"ada", "10.0.0.1:1", password, guessWindow - 1, 429},
			try{"ada", "10.0.0.1:1", password, 1, 303})},
		{"another address is not kept out", append(repeat(5, try{"ada", "10.0.0.1:1", wrong, 0, 403}),
			try{"ada", "10.0.0.1:1", wrong, 0, 429}, try{"ada", "10.0.0.2:1", password, 0, 303},
			try{"eve", "10.0.0.1:1", password, 0, 303})},
		{"an account from many addresses", append(fromEach(accountGuesses, "ada", wrong),
			try{" Ada", "10.0.0.6:1", password, guessWindow, 429}, try{"eve", "10.0.0.6:1", password, 0, 303},
			try{"ada", "10.0.0.6:1", password, slowWindow, 303})},
		{"an address on many accounts", append(onEach(addressGuesses, "10.0.0.1", wrong),
			try{"ada", "10.0.0.1:6", password, 0, 429}, try{"ada", "10.0.0.2:1", password, 0, 303},
			try{"ada", "10.0.0.1:6", password, guessWindow, 303})},
		{"one IPv6 network", append(repeat(3, try{"ada", "[2001:db8::1]:1", wrong, 0, 403}), try{"ada", "[2001:db8::2]:1", wrong, 0, 403}, try{"ada", "[2001:db8::3]:1", wrong, 0, 403},
			try{"ada", "[2001:db8:0:0:ffff::1]:1", password, 0, 429}, try{"ada", "[2001:db8:0:1::1]:1", password, 0, 303})},
		{"a window that slides", []try{{"ada", "10.0.0.1:1", wrong, 0, 403}, {"ada", "10.0.0.1:1", wrong, 30 * time.Second, 403}, {"ada", "10.0.0.1:1", wrong, 0, 403}, {"ada", "10.0.0.1:1", wrong, 0, 403},
			{"ada", "10.0.0.1:1", wrong, 0, 403}, {"ada", "10.0.0.1:1", wrong, 0, 429}, {"ada", "10.0.0.1:1", wrong, 30 * time.Second, 403}, {"ada", "10.0.0.1:1", password, 0, 429}}},
		{"refused tries do not lengthen it", append(repeat(5, try{"ada", "10.0.0.1:1", wrong, 0, 403}),
			try{"ada", "10.0.0.1:1", wrong, 59 * time.Second, 429}, try{"ada", "10.0.0.1:1", password, time.Second, 303})},
		{"right ones are not counted", repeat(12, try{"ada", "10.0.0.1:1", password, 0, 303})},
		{"one's own right ones do not wipe out wrong ones", append(append(repeat(4, try{"ada", "10.0.0.1:1", wrong, 0, 403}), repeat(3, try{"ada", "10.0.0.1:1", password, 0, 303})...),
			try{"ada", "10.0.0.1:1", wrong, 0, 403}, try{"ada", "10.0.0.1:1", password, 0, 429})},
	} {
		t.Run(c.about, func(t *testing.T) {
			d := newDesk(t)
			d.add("ada", store.RoleAdmin)
			d.add("eve", store.RoleAdmin)
			for i, tr := range c.tries {
				d.advance(tr.after)
				b := d.browser()
				b.address = tr.address
				a := b.signIn(tr.name, tr.password)
				if a.status != tr.status {
					t.Fatalf("try %d (%+v): %d", i, tr, a.status)
				}
				if wait := a.header.Get("Retry-After"); (wait != "") != (tr.status == 429) || wait == "0" {
					t.Errorf("try %d: Retry-After is %q", i, wait)
				}
				if tr.status != 303 && b.cookie != "" {
					t.Errorf("try %d: a cookie with a refusal", i)
				}
			}
		})
	}
}

// Tries that are made at the same time do not outrun the count.
func TestGuessesSideBySide(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleAdmin)
	var mu sync.Mutex
	hashes := 0
	inner := d.c.vault.derive
	d.c.vault.derive = func(pw, salt []byte, passes, memory uint32, threads uint8, tag uint32) []byte {
		mu.Lock()
		hashes++
		mu.Unlock()
		return inner(pw, salt, passes, memory, threads, tag)
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			b := d.browser()
			b.address = fmt.Sprintf("10.0.0.1:%d", i+1)
			b.signIn("ada", "wrong")
		})
	}
	wg.Wait()
	if hashes != guessesPerMinute {
		t.Errorf("%d guesses were looked at, want %d", hashes, guessesPerMinute)
	}
}

// The table of tries has an end. Tries from ever new networks keep nobody else out, and an account that had its tries
// stays closed.
func TestGuessTableIsLimited(t *testing.T) {
	g := newGuesses()
	now := time.Unix(1, 0)
	for i := range accountGuesses {
		g.countTry(now, subjects("ada", fmt.Sprint("first", i)))
	}
	for i := range maxTracked {
		if wait := g.countTry(now, subjects(fmt.Sprint("account", i), fmt.Sprint("address", i))); wait > 0 {
			t.Fatalf("try %d waits %v", i, wait)
		}
	}
	if len(g.seen) > maxTracked {
		t.Errorf("%d tracked", len(g.seen))
	}
	if g.countTry(now, subjects("ada", "another")) == 0 {
		t.Error("an account that had its tries is open again")
	}
	if wait := g.countTry(now.Add(slowWindow), subjects("account", "address")); wait != 0 {
		t.Errorf("an hour later: wait %v", wait)
	}
}

// Refusals are recorded, so many a minute; the next record says how many were not.
func TestRefusalsAreRecorded(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleAdmin)
	for i := range recordedPerMinute + 7 {
		b := d.browser()
		b.address = fmt.Sprintf("10.1.0.1:%d", i+1)
		b.signIn("ada", "wrong")
	}
	refused := d.audit("console_sign_in_refused")
	if len(refused) != recordedPerMinute {
		t.Fatalf("%d records, want %d", len(refused), recordedPerMinute)
	}
	if r := refused[0]; r["why"] != "wrong" || r["operator"] != "ada" || r["peer"] != "10.1.0.1" {
		t.Errorf("the first record is %v", r)
	}
	if r := refused[guessesPerMinute]; r["why"] != "too_many" {
		t.Errorf("the sixth record is %v", r)
	}
	d.advance(time.Minute)
	d.browser().signIn("nobody", "wrong")
	refused = d.audit("console_sign_in_refused")
	if r := refused[len(refused)-1]; r["unrecorded"] != 7.0 || r["operator"] != "" || r["principal_id"] != "console:" {
		t.Errorf("the next record is %v", r)
	}
}

// Somebody who planted a session id in a browser must not be signed in by its owner's sign-in.
func TestSessionFixation(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleAdmin)
	planted := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	b := d.browser()
	b.cookie = planted
	b.signIn("ada", password).to(t, "/")
	if b.cookie == planted {
		t.Error("a planted id was taken over")
	}
	thief := d.browser()
	thief.cookie = planted
	thief.get("/keys").to(t, "/signin")

	first := b.cookie
	b.signIn("ada", password).to(t, "/")
	if b.cookie == first {
		t.Error("the id is the same after the second sign-in")
	}
	thief.cookie = first
	thief.get("/keys").to(t, "/signin")
	b.get("/keys").is(t, http.StatusOK)

	d.add("eve", store.RoleAuditor) // a session is over when somebody else signs in from that browser, too
	second := b.cookie
	b.signIn("eve", password).to(t, "/")
	thief.cookie = second
	thief.get("/keys").to(t, "/signin")
	b.get("/keys").is(t, http.StatusOK, "eve, auditor")

	thief.cookie = ""
	thief.header.Set("Cookie", cookieName+"="+b.cookie+"; "+cookieName+"="+planted)
	thief.get("/keys").to(t, "/signin") // which one is the browser's own cannot be told
}

// What is kept is the hash of an id: whoever reads the store has no session.
func TestSessionIDIsKeptHashed(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	raw, err := base64.RawURLEncoding.DecodeString(b.cookie)
	if err != nil || len(raw) != 32 {
		t.Fatalf("the id is %q: not 256 bits", b.cookie)
	}
	id := sha256.Sum256(raw)
	if _, ok := d.state.Session(id); !ok {
		t.Error("the session is not kept under the SHA-256 of its id")
	}
	thief := d.browser()
	thief.cookie = base64.RawURLEncoding.EncodeToString(id[:])
	thief.get("/keys").to(t, "/signin")
}

func TestSessionTimes(t *testing.T) {
	for _, c := range []struct {
		about   string
		steps   []time.Duration
		restart bool
		lives   bool
	}{
		{"within the idle time", []time.Duration{15*time.Minute - 1}, false, true},
		{"idle", []time.Duration{15 * time.Minute}, false, false},
		{"used every 14 minutes", slices.Repeat([]time.Duration{14 * time.Minute}, 34), false, true}, // 7 h 56
		{"8 hours, never idle", append(slices.Repeat([]time.Duration{14 * time.Minute}, 34), 4*time.Minute), false, false},
		{"a restart", []time.Duration{10 * time.Minute}, true, true},
		{"idle over a restart", []time.Duration{15 * time.Minute}, true, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			d := newDesk(t)
			b := d.as("ada", store.RoleAdmin)
			for i, s := range c.steps {
				d.advance(s)
				if i == len(c.steps)-1 {
					break
				}
				b.get("/keys").is(t, http.StatusOK)
			}
			if c.restart {
				d.restart()
				b.d = d
			}
			a := b.get("/keys")
			if c.lives {
				a.is(t, http.StatusOK)
				return
			}
			a.to(t, "/signin")
			if r := d.audit("console_sign_out"); len(r) != 1 || r[0]["why"] != "expired" {
				t.Errorf("records of its end: %v", r)
			}
			d.advance(-c.steps[len(c.steps)-1]) // a clock that is set back
			b.get("/keys").to(t, "/signin")
		})
	}
}

func TestSignedOutIsOver(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	thief := d.browser()
	thief.cookie = b.cookie
	a := b.post("/signout")
	a.to(t, "/signin")
	if got := a.header.Get("Set-Cookie"); got != "__Host-yett=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict" {
		t.Errorf("Set-Cookie is %q", got)
	}
	thief.get("/keys").to(t, "/signin")
	d.restart()
	thief.get("/keys").to(t, "/signin")
}

// What cannot be undone takes a password that was given within ten minutes.
func TestPasswordIsAskedAgain(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	d.advance(freshFor - 1)
	b.post("/keys", "name", "fresh").is(t, http.StatusOK)
	id := d.keyNamed("fresh").ID
	d.advance(1)
	before := b.cookie
	for path, fields := range map[string][]string{
		"/keys":                   {"name", "<b>late</b>", "preset", "custom", "scopes", "audit", "scopes", "kill"},
		"/keys/" + id + "/roll":   {"grace", "7d"},
		"/keys/" + id + "/revoke": {},
	} {
		a := b.post(path, fields...).is(t, http.StatusForbidden, "Your password again", `action="`+path+`"`,
			`name="`+confirmField+`"`)
		for i := 0; i < len(fields); i += 2 {
			want := fmt.Sprintf(`<input type="hidden" name="%s" value="%s">`, fields[i],
				strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(fields[i+1]))
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: the page lost %s", path, want)
			}
		}
		b.post(path, append(fields, confirmField, "wrong-password-1")...).is(t, http.StatusForbidden, "not right",
			"Your password again").lacks(t, "wrong-password-1")
	}
	if keys := d.ops.Keys(); len(keys) != 1 || keys[0].Revocation() != nil {
		t.Fatal("something was done without the password")
	}
	if b.cookie != before {
		t.Error("a new session without the password")
	}
	b.post("/keys", "name", "late", confirmField, password).is(t, http.StatusOK).valueOf(t)
	if b.cookie == before {
		t.Error("the id is the same after the password was given again")
	}
	thief := d.browser()
	thief.cookie = before
	thief.get("/keys").to(t, "/signin")
	b.post("/keys/"+id+"/revoke").to(t, "/keys") // fresh again
}

// Asking again is no way around the guess limits.
func TestAskingAgainCountsGuesses(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	d.advance(freshFor)
	for range guessesPerMinute {
		b.post("/keys", "name", "x", confirmField, "wrong").is(t, http.StatusForbidden, "not right")
	}
	b.post("/keys", "name", "x", confirmField, password).is(t, http.StatusTooManyRequests, "too many tries")
	if len(d.ops.Keys()) != 0 {
		t.Error("a key was made")
	}
}

// When nothing can be recorded, nobody gets in.
func TestSignInThatCannotBeRecorded(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	d.state.start = sdk.Errf(sdk.CodeAuditUnavailable, "nothing can be recorded")
	other := d.browser()
	other.signIn("ada", password).is(t, http.StatusServiceUnavailable, "could not be recorded")
	if other.cookie != "" {
		t.Error("a session that was not recorded")
	}
	d.advance(freshFor)
	b.post("/keys", "name", "x", confirmField, password).is(t, http.StatusServiceUnavailable)
	if len(d.ops.Keys()) != 0 {
		t.Error("a key was made")
	}
	d.state.end = d.state.start
	b.post("/signout").is(t, http.StatusServiceUnavailable, "signed out")
	if b.cookie != "" {
		t.Error("the cookie is still there")
	}
}

// Whoever guesses at an account keeps nobody out who has signed in on their device before: not from the same address,
// not from many, not with every entry of the table.
func TestAKnownDeviceIsNotKeptOut(t *testing.T) {
	d := newDesk(t)
	d.add("eve", store.RoleAdmin)
	b := d.as("ada", store.RoleAdmin)
	b.post("/signout")
	guess := func(address string) int {
		g := d.browser()
		g.address = address
		return g.signIn("ada", "wrong").status
	}
	for range 2 * guessesPerMinute {
		guess("127.0.0.1:1")
	}
	for i := range accountGuesses + 1 {
		guess(fmt.Sprintf("10.2.%d.1:1", i))
	}
	if got := guess("10.9.9.9:1"); got != http.StatusTooManyRequests {
		t.Fatalf("the account is still open to strangers: %d", got)
	}
	for i := range maxTracked {
		d.c.guesses.countTry(d.clock(), subjects(fmt.Sprint("account", i), fmt.Sprint("address", i)))
	}
	if b.device == "" {
		t.Fatal("no device cookie")
	}
	kept := b.device
	b.signIn("ada", password).to(t, "/")
	b.post("/signout")

	forged := d.browser()
	forged.device = kept[:len(kept)-2] + "AA"
	forged.signIn("ada", password).is(t, http.StatusTooManyRequests)
	other := d.browser()
	other.device = kept // ada's, which says nothing of eve
	for range guessesPerMinute {
		other.signIn("eve", "wrong").is(t, http.StatusForbidden)
	}
	other.signIn("eve", "wrong").is(t, http.StatusTooManyRequests) // as from any strange device

	for range guessesPerMinute {
		b.signIn("ada", "wrong").is(t, http.StatusForbidden)
	}
	b.signIn("ada", password).is(t, http.StatusTooManyRequests) // a device has its own limit
	d.advance(guessWindow)
	b.signIn("ada", password).to(t, "/")
}

func TestADeviceCookieEnds(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	op, _ := d.state.Operator("ada")
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: deviceCookie, Value: b.device})
	for after, want := range map[time.Duration]bool{0: true, deviceFor - time.Second: true, deviceFor: false,
		-time.Hour: false} {
		if _, known := d.c.device(r, op, d.clock().Add(after)); known != want {
			t.Errorf("after %v: known %v", after, known)
		}
	}
	changed := op
	changed.Hash += "x"
	if _, known := d.c.device(r, changed, d.clock()); known {
		t.Error("a new password does not end what the old one has signed")
	}
	r.AddCookie(&http.Cookie{Name: deviceCookie, Value: b.device})
	if _, known := d.c.device(r, op, d.clock()); known {
		t.Error("two cookies of that name: one was planted")
	}
	if _, known := d.c.device(r, store.Operator{}, d.clock()); known {
		t.Error("nobody has a device")
	}
}
