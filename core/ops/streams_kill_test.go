package ops

import (
	"context"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/store"
)

// A kill of a session or a tool comes to everybody whom it may concern. Who answers for some agents learns what is
// stopped, and neither whom the kill names nor why, when and by whom: that is other people's.
func TestKillsNameWhomTheKeyMaySee(t *testing.T) {
	r := newStreamRig(t, 9)
	agent, limited := r.key("agent", []string{"authorize"}, "ours/*"), r.key("limited", []string{"audit"}, "ours/*")
	everybodys, auditor := r.key("everybodys", []string{"authorize"}), r.key("auditor", []string{"audit"})
	streams := map[string]Stream{}
	for _, k := range []*store.Key{agent, everybodys} {
		streams["callback "+k.ID] = r.open("callback_subscribe", k, `{}`)
	}
	for _, k := range []*store.Key{limited, auditor} {
		streams["audit "+k.ID] = r.open("audit_subscribe", k, `{}`)
	}
	for _, undo := range []bool{false, true} {
		r.commit(&store.KillSwitch{Kill: store.Kill{Scope: "session", Target: "their-session", Reason: "their-reason"},
			Undo: undo, By: store.Who{Principal: "their-operator", Method: "console", Surface: "console", Peer: "192.0.2.7"}})
	}
	for name, st := range streams {
		got, _ := r.lines(st, 2)
		st.Close()
		for i, line := range got {
			typ := []string{"kill", "unkill"}[i]
			if !strings.Contains(line, `type":"`+typ+`"`) || !strings.Contains(line, `"scope":"session"`) ||
				number(line, "seq") == 0 {
				t.Errorf("%s: %s", name, line)
			}
			whole := strings.HasSuffix(name, "everybodys") || strings.HasSuffix(name, "auditor")
			for _, text := range []string{"their-session", "their-reason", "their-operator", "192.0.2.7"} {
				if strings.Contains(line, text) != whole {
					t.Errorf("%s: %q in %s: want %v", name, text, line, whole)
				}
			}
		}
	}
}

// A kill that names a key which was rolled stops its whole line, and ends the streams of all of it.
func TestKillOfARolledKeyEndsItsStreams(t *testing.T) {
	r := newStreamRig(t, 9)
	r.key("first", []string{"authorize"}, "ours/*")
	r.commit(&store.RollKey{ID: "first", New: &store.Key{ID: "second", MAC: []byte("2")}, By: someone})
	st := r.open("callback_subscribe", r.store.Key("second"), `{}`)
	defer st.Close()
	r.kill("key", "second")
	r.note("decision", "agent_id", "ours/a")
	got, _ := r.lines(st, 2)
	if len(got) != 2 || !strings.Contains(got[0], `"target":"second"`) || !strings.Contains(got[1], `"reason":"killed"`) {
		t.Errorf("%q", got)
	}
	if s := r.store.Killed(r.store.Key("second"), "ours/a", "", "tool"); s == nil {
		t.Error("the key is not killed")
	}
	if err := r.store.Commit(context.Background(),
		&store.KillSwitch{Kill: store.Kill{Scope: "key", Target: "first"}, Undo: true, By: someone}); err != nil {
		t.Error(err)
	}
}
