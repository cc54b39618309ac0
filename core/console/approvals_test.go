package console

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// seen is what the page of a call says that it shows.
func (a *answer) seen(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`name="digest" value="([0-9a-f]{64})"`).FindStringSubmatch(a.body)
	if m == nil {
		t.Fatalf("%s: no form that approves\n%s", a.path, a.body)
	}
	return m[1]
}

// approve presses the button on the page of a call.
func (b *browser) approve(decision string) *answer {
	b.d.t.Helper()
	page := "/approvals/" + decision
	return b.post(page+"/approve", "digest", b.get(page).is(b.d.t, http.StatusOK).seen(b.d.t), "reason", "order checked")
}

func (d *desk) status(k *store.Key, token string) string {
	d.t.Helper()
	a, err := d.run(k, "defer_status", fmt.Sprintf(`{"token":%q}`, token))
	if err != nil {
		d.t.Fatal(err)
	}
	return a["status"].(string)
}

func TestNoApprovalsTeaches(t *testing.T) {
	d := newDesk(t)
	for _, role := range []string{store.RoleAdmin, store.RoleApprover, store.RoleAuditor} {
		d.as("has-"+role, role).get("/approvals").is(t, http.StatusOK, "No call waits", "effect: defer", "notify",
			"<title>Approvals ·").lacks(t, "<table")
	}
}

// An operator sees what an agent wants, approves it, and the agent goes on: for each role that may, and each record
// names who.
func TestApproveInTheConsole(t *testing.T) {
	for _, role := range []string{store.RoleAdmin, store.RoleApprover} {
		d := newDesk(t)
		agent := d.key("billing agent", "agent")
		const call = `,"operation":"create","args":{"amount":120.50,"note":"hush-hush","order":"A-17"}`
		decision, token := d.asks(agent, call)
		b := d.as("ada", role)
		b.get("/approvals").is(t, http.StatusOK, "Approvals (1)", "payments/refund", "in 5m0s", "bot", "billing agent", "s-1",
			"money moves", "0 of 1", `href="/approvals/`+decision+`"`)
		b.get("/approvals/"+decision).is(t, http.StatusOK, "This call waits", "2027-03-01 09:05:00 UTC", "payments/refund",
			"billing agent", agent.ID, "s-1", "money moves", "rule", "create",
			"&#34;amount&#34;: 120.5", "&#34;order&#34;: &#34;A-17&#34;", "SECRET_TEST", "Approve this call", "Deny this call",
			"use the API", "standing grant").lacks(t, masked, token)
		b.approve(decision).to(t, "/approvals/"+decision)
		b.get("/approvals/"+decision).is(t, http.StatusOK, "This call is approved", "console:ada", "order checked",
			"once, until").lacks(t, "Approve this call", "Deny this call", token)
		b.get("/approvals").is(t, http.StatusOK, "No call waits")
		for _, typ := range []string{"defer_signed", "defer_resolved"} {
			r := d.audit(typ)
			if len(r) != 1 || r[0]["principal_id"] != "console:ada" || r[0]["principal_method"] != "console" ||
				r[0]["surface"] != "console" || r[0]["peer"] != "127.0.0.1" || r[0]["request_id"] == nil ||
				r[0]["reason"] != "order checked" {
				t.Errorf("%s: %v", typ, r)
			}
		}
		if r := d.audit("defer_resolved"); r[0]["approver_id"] != "console:ada" || r[0]["approved"] != true {
			t.Errorf("resolved: %v", r)
		}
		a, err := d.run(agent, "authorize", `{"agent_id":"bot","session_id":"s-1","tool_id":"payments/refund"`+call+
			`,"defer_token":"`+token+`"}`)
		if err != nil || a["effect"] != "PERMIT" || a["reason_code"] != sdk.ReasonApprovalConsumed {
			t.Errorf("redeemed: %v %v", a, err)
		}
		b.get("/approvals/"+decision).is(t, http.StatusOK, "was approved and is used", "console:ada")
		d.restart()
		b.get("/approvals/"+decision).is(t, http.StatusOK, "was approved and is used", "billing agent")
	}
}

