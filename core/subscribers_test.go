package core

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
)

// A pump goes on over a reload. What it remembers of masked texts must not: the scanners may be others by then.
func TestPumpsLearnOfAReload(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write("", "", "") })
	set := w.g.feeds.settings(config.Subscriber{Use: "siem"}, nil)
	before := set.Policy()
	w.put("rules.yaml", strings.Replace(worldRules, "all", "every", 1))
	w.reloads()
	if now := set.Policy(); now == before || now != w.g.gen.Load().Policy {
		t.Errorf("the policy was %s and is %s, in force is %s", before, now, w.g.gen.Load().Policy)
	}
}
