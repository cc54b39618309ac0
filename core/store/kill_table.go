package store

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/yett-dev/yett/sdk"
)

type killName struct{ scope, target string }

// killSet is every kill in effect. It never changes: a new one takes its place.
type killSet struct {
	all      map[killName]*Kill
	agents   []*Kill // that are patterns
	tools    []*Kill
	sessions []*Kill
	tooled   bool // some kill is of a tool that is no pattern
}

// killTable is what is in effect: kills that a command has put there, and kills that are held while their command is on
// its way to the disk. The two are kept apart, so that neither can take the other along when it goes. Readers load the
// set of both without a lock; mu orders those who change them.
type killTable struct {
	now  atomic.Pointer[killSet]
	mu   sync.Mutex
	kept map[killName]*Kill
	held map[*Kill]bool

	landed atomic.Uint64 // the number of the newest one that readers see
	past   atomic.Pointer[pastKills]
}

func isPattern(s string) bool { return strings.Contains(s, "*") }

func (t *killTable) change(fn func(t *killTable)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept, t.held = map[killName]*Kill{}, map[*Kill]bool{}
	}
	fn(t)
	set := &killSet{all: maps.Clone(t.kept)}
	for k := range t.held {
		if name := (killName{k.Scope, k.Target}); set.all[name] == nil {
			set.all[name] = k
		}
	}
	if len(set.all) == 0 {
		t.now.Store(nil)
		return
	}
	landed := t.landed.Load()
	for _, k := range set.all {
		if k.number == 0 {
			landed++
			k.number = landed
		}
		set.sort(k)
	}
	t.now.Store(set)
	t.landed.Store(landed) // not before: who has read this number has seen the kill, too
}

// committed is the kill of that name that a command has put in effect, or nil, and all of them; coming says that
// another of that name is held.
func (t *killTable) committed(name killName) (is *Kill, all map[killName]*Kill, coming bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.held {
		coming = coming || name == killName{k.Scope, k.Target}
	}
	return t.kept[name], maps.Clone(t.kept), coming
}

// sort puts a kill on the list that it is looked up in.
func (set *killSet) sort(k *Kill) {
	switch {
	case k.Scope == KillAgent && isPattern(k.Target):
		set.agents = append(set.agents, k)
	case k.Scope == KillSession && isPattern(k.Target):
		set.sessions = append(set.sessions, k)
	case k.Scope == KillTool && isPattern(k.Target):
		set.tools = append(set.tools, k)
	case k.Scope == KillTool:
		set.tooled = true
	}
}

// covering is a kill that covers such a call, or nil.
func (set *killSet) covering(root, agent, session, tool string) *Kill {
	if set == nil {
		return nil
	}
	for _, name := range [...]killName{{KillGlobal, ""}, {KillKey, root}, {KillAgent, agent}, {KillSession, session},
		{KillTool, tool}} {
		if k := set.all[name]; k != nil && (name.target != "" || name.scope == KillGlobal) {
			return k
		}
	}
	if set.tooled { // a kill of a tool is one of all that is below it: "stripe" covers "stripe/refund"
		for i := range len(tool) {
			if k := set.all[killName{KillTool, tool[:i]}]; tool[i] == '/' && i > 0 && k != nil {
				return k
			}
		}
	}
	for _, k := range set.agents {
		if sdk.MatchAgent([]string{k.Target}, agent) {
			return k
		}
	}
	for _, k := range set.sessions {
		if session != "" && sdk.MatchAgent([]string{k.Target}, session) {
			return k
		}
	}
	for _, k := range set.tools {
		if sdk.CoversTool(k.Target, tool) {
			return k
		}
	}
	return nil
}