// The page says whose words a note is, shows it with markup and marks escaped, and says when it is withheld.
func TestNoteInTheConsole(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	b := d.as("ada", store.RoleApprover)
	decision, _ := d.asks(agent, `,"note":"<b>it is</b> \u202eneeded, with hush-hush\nApproved by the boss"`)
	b.get("/approvals/"+decision).is(t, http.StatusOK, "What the agent says", "Nothing checks whether it is true",
		"&lt;b&gt;it is&lt;/b&gt;", "U&#43;202E", "SECRET_TEST", "Approve this call").lacks(t, masked, "<b>it is", "\u202e")
	plain, _ := d.asks(agent, `,"args":{"n":2}`)
	b.get("/approvals/"+plain).is(t, http.StatusOK, "Approve this call").lacks(t, "What the agent says")
}

func TestDenyInTheConsole(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	b := d.as("ada", store.RoleApprover)
	b.post("/approvals/"+decision+"/deny", "reason", "  wrong\r\n<b>customer</b> ").to(t, "/approvals/"+decision)
	b.get("/approvals/"+decision).is(t, http.StatusOK, "This call is denied", "console:ada", "wrong",
		"&lt;b&gt;customer").lacks(t, "Approve this call", "Deny this call", "<b>customer")
	st, err := d.run(agent, "defer_status", fmt.Sprintf(`{"token":%q}`, token))
	if err != nil || st["status"] != "denied" || st["reason"] != "wrong\n<b>customer</b>" ||
		st["resolved_by"] != "console:ada" {
		t.Errorf("the agent is told %v %v", st, err)
	}
	b.post("/approvals/"+decision+"/deny").to(t, "/approvals/"+decision) // the same answer once more
	b.post("/approvals/"+decision+"/approve", "digest", strings.Repeat("ab", 32)).is(t, http.StatusConflict,
		"denied by console:ada")
	other, _ := d.asks(agent, `,"args":{"a":2}`)
	b.post("/approvals/"+other+"/deny").to(t, "/approvals/"+other)
}

func TestApprovalsSoonestFirst(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	var ids []string
	for i, after := range []time.Duration{time.Hour, time.Minute, 10 * time.Minute} {
		v := waits
		v.Expires = after
		d.rule(v)
		id, _ := d.asks(agent, fmt.Sprintf(`,"args":{"n":%d}`, i))
		ids = append(ids, id)
	}
	body := d.as("ada", store.RoleAuditor).get("/approvals").is(t, http.StatusOK, "Approvals (3)").body
	if a, b, c := strings.Index(body, ids[1]), strings.Index(body, ids[2]), strings.Index(body, ids[0]); a < 0 || a > b ||
		b > c {
		t.Errorf("order: %d %d %d", a, b, c)
	}
	d.advance(time.Minute)
	d.as("ada", store.RoleAuditor).get("/approvals").is(t, http.StatusOK, "Approvals (2)").lacks(t, ids[1])
	for i := range mostWaiting {
		d.asks(agent, fmt.Sprintf(`,"args":{"more":%d}`, i))
	}
	d.as("ada", store.RoleAuditor).get("/approvals").is(t, http.StatusOK, "Approvals (102)", "2 more wait")
}

