package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
)

// Whatever is wrong with a new configuration, the old one decides on, and everybody is told why. A good one takes over.
func TestReload(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	if got := w.ask("guest/x"); got != "DENY one" {
		t.Fatalf("the first configuration: %s", got)
	}
	w.write(w.guest("authorizer", "good:two"), guestStep, "")
	done, err := w.reload()
	if err != nil || done.Policy == done.Was || len(done.Changes) != 1 ||
		done.Changes[0].Key != "plugins.guest.env."+guestEnv {
		t.Fatalf("%+v %v", done, err)
	}
	_, digest := guestFile()
	two := w.guest("authorizer", "good:two")
	for name, c := range map[string]struct{ plugins, steps, more, why string }{
		"settings that are refused":  {w.guest("authorizer", "refuses"), guestStep, "", "do not please"},
		"another digest":             {strings.Replace(two, digest, "sha256:"+strings.Repeat("0", 64), 1), guestStep, "", "has digest sha256:"},
		"no file":                    {strings.Replace(two, "exec: \"", "exec: \"/no/such", 1), guestStep, "", "no such file"},
		"no YAML":                    {two, guestStep, "x: [", "yett.yaml"},
		"an unknown key":             {two, guestStep, "audits: {}\n", "did you mean"},
		"a key for a restart":        {two, guestStep, "limits: {depth: 9}\n", "limits.depth: takes effect after a restart only"},
		"a step without its plugin":  {"", guestStep, "", "guest"},
		"an unknown type of records": {w.guest("subscriber", "waits"), "", "audit: {subscribers: [{use: guest, types: [nope]}]}\n", "audit.subscribers[0].types"},
		"a bad condition":            {two, guestStep + ", {name: more, rules: [bad.yaml]}", "", "bad.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			w.put("bad.yaml", "rules:\n  - {id: bad, tools: [\"**\"], when: 'nope(', effect: deny}\n")
			before, refused := w.g.gen.Load(), w.refused()
			w.write(c.plugins, c.steps, c.more)
			_, err := w.reload()
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.CodeInvalidField || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %q", err, c.why)
			}
			if w.g.gen.Load() != before || w.ask("guest/x") != "DENY two" || w.ask("files/read") != "PERMIT " {
				t.Errorf("the old configuration is not in force: %s, %s", w.ask("guest/x"), w.ask("files/read"))
			}
			if part := w.part("config"); !strings.Contains(part, c.why) {
				t.Errorf("/readyz: %q", part)
			}
			if got := w.recorded("config_refused"); uint64(len(got)) != refused+1 || w.refused() != refused+1 ||
				!strings.Contains(got[refused], before.Policy) {
				t.Errorf("%d refusals are recorded: %v", len(got), got)
			}
			if n := w.g.pool.Held(); n != 2 {
				t.Errorf("%d plugins are loaded", n)
			}
		})
	}
	w.write(w.guest("authorizer", "good:three"), guestStep, "")
	w.reloads()
	if got, part := w.ask("guest/x"), w.part("config"); got != "DENY three" || part != "" {
		t.Errorf("%s; /readyz: %q", got, part)
	}
	if n := len(w.recorded("config_applied")); n != 2 {
		t.Errorf("%d configurations applied, want 2", n)
	}
}

// What was begun on the old generation ends on it, and its plugin lives until then.
func TestReloadLeavesCallsAlone(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	old := w.g.gen.Load().Plugins["guest"].Process
	said := make(chan string)
	go func() { said <- w.ask("guest/wait") }()
	w.until("the plugin is asked", func() bool { return w.left("asked") })
	w.write(w.guest("authorizer", "good:two"), guestStep, "")
	w.reloads()
	if got := w.ask("guest/x"); got != "DENY two" {
		t.Errorf("a new call: %s", got)
	}
	if s := old.Status().State; s != supervise.StateReady {
		t.Errorf("the old plugin is %s with a call in flight", s)
	}
	w.put("guest/go", "")
	if got := <-said; got != "DENY one" {
		t.Errorf("the call in flight: %s", got)
	}
	w.until("the old plugin ends", func() bool { return old.Status().State == supervise.StateStopped })
}

// A plugin that stays as it was goes on running, and is tried again if it had been given up.
func TestReloadKeepsPlugins(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	p := w.g.gen.Load().Plugins["guest"].Process
	w.put("rules.yaml", strings.Replace(worldRules, "all", "every", 1))
	w.reloads()
	if now := w.g.gen.Load().Plugins["guest"]; now.Process != p || p.Stats().Starts != 1 {
		t.Errorf("it was started anew: %+v", p.Stats())
	}
	if got := w.ask("guest/generation"); got != "DENY "+w.g.gen.Load().Policy {
		t.Errorf("it is asked for another generation: %s", got)
	}
	w.until("it is given up", func() bool {
		if got := w.ask("guest/die"); !strings.HasPrefix(got, "DENY ") {
			t.Errorf("a plugin that is down: %s", got)
		}
		return p.Status().State == supervise.StateQuarantined
	})
	starts := p.Stats().Starts
	w.reloads()
	w.until("it is tried again", func() bool { return w.ask("guest/x") == "DENY one" })
	if n := p.Stats().Starts; n != starts+1 {
		t.Errorf("%d starts, %d before", n, starts)
	}
}

