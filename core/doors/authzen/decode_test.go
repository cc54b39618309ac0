package authzen

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit/limits"
	"github.com/yett-dev/yett/sdk/exact"
)

// Names that differ stay apart: what stands before the separator is not taken for what stands behind it.
func TestNames(t *testing.T) {
	for _, name := range []func(kind, id string) string{agentOf, toolOf} {
		seen := map[string][2]string{}
		for _, n := range [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"a%3Ab", "c"}, {"a", "b/c"}, {"a/b", "c"},
			{"a%2Fb", "c"}} {
			got := name(n[0], n[1])
			if was, twice := seen[got]; twice {
				t.Errorf("%v and %v are both %q", n, was, got)
			}
			seen[got] = n
		}
	}
}

// FuzzDecode: what is read as a call has all that a call needs, is the same call when it is read again, and keeps
// nothing of an approval.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"1"}}`,
		`{"subject":{"type":"u"},"evaluations":[{"subject":{"id":"a"},"action":{"name":"\u0061"},"resource":{"type":"r",` +
			`"id":"1","properties":{"n":1e400}},"context":{"approval":{"id":"x"},"a":1.0}}, {}, 7]}`,
		`{"subject":{"id":"1"},"action":{},"resource":{},"evaluations":[{"subject":{ }}],"context":{"approval":null}}`,
	} {
		f.Add(text)
	}
	lim := limits.Default(f)
	f.Fuzz(func(t *testing.T, text string) {
		req, err := object(text, &lim)
		if err != nil {
			return
		}
		check(t, req, exact.Value{})
		for one := range req.Get("evaluations").Elements() {
			check(t, one, req)
		}
	})
}

func check(t *testing.T, one, top exact.Value) {
	t.Helper()
	lim := limits.Default(t)
	c, err := readCall(one, top, &lim)
	if err != nil {
		return
	}
	if c.args.Len() != 3 || c.context.Get("approval").Exists() || len(c.names) != c.context.Len() {
		t.Errorf("args %s, context %s", c.args.Raw(), c.context.Raw())
	}
	s, a, r := c.args.Get("subject"), c.args.Get("action"), c.args.Get("resource")
	if c.agent != agentOf(s.Get("type").Str(), s.Get("id").Str()) || s.Get("id").Str() == "" ||
		c.tool != toolOf(r.Get("type").Str(), a.Get("name").Str()) || a.Get("name").Str() == "" ||
		r.Get("id").Kind() != exact.String {
		t.Errorf("%s %s of %s", c.agent, c.tool, c.args.Raw())
	}
	text := c.args.Raw()
	if c.context.Exists() {
		text = text[:len(text)-1] + `,"context":` + c.context.Raw() + "}"
	}
	same, err := object(text, &lim)
	if err != nil {
		return // one level or a few tokens more than the limits allow
	}
	again, err := readCall(same, exact.Value{}, &lim)
	if err != nil || again.agent != c.agent || again.tool != c.tool || again.argsSum != c.argsSum ||
		again.contextSum != c.contextSum {
		t.Errorf("%s is another call when it is read again: %v", text, err)
	}
}

// The memory forgets nothing before its time, and refuses what it has no room for.
func TestMemory(t *testing.T) {
	m, now := newMemory(2), time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC)
	one, two, three := [32]byte{1}, [32]byte{2}, [32]byte{3}
	until := now.Add(taskLife)
	if !m.put("k", one, one, now, until) || !m.put("k", two, two, now, until) || m.put("k", three, three, now, until) ||
		!m.put("k", two, three, now, until) || !m.put("other", three, three, now, until) {
		t.Error("room is counted wrong")
	}
	if v, found := m.get("k", two, now); !found || v != three {
		t.Error("the later note is not there")
	}
	if _, found := m.get("k", three, now); found {
		t.Error("one key has another's notes")
	}
	later := until.Add(1)
	if _, found := m.get("k", one, later); found {
		t.Error("a note is there after its time")
	}
	if !m.put("k", three, three, later, later.Add(taskLife)) {
		t.Error("what is over takes room")
	}
}
