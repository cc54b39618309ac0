package mcpd_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// pins are as the gateway has them, on the rig's store.
type pins struct {
	store *store.Store
	ask   bool
	fail  *atomic.Bool
}

// Seen implements mcpd.Pins.
func (p pins) Seen(ctx context.Context, by store.Who, server, tool, digest, text string) (bool, error) {
	if p.fail.Load() {
		return true, errors.New("the disk of the test is broken")
	}
	return p.store.NoteTool(ctx, store.SeeTool{Server: server, Tool: tool, Digest: digest, Text: text, Ask: p.ask, By: by})
}

// Changed implements mcpd.Pins.
func (p pins) Changed(server, tool string) bool {
	t := p.store.Tool(server, tool)
	if t == nil {
		return p.ask
	}
	return t.Pending.Digest != "" || t.Accepted.Digest == ""
}

// lister is a server whose list of tools can be set.
type lister struct {
	*rig
	result atomic.Pointer[string]
}

func newLister(t *testing.T, pin string) *lister {
	l := &lister{}
	l.list("")
	l.rig = newRig(t, func(w http.ResponseWriter, r received) {
		if strings.Contains(r.body, "tools/list") {
			plain(*l.result.Load())(w, r)
			return
		}
		plain(`{"content":[{"type":"text","text":"it ran"}]}`)(w, r)
	}, func(m *config.MCP) { m.Pin = pin })
	return l
}

func (l *lister) list(tools string) { l.result.Store(new(`{"tools":[` + tools + `]}`)) }

// see lists the tools, and says which of them are there, by a text in their definitions.
func (l *lister) see(want string) {
	l.t.Helper()
	_, _, got := l.send(list)
	if have := strings.Contains(got, want); !have {
		l.t.Errorf("no %s in the list %s", want, got)
	}
}

func (l *lister) unseen(not string) {
	l.t.Helper()
	if _, _, got := l.send(list); strings.Contains(got, not) || !strings.Contains(got, `"tools":[`) {
		l.t.Errorf("%s is in the list %s", not, got)
	}
}

// runs calls a tool. why is in the refusal, "" if the call has to run.
func (l *lister) runs(tool, why string) {
	l.t.Helper()
	l.requests()
	_, _, got := l.send(call(7, tool, `{}`))
	ran := len(l.requests()) > 0
	if why == "" && (!ran || !strings.Contains(got, "it ran")) || why != "" && (ran || !strings.Contains(got, why)) {
		l.t.Errorf("%s: want %q, ran %v: %s", tool, why, ran, got)
	}
}

// pending is the digest of the definition that waits.
func (l *lister) pending(tool string) string {
	l.t.Helper()
	t := l.bench.Store.Tool("up", tool)
	if t == nil {
		l.t.Fatalf("%s is not known", tool)
	}
	return t.Pending.Digest
}

func (l *lister) accept(tool string) {
	l.t.Helper()
	err := l.bench.Store.Commit(context.Background(), &store.AcceptTool{Server: "up", Tool: tool, Digest: l.pending(tool),
		By: doortest.Operator})
	if err != nil {
		l.t.Fatal(err)
	}
}

const (
	hasChanged  = "has changed since it was accepted. Its calls are refused until an operator accepts the new one"
	notAccepted = "No operator has accepted the definition"
)