// Reloads at once, with calls beside them: none fails, and what is left is what the last one wanted.
func TestReloadsAtOnce(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:0"), guestStep, "") })
	stop, wrong := make(chan struct{}), make(chan string, 4)
	var callers, reloaders sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := w.ask("guest/x"); !strings.HasPrefix(got, "DENY ") || len(got) != len("DENY 0") {
					wrong <- got
					return
				}
			}
		})
	}
	for n := range 3 {
		w.write(w.guest("authorizer", fmt.Sprint("good:", n)), guestStep, "")
		for range 2 {
			reloaders.Go(func() {
				if _, err := w.reload(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	reloaders.Wait()
	if got := w.ask("guest/x"); got != "DENY 2" {
		t.Errorf("the last one: %s", got)
	}
	close(stop)
	callers.Wait()
	select {
	case got := <-wrong:
		t.Errorf("a call meanwhile: %s", got)
	default:
	}
	w.until("what nobody uses is closed", func() bool { return w.g.pool.Held() == 2 })
}

// The end of the server does not wait for a plugin that takes its time to start, and what was begun is not put in
// force.
func TestReloadIsGivenUp(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	w.write(w.guest("authorizer", "hangs"), guestStep, "")
	ended := make(chan error)
	go func() {
		_, err := w.reload()
		ended <- err
	}()
	w.until("the plugin is being started", func() bool { return w.left("configured") })
	w.g.EndReloads()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the server is going down") {
		t.Errorf("%v", err)
	}
	if got := w.ask("guest/x"); got != "DENY one" {
		t.Errorf("the old one: %s", got)
	}
	var e *sdk.Error
	if _, err := w.reload(); !errors.As(err, &e) || e.Code != sdk.CodeDraining {
		t.Errorf("one that comes later: %v", err)
	}
}

// A reload whose files hang is given up too, and what they say later is not put in force.
func TestReloadOfFilesThatHang(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	hung, let := make(chan struct{}), make(chan struct{})
	defer close(let)
	w.loaded = func() { close(hung); <-let }
	ended := make(chan error, 1)
	go func() {
		_, err := w.reload()
		ended <- err
	}()
	<-hung
	given := make(chan struct{})
	go func() { w.g.EndReloads(); close(given) }()
	select {
	case <-given:
	case <-time.After(time.Minute):
		t.Fatal("the end of the server waits for it")
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "reading it: the server is going down") {
		t.Errorf("%v", err)
	}
}

// A change is tried once, whoever asks for it, and none is lost: not one during a reload, nor of what a refused one was
// read from.
func TestWatch(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write("", "", "") })
	good := func(n string) { w.write("", "", "# "+n+"\n") }
	bad := func() { w.write("", ", {name: more, rules: [bad.yaml]}", "") }
	w.put("bad.yaml", "rules:\n  - {id: bad, tools: [\"**\"], when: 'nope(', effect: deny}\n")
	meanwhile := func(change func()) { w.loaded = func() { w.loaded = nil; change() } }
	for _, step := range []struct {
		name    string
		change  func()
		asked   bool // somebody reloads
		changed bool
	}{
		{"nothing", func() {}, false, false},
		{"a change", func() { good("two") }, false, true},
		{"it is reloaded", func() {}, true, false},
		{"a bad one", bad, false, true},
		{"it was refused", func() {}, true, false},
		{"a change during a reload", func() { good("three"); meanwhile(func() { good("four") }) }, true, true},
		{"which is reloaded", func() {}, true, false},
		{"a change during a refusal", func() { bad(); meanwhile(func() { good("five") }) }, true, true},
		{"which is reloaded, too", func() {}, true, false},
		{"rules that change during a reload", func() { meanwhile(func() { w.put("rules.yaml", worldRules+" ") }) }, true, true},
		{"which are reloaded", func() {}, true, false},
		{"a file of conf.d", func() { w.put("conf.d/a.yaml", "audit: {args: full}\n") }, false, true},
		{"which is reloaded as well", func() {}, true, false},
		{"a file of conf.d that comes during a reload", func() { meanwhile(func() { w.put("conf.d/b.yaml", "trust: {require_signature: false}\n") }) }, true, true},
		{"which is reloaded in its turn", func() {}, true, false},
		{"one that is no setting", func() { w.put("conf.d/b.yaml.bak", "x") }, false, false},
		{"a setting's file that is not there", func() {
			w.write("  more: {kind: scanner, builtin: secrets, config: {a: \"${file:setting}\"}}\n", "", "")
		}, true, false},
		{"and then is", func() { w.put("setting", "a") }, false, true},
		{"which is refused: the module takes none", func() {}, true, false},
		{"a broken one", func() { w.put("yett.yaml", "version: 1\nplugins: [") }, true, false},
		{"a lock beside a broken one", func() { w.put("plugins.lock", "version: 1\n") }, false, true},
		{"with which it is still broken", func() {}, true, false},
		{"one that is gone", func() { w.remove("yett.yaml") }, false, true},
		{"which is refused", func() {}, true, false},
		{"one that is back", func() { good("six") }, false, true},
		{"and is reloaded", func() {}, true, false},
	} {
		step.change()
		if step.asked {
			_, _ = w.reload()
		}
		if got := w.g.reloads.Changed(); got != step.changed {
			t.Fatalf("%s: changed is %v; %v", step.name, got, w.part("config"))
		}
	}
	if part := w.part("config"); part != "" {
		t.Errorf("at last: %s", part)
	}
}

// refused is how many reloads were refused.
func (w *world) refused() uint64 {
	_, refused := w.g.reloads.Counts()
	return refused
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

const everything = "audit: {subscribers: [{use: guest, payload: %s}]}\n"

// A subscriber that is replaced may take its time to end: whoever looks at the gateway meanwhile does not wait for it.
func TestReloadOfASubscriber(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("subscriber", "waits"), "", fmt.Sprintf(everything, "full")) })
	w.until("it is asked", func() bool { return w.left("asked") })
	before, old := w.g.feeds.Find("guest"), w.g.gen.Load()
	process := old.Plugins["guest"].Process
	w.write(w.guest("subscriber", "waits"), "", fmt.Sprintf(everything, "digest"))
	ended := make(chan error)
	go func() {
		_, err := w.reload()
		ended <- err
	}()
	w.until("the other configuration is in force", func() bool { return w.g.gen.Load() != old })
	if w.g.feeds.Find("guest") != before {
		t.Error("it is not shown while it ends")
	}
	if part := w.part("subscriber guest"); part == "" {
		t.Error("/readyz says nothing of it")
	}
	w.put("guest/go", "")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if now := w.g.feeds.Find("guest"); now == nil || now == before ||
		w.g.gen.Load().Plugins["guest"].Process != process {
		t.Errorf("%+v", now)
	}
	w.write("", "", "")
	w.reloads()
	if w.g.feeds.Find("guest") != nil || w.part("subscriber guest") != "" {
		t.Error("it is still there")
	}
	if _, ok := w.g.store.Cursor("guest"); !ok {
		t.Error("its place in the log is forgotten")
	}
}