// An auditor sees all of it and can do none of it.
func TestAuditorAnswersNothing(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	b := d.as("eve", store.RoleAuditor)
	b.get("/approvals").is(t, http.StatusOK, decision)
	b.get("/approvals/"+decision).is(t, http.StatusOK, "This call waits",
		"takes the role admin or approver; yours is auditor").lacks(t, "<textarea", "Approve this call", "Deny this call")
	seen := d.as("ada", store.RoleAdmin).get("/approvals/" + decision).seen(t)
	for _, what := range []string{"approve", "deny"} {
		b.post("/approvals/"+decision+"/"+what, "digest", seen, "reason", "x").is(t, http.StatusForbidden, "Not yours to do",
			"takes the role admin or approver")
		_, err := d.ops.AnswerAs(t.Context(), store.Operator{Name: "eve", Role: store.RoleAuditor}, store.Who{},
			ops.Answer{Decision: decision, Approved: what == "approve", Digest: seen})
		if err == nil {
			t.Errorf("%s: the operation lets an auditor in", what)
		}
	}
	if st := d.status(agent, token); st != "pending" || len(d.audit("defer_signed"))+len(d.audit("defer_resolved")) != 0 {
		t.Errorf("the call is %s", st)
	}
}

// Two approvals are two people's, here or with a key; one person is one, however often they press.
func TestQuorumInTheConsole(t *testing.T) {
	d := newDesk(t)
	v := waits
	v.Approvals = 3
	d.rule(v)
	agent, boss := d.key("agent", "agent"), d.key("boss", "approver")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	page := "/approvals/" + decision
	ada, bob := d.as("ada", store.RoleAdmin), d.as("bob", store.RoleApprover)
	seen := ada.get(page).is(t, http.StatusOK, "0 of 3").seen(t)
	for range 3 {
		ada.post(page+"/approve", "digest", seen).to(t, page)
	}
	ada.get(page).is(t, http.StatusOK, "1 of 3", "<bdi>console:ada</bdi> at", "You have signed it off",
		"Deny this call").lacks(t, "Approve this call")
	bob.approve(decision).to(t, page)
	bob.get(page).is(t, http.StatusOK, "2 of 3", "<bdi>console:ada</bdi> at", "<bdi>console:bob</bdi> at", "order checked")
	if st := d.status(agent, token); st != "pending" {
		t.Fatalf("after two of three it is %s", st)
	}
	if _, err := d.run(boss, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true}`, token)); err != nil {
		t.Fatal(err)
	}
	bob.get(page).is(t, http.StatusOK, "This call is approved", "by", "boss ("+boss.ID+")")
}

// Where a rule names who approves, an operator is not among them, whatever they are called; they can still deny.
func TestNamedApprovers(t *testing.T) {
	d := newDesk(t)
	v := waits
	v.From = []string{"key:console:ada", "key:ada", "role:approver", "role:admin"}
	d.rule(v)
	agent := d.key("agent", "agent")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	page := "/approvals/" + decision
	for _, role := range []string{store.RoleAdmin, store.RoleApprover} {
		b := d.as(map[string]string{store.RoleAdmin: "ada", store.RoleApprover: "bob"}[role], role)
		b.get(page).is(t, http.StatusOK, "names who may approve", "key:ada", "role:approver", "can be denied").lacks(t,
			"Approve this call")
		b.post(page+"/approve", "digest", d.deferred(decision).Digest).is(t, http.StatusForbidden, "names who may approve")
	}
	if st := d.status(agent, token); st != "pending" {
		t.Fatalf("it is %s", st)
	}
	d.as("bob", store.RoleApprover).post(page+"/deny", "reason", "no").to(t, page)
}

func (d *desk) deferred(decision string) *ops.Deferral {
	d.t.Helper()
	x, err := d.ops.Deferral(context.Background(), decision)
	if err != nil {
		d.t.Fatal(err)
	}
	return x
}

// What is approved is the call that was on the page, not the one that another approver has made of it meanwhile.
func TestApprovesWhatWasShown(t *testing.T) {
	d := newDesk(t)
	v := waits
	v.Approvals = 2
	d.rule(v)
	agent, boss := d.key("agent", "agent"), d.key("boss", "approver")
	decision, token := d.asks(agent, `,"args":{"amount":1}`)
	page := "/approvals/" + decision
	b := d.as("ada", store.RoleAdmin)
	seen := b.get(page).is(t, http.StatusOK, "&#34;amount&#34;: 1").seen(t)
	if _, err := d.run(boss, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"amount":1000000}}`, token)); err != nil {
		t.Fatal(err)
	}
	b.post(page+"/approve", "digest", seen, "reason", "one is fine").is(t, http.StatusConflict, "read it again", "1000000",
		"put other arguments", "one is fine")
	if st := d.status(agent, token); st != "pending" {
		t.Fatalf("it is %s", st)
	}
	for _, bad := range []string{"", "x", "ab", strings.Repeat("AB", 32), strings.Repeat("ab", 31),
		strings.Repeat("ab", 33)} {
		if a := b.post(page+"/approve", "digest", bad); a.status != http.StatusUnprocessableEntity {
			t.Errorf("seen %q: %d", bad, a.status)
		}
	}
	b.post(page+"/approve").is(t, http.StatusUnprocessableEntity, "which call")
	b.approve(decision).to(t, page)
	if st := d.status(agent, token); st != "approved" {
		t.Errorf("it is %s", st)
	}
}