func TestChangedToolsAreRefused(t *testing.T) {
	l := newLister(t, config.MCPPinFirstUse)
	l.runs("read", "") // no list was asked for
	l.list(`{"name":"read","description":"first"},{"name":"other"}`)
	l.see("first")
	l.runs("read", "")
	l.list(`{"description":"first","name":"read"},{"name":"other"}`) // the same in another order
	l.see("first")
	l.runs("read", "")
	seq := l.bench.Store.Seq()
	for range 3 {
		l.see("first")
	}
	if n := l.toolRecords(seq); n != 0 {
		t.Errorf("%d records of a list that did not change", n)
	}

	l.list(`{"name":"read","description":"second"},{"name":"other"}`)
	l.unseen(`"read"`)
	l.see("other")
	l.runs("read", hasChanged)
	l.runs("other", "")
	l.list(`{"name":"read","description":"first"},{"name":"other"}`)
	l.see("first")
	l.runs("read", "")

	l.list(`{"name":"read","description":"second"},{"name":"other"}`)
	l.unseen(`"read"`)
	l.accept("read")
	l.runs("read", "")
	l.see("second")
	l.runs("read", "")
	l.list(`{"name":"read","description":"first"}`)
	l.unseen(`"read"`)
	l.runs("read", hasChanged)

	for _, c := range []struct{ was, is string }{
		{`{"name":"x","inputSchema":{"maximum":12345678901234567890}}`,
			`{"name":"x","inputSchema":{"maximum":12345678901234567891}}`},
		{`{"name":"x","annotations":{"readOnlyHint":true}}`, `{"name":"x","annotations":{"readOnlyHint":false}}`},
		{`{"name":"x","a":"1"}`, `{"name":"x","a":1}`},
		{`{"name":"x"}`, `{"name":"x","unknown":null}`},
		{`{"name":"x","description":"a\u0000b"}`, `{"name":"x","description":"a\u2400b"}`},
		{`{"name":"x","description":"a\ud800b"}`, `{"name":"x","description":"a\ud801b"}`},
		{`{"name":"x","description":"a\u200bb"}`, `{"name":"x","description":"ab"}`},
	} {
		l := newLister(t, config.MCPPinFirstUse)
		l.list(c.was)
		l.see(`"x"`)
		l.list(c.is)
		l.unseen(`"x"`)
		l.runs("x", hasChanged)
	}
}