// A subscriber that ends because of a record is helped past it.
func TestSkipOfARecordThatKills(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("subscriber", "dies"), "", fmt.Sprintf(everything, "full")) })
	ctx := context.Background()
	stuck := func() uint64 { return w.row("guest").Subscriber.StuckAt }
	w.until("it ends at the record", func() bool { return stuck() == 2 })
	w.until("it is helped past it", func() bool {
		err := w.g.ResumePlugin(ctx, operator, "guest", true)
		if err != nil && stuck() != 0 {
			t.Error(err)
		}
		return err == nil
	})
	w.until("it goes on", func() bool { return w.row("guest").Subscriber.Cursor > 2 && w.row("guest").State == "ready" })
	if got := w.recorded("subscriber_dead_letter"); len(got) != 1 || !strings.Contains(got[0], `"first_seq":2`) ||
		!strings.Contains(got[0], `"principal_id":"admin:0"`) {
		t.Errorf("%v", got)
	}
	for want, err := range map[string]error{
		"is stuck at no record":    w.g.ResumePlugin(ctx, operator, "guest", true),
		"is a module":              w.g.ResumePlugin(ctx, operator, "secrets", false),
		`no plugin "nobody"`:       w.g.ResumePlugin(ctx, operator, "nobody", false),
		`no subscriber "nobody"`:   w.g.ReplayPlugin(ctx, operator, "nobody", 1),
		"100000 was not delivered": w.g.ReplayPlugin(ctx, operator, "guest", 100000),
	} {
		var e *sdk.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func (w *world) row(name string) status.Plugin {
	for _, r := range w.g.Plugins() {
		if r.Name == name {
			return r
		}
	}
	w.t.Fatalf("no plugin %s", name)
	return status.Plugin{}
}