// A call whose arguments were changed shows the rule that defers it with these, and not the one that deferred it
// before.
func TestChangedCallShowsItsRule(t *testing.T) {
	d := newDesk(t)
	v := waits
	v.Approvals, v.RuleID = 2, "of-one"
	d.rule(v)
	agent, boss := d.key("agent", "agent"), d.key("boss", "approver")
	decision, token := d.asks(agent, `,"args":{"amount":1}`)
	b := d.as("ada", store.RoleAdmin)
	shows := func(rule, none string) {
		t.Helper()
		for _, page := range []string{"/approvals", "/approvals/" + decision} {
			b.get(page).is(t, http.StatusOK, "rule <bdi>"+rule, "of 2").lacks(t, none)
		}
	}
	shows("of-one", "of-many")
	v.RuleID = "of-many"
	d.rule(v)
	if _, err := d.run(boss, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"modified_args":{"amount":1000000}}`, token)); err != nil {
		t.Fatal(err)
	}
	shows("of-many", "of-one")
}

func TestApprovalThatIsOver(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, _ := d.asks(agent, `,"args":{"a":1}`)
	page := "/approvals/" + decision
	b := d.as("ada", store.RoleApprover)
	seen := b.get(page).seen(t)
	d.advance(5 * time.Minute)
	b.post(page+"/approve", "digest", seen).is(t, http.StatusGone, "expired", "nobody answered in time").lacks(t,
		"Approve this call")
	b.post(page+"/deny").is(t, http.StatusGone, "expired")
	b.get(page).is(t, http.StatusOK, "This call has expired", "nobody answered in time").lacks(t,
		"<form method=\"post\" action=\"/approvals")

	used, _ := d.asks(agent, `,"args":{"a":2}`)
	b.approve(used).to(t, "/approvals/"+used)
	d.advance(5 * time.Minute)
	b.get("/approvals/"+used).is(t, http.StatusOK, "This call has expired", "not used in time")

	v := waits
	v.Approvals = 2
	d.rule(v)
	half, _ := d.asks(agent, `,"args":{"a":4}`)
	b.approve(half).to(t, "/approvals/"+half)
	d.advance(5 * time.Minute)
	b.get("/approvals/"+half).is(t, http.StatusOK, "This call has expired", "1 of 2 approvals were given in time").lacks(t,
		"not used in time")
	d.rule(waits)

	gone, _ := d.asks(agent, `,"args":{"a":3}`)
	if err := d.ops.RevokeKey(context.Background(), agent.ID, store.Who{Principal: "admin:0"}); err != nil {
		t.Fatal(err)
	}
	b.get("/approvals/"+gone).is(t, http.StatusOK, "This call is denied", "the asking key was revoked")

	for _, id := range []string{"dec_01ARZ3NDEKTSV4RRFFQ69G5FAV", "dec_", "x", "dfr_01ARZ3NDEKTSV4RRFFQ69G5FAV",
		decision + "x", strings.ToLower(decision)} {
		b.get("/approvals/"+id).is(t, http.StatusNotFound, "No call with this id")
		b.post("/approvals/"+id+"/approve", "digest", seen).is(t, http.StatusNotFound)
		b.post("/approvals/"+id+"/deny").is(t, http.StatusNotFound)
	}
}

// Whatever an agent puts into a call is text, and what cannot be seen is made visible.
func TestHostileCallIsShown(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, _ := d.asks(agent, `,"args":{"to":"bob\u202egnp.exe","x":"<script>alert(1)</script>\u200b\u0007\"'","<img src=x>":"</pre></main>"}`)
	a := d.as("ada", store.RoleAdmin).get("/approvals/"+decision).is(t, http.StatusOK,
		`bob<span class="mark">⟨U&#43;202E⟩</span>gnp.exe`, "&lt;script&gt;alert(1)",
		`<span class="mark">⟨U&#43;200B⟩</span>`, "&lt;/pre&gt;&lt;/main&gt;", "&lt;img src=x&gt;")
	a.lacks(t, "<script>alert", "<img", "\u202e", "\u200b")
	if strings.Count(a.body, "</pre>") != 1 {
		t.Error("the call breaks out")
	}
}

