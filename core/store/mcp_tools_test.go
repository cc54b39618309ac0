package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/yett-dev/yett/sdk"
)

// digest is that of definition n.
func digest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

// sawTool is definition n of a tool.
func sawTool(tool string, n int) *SeeTool {
	return &SeeTool{Server: "up", Tool: tool, Digest: digest(n), Text: fmt.Sprintf(`{"n":%d}`, n),
		By: Who{Principal: "key_1", Method: "api_key", Surface: "mcp"}}
}

var ada = Who{Principal: "admin:7", Method: "peer_uid", Surface: "admin"}

func accepted(tool string, n int) *AcceptTool {
	return &AcceptTool{Server: "up", Tool: tool, Digest: digest(n), By: ada}
}

// toolRecords are those of tools, shortened.
func (r *rig) toolRecords() (out []string) {
	r.t.Helper()
	err := r.s.Records(1, func(_ uint64, rec []byte) error {
		var x struct {
			Type, State, Digest string
			Tool                string `json:"tool_id"`
			Server              string `json:"mcp_server"`
			By                  string `json:"principal_id"`
			Accepted            string `json:"accepted_digest"`
			Before              string `json:"before_digest"`
		}
		if err := json.Unmarshal(rec, &x); err != nil || x.Type != TypeTool {
			return err
		}
		if strings.Contains(string(rec), `{\"n\"`) {
			r.t.Errorf("a text is in the log: %s", rec)
		}
		last := func(d string) string { return strings.TrimLeft(strings.TrimPrefix(d, "sha256:"), "0") }
		out = append(out, strings.Join([]string{x.Server, x.Tool, x.State, last(x.Digest), last(x.Accepted), last(x.Before),
			x.By}, " "))
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// tool describes what is kept of a tool, with its texts.
func (r *rig) tool(name string) string {
	r.t.Helper()
	t := r.s.Tool("up", name)
	if t == nil {
		return "none"
	}
	var out []string
	for _, d := range []Definition{t.Accepted, t.Pending} {
		text, err := r.s.ToolText(t, d)
		if err != nil {
			r.t.Fatal(err)
		}
		if d.Digest != "" {
			text = d.Digest[len(d.Digest)-1:] + "=" + text + " by " + d.By
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestTools(t *testing.T) {
	type step struct {
		cmd    Command
		code   sdk.Code
		counts bool
		want   string
	}
	first, second, third := `1={"n":1} by key_1`, `2={"n":2} by key_1`, `3={"n":3} by key_1`
	asks := func(n int) *SeeTool { c := sawTool("a", n); c.Ask = true; return c }
	for name, c := range map[string]struct {
		steps   []step
		records []string
	}{
		"seen, changed, accepted, changed again": {[]step{
			{sawTool("a", 1), "", true, first + "; "},
			{sawTool("a", 1), "", true, first + "; "},
			{accepted("a", 1), "", false, first + "; "}, // it counts already
			{accepted("a", 2), sdk.CodeConflict, false, first + "; "},
			{sawTool("a", 2), "", false, first + "; " + second},
			{sawTool("a", 2), "", false, first + "; " + second},
			{accepted("a", 1), sdk.CodeConflict, false, first + "; " + second},
			{sawTool("a", 3), "", false, first + "; " + third},
			{accepted("a", 2), sdk.CodeConflict, false, first + "; " + third}, // what was shown is not what waits
			{accepted("a", 3), "", false, `3={"n":3} by admin:7; `},
			{accepted("a", 3), "", false, `3={"n":3} by admin:7; `},
			{sawTool("a", 3), "", true, `3={"n":3} by admin:7; `},
			{sawTool("a", 1), "", false, `3={"n":3} by admin:7; ` + first},
			{accepted("b", 1), sdk.CodeNotFound, false, `3={"n":3} by admin:7; ` + first},
		}, []string{"up mcp.up/a pinned 1 1  key_1", "up mcp.up/a changed 2 1  key_1", "up mcp.up/a changed 3 1  key_1",
			"up mcp.up/a accepted 3 3 1 admin:7", "up mcp.up/a changed 1 3  key_1"}},
		"restored": {[]step{
			{sawTool("a", 1), "", true, first + "; "},
			{sawTool("a", 2), "", false, first + "; " + second},
			{sawTool("a", 1), "", true, first + "; "},
			{accepted("a", 2), sdk.CodeConflict, false, first + "; "},
		}, []string{"up mcp.up/a pinned 1 1  key_1", "up mcp.up/a changed 2 1  key_1", "up mcp.up/a restored 1 1  key_1"}},
		"the first one is asked about": {[]step{
			{asks(1), "", false, "; " + first},
			{sawTool("a", 1), "", false, "; " + first}, // that is so although nobody asks any more
			{asks(2), "", false, "; " + second},
			{accepted("a", 2), "", false, `2={"n":2} by admin:7; `},
			{asks(2), "", true, `2={"n":2} by admin:7; `},
		}, []string{"up mcp.up/a new 1   key_1", "up mcp.up/a changed 2   key_1", "up mcp.up/a accepted 2 2  admin:7"}},
		"refused": {[]step{
			{&SeeTool{Server: "up", Tool: "a", Digest: digest(1)}, sdk.CodeInvalidField, false, "none"},
			{&SeeTool{Server: "up", Tool: "a", Digest: digest(1), Text: strings.Repeat("x", MaxToolText+1)},
				sdk.CodeInvalidField, false, "none"},
			{&SeeTool{Server: "up", Tool: "a", Digest: "sha256:1", Text: "x"}, sdk.CodeInvalidField, false, "none"},
			{&SeeTool{Server: "up", Tool: "a\x00b", Digest: digest(1), Text: "x"}, sdk.CodeInvalidField, false, "none"},
			{&SeeTool{Server: "u\x00p", Tool: "a", Digest: digest(1), Text: "x"}, sdk.CodeInvalidField, false, "none"},
			{&SeeTool{Server: "up", Digest: digest(1), Text: "x"}, sdk.CodeInvalidField, false, "none"},
			{&SeeTool{Server: "up", Tool: strings.Repeat("a", 4097), Digest: digest(1), Text: "x"}, sdk.CodeInvalidField, false,
				"none"},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for i, s := range c.steps {
				r.refused(s.cmd, s.code)
				if see, ok := s.cmd.(*SeeTool); ok && see.Counts != s.counts {
					t.Errorf("step %d: counts is %v", i, see.Counts)
				}
				if got := r.tool("a"); got != s.want {
					t.Errorf("step %d: got %s, want %s", i, got, s.want)
				}
				r.reopen()
				if got := r.tool("a"); got != s.want {
					t.Errorf("step %d, opened again: got %s, want %s", i, got, s.want)
				}
			}
			if got := r.toolRecords(); !slices.Equal(got, c.records) {
				t.Errorf("records:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.records, "\n"))
			}
		})
	}
}

// The texts that a tool's row names are kept, and no others.
func TestToolTextsGo(t *testing.T) {
	r := newRig(t)
	for n := 1; n <= 9; n++ {
		r.must(sawTool("a", n))
		if n%3 == 0 {
			r.must(accepted("a", n))
		}
	}
	var left []string
	err := r.s.scan(prefixToolText, func(_, text []byte) error {
		left = append(left, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(left) != `[{"n":6} {"n":9}]` {
		t.Errorf("%v", left)
	}
	again := sawTool("a", 6) // as it was before, and less of it may be kept
	again.Text = `{"n":"[hidden]"}`
	r.must(again)
	one := r.s.Tool("up", "a")
	for _, d := range one.definitions() {
		if _, err := r.s.ToolText(one, d); err != nil {
			t.Error(err)
		}
	}
	if err := r.s.db.Set(toolName{"up", "a"}.row(prefixToolText, digest(9)), []byte("{}"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if text, err := r.s.ToolText(one, one.Accepted); err == nil {
		t.Errorf("a text that was changed is shown: %s", text)
	}
}

// A server that gives another definition each time does not fill the disk, and what it gives is not let through.
func TestToolsThatTurn(t *testing.T) {
	r := newRig(t)
	r.must(sawTool("a", 1))
	refused := 0
	for n := range 5 * maxToolTurns {
		if r.commit(sawTool("a", 2+n%2)) != nil || r.commit(sawTool("a", 1)) != nil {
			refused++
		}
	}
	if got := len(r.toolRecords()); refused == 0 || got > 3*maxToolTurns {
		t.Errorf("%d records, %d refused", got, refused)
	}
	if r.s.Tool("up", "a").Pending.Digest == "" {
		t.Error("the tool may be called as it was left")
	}
	r.must(accepted("a", int(r.s.Tool("up", "a").Pending.Digest[70]-'0'))) // an operator may all the same
	r.clock.advance(toolTurnTime)
	r.must(sawTool("a", 1))
	r.must(sawTool("a", 5))
}

// Commands of one batch see each other.
func TestToolsInOneBatch(t *testing.T) {
	s, g := openGated(t)
	newKey(t, s, "k", "authorize")
	errs := g.together(t, s, sawTool("a", 1), sawTool("a", 2), accepted("a", 1), accepted("a", 2),
		sawTool("a", 2), sawTool("a", 3))
	if fmt.Sprint(errs[0], errs[1], codeOf(errs[2]), errs[3], errs[4], errs[5]) !=
		fmt.Sprint(nil, nil, sdk.CodeConflict, nil, nil, nil) {
		t.Errorf("%v", errs)
	}
	one := s.Tool("up", "a")
	if one.Accepted.Digest != digest(2) || one.Pending.Digest != digest(3) {
		t.Errorf("%+v", one)
	}
	for _, d := range one.definitions() {
		if text, err := s.ToolText(one, d); err != nil || text == "" {
			t.Errorf("%q %v", text, err)
		}
	}
}

// What came behind an acceptance that is taken back stands.
func TestToolsOfALateBatch(t *testing.T) {
	for name, c := range map[string]struct {
		behind            []Command
		accepted, pending string
	}{
		"nothing":          {nil, digest(1), digest(2)},
		"a newer one":      {[]Command{sawTool("a", 3)}, digest(1), digest(3)},
		"the one before":   {[]Command{sawTool("a", 1)}, digest(1), ""},
		"both":             {[]Command{sawTool("a", 1), sawTool("a", 2)}, digest(1), digest(2)},
		"another operator": {[]Command{sawTool("a", 3), accepted("a", 3)}, digest(1), digest(3)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			l.must(sawTool("a", 1))
			l.must(sawTool("a", 2))
			l.lateTogether(append([]Command{accepted("a", 2)}, c.behind...)...)
			l.must(&Note{Type: "tick", By: system})
			for range 2 {
				if one := l.s.Tool("up", "a"); one.Accepted.Digest != c.accepted || one.Pending.Digest != c.pending {
					t.Errorf("%+v", one)
				}
				l.restart()
			}
		})
	}
}

// Nobody sees an acceptance whose operator was refused, not even before it is taken back.
func TestLateAcceptanceIsNotSeen(t *testing.T) {
	l := newLaterRig(t)
	l.must(sawTool("a", 1))
	l.must(sawTool("a", 2))
	l.disk.stop()
	done := make(chan error)
	go func() { done <- l.s.Commit(context.Background(), accepted("a", 2)) }()
	<-l.disk.begun
	l.s.seq.look(l.clock.advance(time.Hour))
	if got := codeOf(<-done); got != sdk.CodeAuditUnavailable {
		t.Errorf("got %v", got)
	}
	l.disk.oneMore()
	<-l.disk.begun // it is on disk, and what takes it back is not
	if one := l.s.Tool("up", "a"); one.Pending.Digest != digest(2) || one.Accepted.Digest != digest(1) {
		t.Errorf("%+v", one)
	}
	l.disk.goOn()
	healthyAgain(t, l.s)
}

// The bounds hold, and what is there can still change.
func TestToolLimits(t *testing.T) {
	r := newRig(t)
	r.must(sawTool("a", 1))
	r.s.tools.of["up"] = maxToolsOfServer
	r.refused(sawTool("b", 1), sdk.CodeTooManyRequests)
	r.must(sawTool("a", 2))
	r.s.tools.of["up"] = 1
	for n := range maxTools {
		r.s.tools.next[toolName{"other", fmt.Sprint(n)}] = &Tool{}
	}
	r.refused(sawTool("b", 1), sdk.CodeTooManyRequests)
	r.must(accepted("a", 2))
}

// The power goes at any moment: an answer that was given is there, and the store starts.
func TestToolsOutliveAPowerCut(t *testing.T) {
	disk := newCuttable()
	r := &rig{t: t, fs: disk, clock: newClock()}
	r.open()
	var cuts []*vfs.MemFS
	var want []string
	for n := 1; n <= 6; n++ {
		r.must(sawTool("a", n))
		if n%2 == 0 {
			r.must(accepted("a", n))
		}
		cuts, want = append(cuts, disk.CrashClone(vfs.CrashCloneCfg{})), append(want, r.tool("a"))
	}
	r.close()
	for i, fs := range cuts {
		after := &rig{t: t, fs: fs, clock: newClock()}
		set := settings(fs, after.clock, nil)
		set.Boot = anotherBoot
		s, err := Open(set)
		if err != nil {
			t.Fatal(err)
		}
		if after.s = s; after.tool("a") != want[i] {
			t.Errorf("after cut %d: %s, want %s", i, after.tool("a"), want[i])
		}
		after.close()
	}
}

// modelTool is a tool as the model has it: numbers of definitions.
type modelTool struct{ accepted, pending int }

func TestModelOfTools(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &rig{t: rt, fs: vfs.NewMem(), clock: newClock()}
		r.open()
		defer r.close()
		model := map[string]modelTool{}
		pick := func(t *rapid.T) (string, int) {
			return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tool"), rapid.IntRange(1, 3).Draw(t, "definition")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"see": func(t *rapid.T) {
				tool, n := pick(t)
				r.clock.advance(3 * time.Minute)
				c := sawTool(tool, n)
				c.Ask = rapid.Bool().Draw(t, "ask")
				m, known := model[tool]
				before := r.s.Seq()
				was := m
				switch {
				case !known && !c.Ask:
					m.accepted = n
				case m.accepted == n:
					m.pending = 0
				default:
					m.pending = n
				}
				r.must(c)
				if c.Counts != (m.accepted == n) || (r.s.Seq() != before) != (m != was) {
					t.Fatalf("%s %d: counts %v, %d records, %+v then %+v", tool, n, c.Counts, r.s.Seq()-before, was, m)
				}
				model[tool] = m
			},
			"accept": func(t *rapid.T) {
				tool, n := pick(t)
				m, known := model[tool]
				want := sdk.Code("")
				switch {
				case !known:
					want = sdk.CodeNotFound
				case m.pending == n:
					model[tool] = modelTool{accepted: n}
				case m.pending != 0 || m.accepted != n:
					want = sdk.CodeConflict
				}
				r.refused(accepted(tool, n), want)
			},
			"restart": func(*rapid.T) { r.reopen() },
			"": func(t *rapid.T) {
				got := map[string]modelTool{}
				number := func(d Definition) int {
					if d.Digest == "" {
						return 0
					}
					return int(d.Digest[len(d.Digest)-1] - '0')
				}
				for _, one := range r.s.Tools() {
					got[one.Name] = modelTool{number(one.Accepted), number(one.Pending)}
					for _, d := range []Definition{one.Accepted, one.Pending} {
						if text, err := r.s.ToolText(one, d); err != nil || (text == "") != (d.Digest == "") {
							t.Fatalf("%s: %q, %v", one.Name, text, err)
						}
					}
				}
				if !maps.Equal(got, model) {
					t.Fatalf("tools %v, the model has %v", got, model)
				}
			},
		})
	})
}
