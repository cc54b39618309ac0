package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// hidden is the text that test guests have at textAt, as a secret of theirs, and its mark.
const (
	hidden     = "replacement"
	hiddenMark = "[secret of plugins.mod.config.token]"
)

func hides(values ...string) func(*Spec) {
	return func(s *Spec) {
		var all []chain.Handed
		for _, v := range values {
			all = append(all, chain.Handed{Key: "plugins.mod.config.token", Value: v})
		}
		s.Hide = chain.NewHider(all)
	}
}

// tester is a module in either sandbox.
type tester interface {
	ScanWindow(context.Context, Window) (Result, error)
	Check(context.Context, *chain.Call) (sdk.Verdict, error)
}

// heardLog collects what a host logs.
type heardLog struct {
	mu   sync.Mutex
	text string
}

func (l *heardLog) add(_ string, _ int, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += line + "\n"
}

// inBoth runs a test on a guest in this process and in a worker.
func inBoth(t *testing.T, g guest, change func(*Spec), f func(t *testing.T, m tester)) *heardLog {
	log := &heardLog{}
	h := newHost(t, Options{Log: log.add})
	t.Run("inproc", func(t *testing.T) { f(t, loadOn(t, h, g, change)) })
	t.Run("process", func(t *testing.T) { f(t, spawnOn(t, h, g, change, tuning(nil))) })
	return log
}

// TestModulesHideSecrets: what a module says back of its settings in a verdict, a finding, an error, an annotation or a
// line of the log.
func TestModulesHideSecrets(t *testing.T) {
	say := host("log", i32(2), i32(textAt), i32(len(hidden)))
	e := soundEmission
	e.action, e.repl, e.replLen = abi.ActionReplace, textAt, len(hidden)
	note := host("put", i32(abi.SlotAnnotations), i32(512), i32(len(hidden)+2))
	edit := func(m *mod) { m.datas = append(m.datas, data{512, `"` + hidden + `"`}) }
	log := inBoth(t, guest{scan: cat(say, e.code(), drop, note, drop, i32(0)),
		check: cat(decision(abi.EffectDeny, kindAt, kindLen, textAt, len(hidden), 0), drop, i32(0)), edit: edit},
		hides(hidden), func(t *testing.T, m tester) {
			v, err := m.Check(context.Background(), &chain.Call{AgentID: "a"})
			if err != nil || v.Effect != sdk.Deny || v.Reason != hiddenMark {
				t.Errorf("the verdict: %+v, %v", v, err)
			}
			r, err := m.ScanWindow(context.Background(), Window{Text: "x", Flags: abi.FlagFirst | abi.FlagFinal})
			if err != nil || len(r.Findings) != 1 || r.Findings[0].Replacement != hiddenMark ||
				string(r.Annotations) != `"`+hiddenMark+`"` {
				t.Errorf("the finding: %+v, %s, %v", r.Findings, r.Annotations, err)
			}
		})
	if strings.Contains(log.text, hidden) || strings.Count(log.text, hiddenMark) != 2 {
		t.Errorf("the log: %s", log.text)
	}
	fails := cat(host("put", i32(abi.SlotError), i32(textAt), i32(len(hidden))), drop, i32(64))
	inBoth(t, guest{scan: fails, check: fails}, hides(hidden), func(t *testing.T, m tester) {
		_, scanned := m.ScanWindow(context.Background(), Window{Text: "x", Flags: abi.FlagFirst | abi.FlagFinal})
		_, checked := m.Check(context.Background(), &chain.Call{AgentID: "a"})
		for _, err := range []error{scanned, checked} {
			if !errors.Is(err, ErrStatus) || strings.Contains(err.Error(), hidden) ||
				!strings.Contains(err.Error(), hiddenMark) {
				t.Errorf("%v", err)
			}
		}
	})
	code := guest{check: cat(decision(abi.EffectPermit, undeclaredAt, 10, 0, 0, 0), drop, i32(0))}
	inBoth(t, code, hides("NOT_A_KIND"), func(t *testing.T, m tester) {
		if v, err := m.Check(context.Background(), &chain.Call{AgentID: "a"}); !errors.Is(err, ErrDecision) ||
			strings.Contains(err.Error(), "NOT_A") || v.Effect != sdk.Abstain {
			t.Errorf("the code: %+v, %v", v, err)
		}
	})
}

// TestLoadsHideSecrets: a module that refuses its settings quotes them, and one may have them in its names.
func TestLoadsHideSecrets(t *testing.T) {
	token := `tok"` + "_0123456789"
	config, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	quotes := cat(host("put", i32(abi.SlotError), i32(bufferAt), get(0)), drop, i32(1))
	for name, c := range map[string]struct {
		g      guest
		secret string
		want   string
	}{
		"init quotes":  {guest{init: quotes, scan: i32(0)}, token, hiddenMark},
		"smoke quotes": {guest{scan: unreachableAfterLog(), edit: func(m *mod) { m.datas = append(m.datas, data{512, token}) }}, token, "unreachable"},
		"kind":         {guest{scan: i32(0)}, "TEST_KIND", "kinds: a name holds the secret of plugins.mod.config.token"},
		"version":      {guest{scan: i32(0), meta: strings.Replace(testMeta, "1.2.3", "1.0123456789", 1)}, "0123456789", "version holds the secret of"},
	} {
		t.Run(name, func(t *testing.T) {
			log, cache := &heardLog{}, t.TempDir()
			if err := os.Chmod(cache, 0o700); err != nil {
				t.Fatal(err)
			}
			h := newHost(t, Options{Log: log.add})
			spec := Spec{Name: "mod", Code: c.g.wasm(), Config: config}
			hides(c.secret)(&spec)
			_, loaded := h.Load(context.Background(), spec)
			if loaded == nil && name == "smoke quotes" {
				loaded = errors.New("unreachable")
			}
			tr := newTrial()
			tr.CacheDir = cache
			v, admitted := tr.admit(spec)
			if name == "kind" || name == "version" {
				admitted = loaded // its names are looked at where it runs
			}
			w, spawned := h.spawn(context.Background(), spec, tuning(nil))
			if spawned == nil {
				spawned = errors.Join(w.Close(context.Background()), errors.New("unreachable"))
			}
			kept := ""
			if err := filepath.WalkDir(cache, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					b, _ := os.ReadFile(path)
					kept += string(b)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{loaded, admitted, spawned} {
				if err == nil || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), strings.Trim(c.secret, `tok"`)) {
					t.Errorf("%v", err)
				}
			}
			if all := fmt.Sprint(kept, v.Reason, v.Notes, log.text, strings.Join(tr.lines, " ")); name != "kind" &&
				name != "version" && strings.Contains(all, "_0123") {
				t.Errorf("%s", all)
			}
		})
	}
}

// unreachableAfterLog is a scan that says the text at 512 and traps.
func unreachableAfterLog() []byte {
	return cat(host("log", i32(2), i32(512), i32(15)), unreachable)
}