// A call that is too large to be read here cannot be approved here, and one that its layout blows up is shown in one
// line.
func TestLargeCalls(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	b := d.as("ada", store.RoleAdmin)
	large, token := d.asks(agent, `,"args":{"a":"`+strings.Repeat("x", mostShown)+`"}`)
	b.get("/approvals/"+large).is(t, http.StatusOK, "what cannot be read here", "Deny this call").lacks(t,
		"Approve this call", "xxxx")
	b.post("/approvals/"+large+"/deny").to(t, "/approvals/"+large)
	if st := d.status(agent, token); st != "denied" {
		t.Errorf("it is %s", st)
	}
	deep, _ := d.asks(agent, `,"args":{"a":`+strings.Repeat("[", 60)+strings.Repeat("1,", mostShown/4)+"1"+
		strings.Repeat("]", 60)+`}`)
	if a := b.get("/approvals/"+deep).is(t, http.StatusOK, "Approve this call"); len(a.body) > 8*mostShown {
		t.Errorf("the page has %d bytes", len(a.body))
	}
}

func TestReasonIsLimited(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	page := "/approvals/" + decision
	b := d.as("ada", store.RoleAdmin)
	long := strings.Repeat("é", 600)
	b.post(page+"/deny", "reason", long).is(t, http.StatusUnprocessableEntity, "limit of 1024", long,
		`aria-invalid="true"`)
	b.post(page+"/approve", "reason", long, "digest", b.get(page).seen(t)).is(t, http.StatusUnprocessableEntity,
		"limit of 1024", long)
	b.post(page+"/deny", "reason", "a", "reason", "b").is(t, http.StatusBadRequest, "more than once")
	if st := d.status(agent, token); st != "pending" {
		t.Errorf("it is %s", st)
	}
}