// toolRecords is how many records of tools were written behind a seq.
func (l *lister) toolRecords(after uint64) (n int) {
	l.t.Helper()
	err := l.bench.Store.Records(after+1, func(_ uint64, rec []byte) error {
		if strings.Contains(string(rec), `"type":"mcp_tool"`) {
			n++
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// With mcp.pin operator nothing runs that no operator has accepted, listed or not.
func TestFirstDefinitionsAreAsked(t *testing.T) {
	l := newLister(t, config.MCPPinOperator)
	l.runs("read", notAccepted)
	l.list(`{"name":"read","description":"first"}`)
	l.unseen(`"read"`)
	l.runs("read", notAccepted)
	l.accept("read")
	l.runs("read", "")
	l.see("first")
	l.list(`{"name":"read","description":"second"}`)
	l.unseen(`"read"`)
	l.runs("read", notAccepted)
}

// A call that was approved under one definition does not run under another one.
func TestChangeWhileACallWaits(t *testing.T) {
	l := newLister(t, config.MCPPinFirstUse)
	l.list(`{"name":"defer_it","description":"first"}`)
	l.see("first")
	l.runs("defer_it", "waits for a person")
	if l.bench.AnswerPending(true) != 1 {
		t.Fatal("nothing waits")
	}
	l.list(`{"name":"defer_it","description":"second"}`)
	l.unseen("defer_it")
	l.runs("defer_it", hasChanged)
	l.accept("defer_it")
	l.runs("defer_it", "")
}

// What is kept of a definition is what may be passed on. A change of what is not kept is a change all the same.
func TestWhatIsKeptOfADefinition(t *testing.T) {
	l := newLister(t, config.MCPPinFirstUse)
	l.list(`{"name":"said","description":"a S3CR3T","n":1.0},{"name":"poisoned","description":"F0RB1D"}`)
	l.see("a [hidden]")
	one := l.bench.Store.Tool("up", "said")
	text, err := l.bench.Store.ToolText(one, one.Accepted)
	if err != nil || text != `{"description":"a [hidden]","n":1,"name":"said"}` && text !=
		`{"description":"a [hidden]","n":1.0,"name":"said"}` {
		t.Errorf("%s, %v", text, err)
	}
	if l.bench.Store.Tool("up", "poisoned") != nil {
		t.Error("a poisoned definition was noted")
	}
	l.list(`{"name":"said","description":"a S3CR3TS3CR3T"}`)
	l.unseen("said")
	l.runs("said", hasChanged)
	// a poisoned one does not become what counts, and is called under no other name
	l.list(`{"name":"said","description":"F0RB1D"}`)
	l.unseen("said")
	l.runs("said", "withheld by policy")
	if got := l.pending("said"); got == "" || len(l.bench.Store.Tools()) != 1 {
		t.Errorf("%s %v", got, l.bench.Store.Tools())
	}
}

// A definition that cannot be noted is not shown, and its tool is not called.
func TestToolsThatCannotBeNoted(t *testing.T) {
	l := newLister(t, config.MCPPinFirstUse)
	long := fmt.Sprintf(`{"name":"long","description":%q}`, strings.Repeat("x ", store.MaxToolText/2))
	l.list(long + `,{"name":"read"}`)
	l.unseen(`"long"`)
	l.see(`"read"`)
	l.runs("long", "could not record")
	l.broken.Store(true)
	l.unseen(`"read"`)
	l.runs("read", "could not record")
	l.broken.Store(false)
	l.see(`"read"`)
	l.runs("read", "")
}

// A tool that one page has twice is not called, unless both are the same.
func TestToolsTwiceOnAPage(t *testing.T) {
	for tools, why := range map[string]string{
		`{"name":"read","v":1},{"name":"read","v":1}`:                       "",
		`{"name":"read","v":1},{"name":"read","v":2}`:                       "twice",
		`{"name":"read","v":1},{"name":"read","v":1},{"name":"read","v":2}`: "twice",
		`{"name":"read","v":1},{"v":2,"name":"r\u0065ad"}`:                  "twice",
	} {
		l := newLister(t, config.MCPPinFirstUse)
		l.list(tools)
		if why == "" {
			l.see(`"read"`)
		} else {
			l.unseen(`ad"`)
		}
		l.runs("read", why)
		if noted := l.bench.Store.Tool("up", "read") != nil; noted == (why != "") {
			t.Errorf("%s: noted %v", tools, noted)
		}
	}
}

// A name about which nobody could ask is not listed.
func TestNamesThatCannotBeAsked(t *testing.T) {
	for _, name := range []string{"re\u200bad", "read ", strings.Repeat("r", 300)} {
		l := newLister(t, config.MCPPinFirstUse)
		l.list(fmt.Sprintf(`{"name":"%s"},{"name":"other"}`, name))
		if _, _, got := l.send(list); strings.Count(got, `"name"`) != 1 {
			t.Errorf("%.20q: %.200s", name, got)
		}
		if n := len(l.bench.Store.Tools()); n != 1 {
			t.Errorf("%.20q: %d tools were noted", name, n)
		}
	}
}

// Pages that never end, or go round, do not fill the memory: what is kept is bounded, and then calls are refused.
func TestEndlessPages(t *testing.T) {
	l := newLister(t, config.MCPPinFirstUse)
	page := func(n int, description string) string {
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, `,{"name":"t%d_%d","description":%q,"outputSchema":{"type":"object"},`+
				`"inputSchema":{"properties":{"p":{"x-mcp-header":"P"}}}}`, n, i, description)
		}
		return b.String()[1:] + `],"nextCursor":"` + fmt.Sprint(n%2) + `","x":[`
	}
	l.list(page(0, "clean"))
	l.see("t0_1")
	seq := l.bench.Store.Seq()
	for range 3 { // it goes round
		l.see("t0_999")
	}
	if n := l.toolRecords(seq); n != 0 {
		t.Errorf("%d records", n)
	}
	l.runs("t0_1", "")
	pad := strings.Repeat("x", 2000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := 1; n < 20; n++ {
		l.list(page(n, "F0RB1D "+pad))
		l.unseen("t1")
	}
	l.list("")
	l.requests()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 16<<20 {
		t.Errorf("pages of 40 MB leave %d bytes", grew)
	}
	l.runs("t19_1", "too many tools that are withheld")
	l.runs("t0_1", "too many tools that are withheld")
}