// A link in a message leads to the sign-in and from there to the call; no other address does.
func TestSignInComesBack(t *testing.T) {
	d := newDesk(t)
	d.add("ada", store.RoleApprover)
	decision, _ := d.asks(d.key("agent", "agent"), `,"args":{"a":1}`)
	page := "/approvals/" + decision
	b := d.browser()
	b.header.Set("Sec-Fetch-Site", "cross-site") // from the message; no cookie goes along
	b.get(page).to(t, "/signin?next=%2Fapprovals%2F"+decision)
	b.get("/signin?next="+page).is(t, http.StatusOK, `<input type="hidden" name="next" value="`+page+`">`,
		`href="`+page+`"`)
	b.header.Del("Sec-Fetch-Site")
	b.post("/signin", "name", "ada", "password", "wrong", "next", page).is(t, http.StatusForbidden,
		`name="next" value="`+page+`"`)
	b.post("/signin", "name", "ada", "password", password, "next", page).to(t, page)
	b.get(page).is(t, http.StatusOK, "This call waits")
	b.get("/signin?next="+page).to(t, page)
	b.get("/").to(t, "/approvals") // an approver has nothing to do with keys
	for _, bad := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "/approvals//evil.example", page + "/../../keys", page + "?x", page + "#x", page + "%0a", "/keys", "/approvals/x", "evil" + page,
		page + "\n", "\n" + page, " " + page, strings.ToUpper(page), "/signin?next=" + page, "javascript:alert(1)", "http://" + here + page} {
		b := d.browser()
		q := strings.NewReplacer("%", "%25", "#", "%23", "\n", "%0a", " ", "%20", "?", "%3f", "\\", "%5c").Replace(bad)
		b.get("/signin?next="+q).is(t, http.StatusOK).lacks(t, "evil", `name="next"`)
		if a := b.post("/signin", "name", "ada", "password", password, "next", bad); a.status !=
			http.StatusUnprocessableEntity || a.header.Get("Location") != "" || b.cookie != "" {
			t.Errorf("next=%q: %d to %q", bad, a.status, a.header.Get("Location"))
		}
	}
	b = d.browser()
	b.post("/signin", "name", "ada", "password", password, "next", page, "next", "/keys").is(t, http.StatusBadRequest)
	b.send("POST", page+"/approve", "", "").is(t, http.StatusForbidden, "not signed in")
}

// When nothing can be recorded, nothing is approved, and the page says so.
func TestAnswerThatFails(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	page := "/approvals/" + decision
	b := d.as("ada", store.RoleAdmin)
	seen := b.get(page).seen(t)
	d.c.set.Approvals = failing{d.ops, &sdk.Error{Code: sdk.CodeAuditUnavailable, Msg: "x", Err: fmt.Errorf("disk full")}}
	for _, what := range []string{"approve", "deny"} {
		b.post(page+"/"+what, "digest", seen).is(t, http.StatusServiceUnavailable, "could not be recorded").lacks(t,
			"disk full")
	}
	d.c.set.Approvals = failing{d.ops, fmt.Errorf("secret detail")}
	b.post(page+"/deny").is(t, http.StatusInternalServerError, "Something went wrong").lacks(t, "secret detail")
	if st := d.status(agent, token); st != "pending" || !strings.Contains(d.logged(), "disk full") {
		t.Errorf("it is %s; the log says %q", st, d.logged())
	}
}

// A denial that the disk does not take holds, although not even the call can be read: the page says what that means.
func TestDenialThatIsNotOnDisk(t *testing.T) {
	d := newDesk(t)
	decision, _ := d.asks(d.key("agent", "agent"), `,"args":{"a":1}`)
	page := "/approvals/" + decision
	b := d.as("ada", store.RoleAdmin)
	d.c.set.Approvals = blind{failing{d.ops, &sdk.Error{Code: sdk.CodeNotDurable, Msg: "the denial is in effect"}}}
	for _, what := range []string{"deny", "withdraw"} {
		b.post(page+"/"+what).is(t, http.StatusServiceUnavailable, "In effect, but not on disk",
			"The denial is in effect.").lacks(t, "Nothing was done")
	}
	b.post(page+"/approve", "digest", strings.Repeat("ab", 32)).is(t, http.StatusServiceUnavailable,
		"could not be recorded")
}

// blind reads no call.
type blind struct{ failing }

func (blind) Deferral(context.Context, string) (*ops.Deferral, error) {
	return nil, &sdk.Error{Code: sdk.CodeAuditUnavailable}
}

type failing struct {
	*ops.Service
	err error
}

func (f failing) AnswerAs(context.Context, store.Operator, store.Who, ops.Answer) (*wire.ApproveResponse, error) {
	return nil, f.err
}

// What could not be masked is not shown, and the page says so and why.
func TestUnmaskedCallIsNotShown(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, _ := d.asks(agent, fmt.Sprintf(`,"args":{"a":%q},"context":{"b":%q}`, unmaskable, masked))
	d.as("ada", store.RoleAdmin).get("/approvals/"+decision).is(t, http.StatusOK, "Not shown:",
		"the arguments (error, scanner mask)", "[SECRET_TEST: 9 characters (8 letters, 1 sign), begins hu…]").
		lacks(t, unmaskable, masked, "the context (")
}

// Once the key of the approver is revoked, the call is in the list again. An operator may approve or deny it.
func TestApprovalThatCountsNoMoreInTheConsole(t *testing.T) {
	d := newDesk(t)
	agent, boss := d.key("agent", "agent"), d.key("boss", "approver")
	first, token := d.asks(agent, `,"args":{"a":1}`)
	second, other := d.asks(agent, `,"args":{"a":2}`)
	for _, token := range []string{token, other} {
		if _, err := d.run(boss, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"reason":"boss says so"}`,
			token)); err != nil {
			t.Fatal(err)
		}
	}
	b := d.as("ada", store.RoleAdmin)
	b.get("/approvals").is(t, http.StatusOK, "No call waits")
	b.get("/approvals/"+first).is(t, http.StatusOK, "This call is approved", "boss says so").lacks(t, "Approve this call")
	if err := d.ops.RevokeKey(context.Background(), boss.ID, store.Who{Principal: "console:ada"}); err != nil {
		t.Fatal(err)
	}
	b.get("/approvals").is(t, http.StatusOK, "Approvals (2)", "0 of 1")
	b.get("/approvals/"+first).is(t, http.StatusOK, "This call waits", "0 of 1", "Approve this call",
		"Deny this call").lacks(t, "boss says so", "Withdraw this approval")
	b.approve(first).to(t, "/approvals/"+first)
	b.get("/approvals/"+first).is(t, http.StatusOK, "This call is approved", "console:ada", "Sign-offs (1 of 1)")
	b.post("/approvals/"+second+"/deny", "reason", "no").to(t, "/approvals/"+second)
	if one, two := d.status(agent, token), d.status(agent, other); one != "approved" || two != "denied" {
		t.Errorf("the agent is told %s and %s", one, two)
	}
}

// An approval that was not redeemed can be withdrawn; the page says what ends with it.
func TestWithdrawInTheConsole(t *testing.T) {
	d := newDesk(t)
	agent := d.key("agent", "agent")
	decision, token := d.asks(agent, `,"args":{"a":1}`)
	page := "/approvals/" + decision
	ada := d.as("ada", store.RoleAdmin)
	ada.get(page).is(t, http.StatusOK, "This call waits").lacks(t, "Withdraw this approval")
	ada.approve(decision).to(t, page)
	ada.get(page).is(t, http.StatusOK, "This call is approved", "Withdraw this approval").lacks(t, "standing grant")
	d.as("eve", store.RoleAuditor).get(page).is(t, http.StatusOK, "This call is approved").lacks(t,
		"Withdraw this approval")
	d.as("eve", store.RoleAuditor).post(page+"/withdraw", "reason", "x").is(t, http.StatusForbidden, "Not yours to do")
	ada.post(page+"/deny", "reason", "too late").is(t, http.StatusConflict, "This call is approved")
	d.as("bob", store.RoleApprover).post(page+"/withdraw", "reason", "wrong order").to(t, page)
	ada.get(page).is(t, http.StatusOK, "This approval was withdrawn", "console:bob", "wrong order").lacks(t,
		"Withdraw this approval", "Approve this call")
	ada.post(page+"/withdraw").is(t, http.StatusConflict, "denied by console:bob")
	if st := d.status(agent, token); st != "denied" {
		t.Errorf("the agent is told %s", st)
	}
	if r := d.audit("defer_resolved"); len(r) != 2 || r[1]["withdrawn"] != true || r[1]["principal_id"] != "console:bob" {
		t.Errorf("recorded: %v", r)
	}
}
