package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

const (
	hostileTimeout = 300 * time.Millisecond // of a call that must fail
	hostileSlack   = 10 * time.Second       // what a busy machine may add; how late it really is, benchmarks say
	patientTimeout = 20 * time.Second       // of a call that must be right
)

var marks = regexp.MustCompile(`!+`)

// sanitized is the right answer of every module of the table.
func sanitized(text string) string { return marks.ReplaceAllString(text, "[TEST_KIND]") }

// texts differ in length and in where the marks are.
var texts = []string{
	"a first text! with marks !! in it, and at its end!",
	"nothing to be found in this text at all",
	"!marked at the start; and this one is longer than all the others, so that it would overwrite them. ! é! ü",
	"short text, 16 b",
}

// scanned sends one text through a tool.
func (s *server) scanned(tool, text string) (answer, time.Duration, error) {
	start := time.Now()
	a, err := s.send("POST", "/v1/scan_output", s.Keys.Agent, textOf(tool, text))
	if err == nil {
		err = a.wellFormed()
	}
	return a, time.Since(start), err
}

func textOf(tool, output string) string {
	return text(map[string]any{"agent_id": "a", "tool_id": tool, "output": output})
}

// receipt is the outcome of one scanner in an answer, and its error.
func (a answer) receipt(scanner string) (outcome, fault string) {
	receipts, _ := a.json["scanned_by"].([]any)
	for _, r := range receipts {
		if m, ok := r.(map[string]any); ok && m["scanner"] == scanner {
			outcome, _ = m["outcome"].(string)
			fault, _ = m["error"].(string)
		}
	}
	return outcome, fault
}

// right checks an answer of a module that means no harm, or fails at it.
func (s *server) right(tool, text string) error {
	a, _, err := s.scanned(tool, text)
	if err != nil {
		return err
	}
	want, outcome := sanitized(text), "PASS"
	if want != text {
		outcome = "REDACTED"
	}
	if state, fault := a.receipt(tool); a.status != 200 || a.str("outcome") != outcome ||
		a.str("sanitized_output") != want || state != "ok" {
		return fmt.Errorf("%q: status %d, want %s %q: receipt %q %q: %.500s", text, a.status, outcome, want, state, fault,
			a.body)
	}
	return nil
}

// denied checks the answer to a text that a module does not get through with, and that it came in time.
func (s *server) denied(tool, text string) error {
	a, took, err := s.scanned(tool, text)
	if err != nil {
		return err
	}
	state, fault := a.receipt(tool)
	_, released := a.json["sanitized_output"]
	if a.status != 200 || a.str("outcome") != "DENIED" || a.str("reason_code") != "SCAN_UNAVAILABLE" || released ||
		state != "error" && state != "timeout" || fault == "" {
		return fmt.Errorf("%q: status %d, want DENIED with an error in the receipt: %q %q: %.500s", text, a.status, state,
			fault, a.body)
	}
	if took > hostileTimeout+hostileSlack {
		return fmt.Errorf("%q: answered after %v", text, took)
	}
	return nil
}

// neighbour checks a call that only the built-in secrets looks at.
func (s *server) neighbour(i int) error {
	token := "gh" + "p_" + "x7Kq2LmN9pRsT4vWyZ1aBcD3eFgH5jJk8uQo"
	a, took, err := s.scanned("neighbour", fmt.Sprintf("call %d: token=%s", i, token))
	if err != nil {
		return err
	}
	state, _ := a.receipt("secrets")
	if out := a.str("sanitized_output"); a.status != 200 || a.str("outcome") != "REDACTED" || state != "ok" ||
		strings.Contains(out, token) ||
		!strings.HasPrefix(out, fmt.Sprintf("call %d: ", i)) {
		return fmt.Errorf("a neighbour's answer: %d %.500s", a.status, a.body)
	}
	if took > hostileSlack {
		return fmt.Errorf("a neighbour waited %v", took)
	}
	return nil
}

// neighbours calls without a pause until the test is over, and counts.
func (s *server) neighbours(t *testing.T) (stop func() int) {
	over, done := make(chan struct{}), make(chan int)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				done <- i
				return
			default:
			}
			if err := s.neighbour(i); err != nil {
				t.Error(err)
			}
		}
	}()
	return func() int {
		close(over)
		return <-done
	}
}

// resident is the memory of the server's process, bytes; 0 where the system does not tell.
func (s *server) resident() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]), 10, 64)
	return kib << 10
}

// memoryBack waits until the server holds no more than limit.
func (s *server) memoryBack(t *testing.T, limit int64) {
	t.Helper()
	end, tick := time.NewTimer(5*time.Second), time.NewTicker(50*time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for now := s.resident(); now > limit; now = s.resident() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Errorf("%d MiB resident, %d seconds after the last call: at most %d", now>>20, 5, limit>>20)
			return
		}
	}
}

// running chooses the modules of the table that a gateway takes into service. Those that may be refused are asked about
// first.
func running(t *testing.T) (out []wasmgen.Hostile) {
	for i, h := range hostileModules() {
		if !testkit.Every(i, 10) {
			continue
		}
		switch h.Want {
		case wasmgen.Fails, wasmgen.Answers:
			out = append(out, h)
		case wasmgen.Bounded:
			e := runBinary(t, "config", "check", alone(t, offered{name: "m-" + h.Name, code: h.Module}))
			judged(t, e)
			t.Logf("%s: exit %d after %v with %d MiB: %.200s", h.Name, e.code, e.took, e.memory>>20, e.stderr)
			if e.code == 0 {
				out = append(out, h)
			}
		}
	}
	return out
}

// offers are modules of the table as plugins.
func offers(modules []wasmgen.Hostile, change func(*offered)) (out []offered) {
	for _, h := range modules {
		o := offered{name: "m-" + h.Name, code: h.Module, timeout: patientTimeout}
		if h.Want == wasmgen.Fails {
			o.timeout = hostileTimeout
		}
		if change != nil {
			change(&o)
		}
		out = append(out, o)
	}
	return out
}

// TestHostileModulesAtRunTime calls every module that is taken into service, all of them in one gateway that also
// serves neighbours: each fails or is right as the table says, in time, the neighbours are right all along, and at the
// end the gateway is there and has its memory back.
func TestHostileModulesAtRunTime(t *testing.T) {
	modules := running(t)
	s := startDev(t, nil, "--config", offering(t, offers(modules, nil)...))
	before := s.resident()
	stop := s.neighbours(t)
	for _, h := range modules {
		t.Run(h.Name, func(t *testing.T) { s.suffer(t, h) })
	}
	n := stop()
	s.memoryBack(t, before+256<<20)
	if err := s.neighbour(n); err != nil {
		t.Errorf("after all: %v", err)
	}
	t.Logf("%d modules, %d calls of neighbours", len(modules), n)
	if crash.MatchString(s.stderr.String()) {
		t.Errorf("%.3000s", s.stderr)
	}
}

// suffer calls one module as often as it takes to meet the same instance again, if there is one.
func (s *server) suffer(t *testing.T, h wasmgen.Hostile) {
	t.Helper()
	for round := range 2 {
		for _, text := range texts {
			var err error
			switch tool := "m-" + h.Name; {
			case h.Want == wasmgen.Bounded:
				_, _, err = s.scanned(tool, text)
			case h.Want == wasmgen.Answers:
				err = s.right(tool, text)
			default:
				if err = s.denied(tool, h.Poisoned(text)); err == nil {
					err = s.right(tool, text)
				}
			}
			if err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
	}
}

// TestTwinsAnswer is the control of both tests above: next to every hostile module there is one that is taken into
// service and right. A host that refuses or denies everything fails here.
func TestTwinsAnswer(t *testing.T) {
	testkit.Slow(t, "asks hundreds of modules")
	var twins []offered
	var names [][]string
	seen := map[string]int{}
	for _, h := range hostileModules() {
		if i, ok := seen[string(h.Twin)]; ok {
			names[i] = append(names[i], h.Name)
			continue
		}
		seen[string(h.Twin)] = len(twins)
		names = append(names, []string{h.Name})
		twins = append(twins, offered{name: "twin-" + h.Name, code: h.Twin, timeout: patientTimeout})
	}
	e2e.Binary(t)
	s := startDev(t, nil, "--config", offering(t, twins...))
	for i, o := range twins {
		for _, text := range texts {
			if err := s.right(o.name, text); err != nil {
				t.Errorf("twin of %v: %v", names[i], err)
			}
		}
	}
	t.Logf("%d twins of %d modules", len(twins), len(hostileModules()))
}

// leaking are the modules that keep something of a text or spoil themselves.
func leaking() []wasmgen.Hostile {
	return slices.DeleteFunc(slices.Clone(hostileModules()), func(h wasmgen.Hostile) bool { return !h.Leaks })
}

// TestNothingIsKept calls the modules that keep what they read under every isolation that promises they cannot.
func TestNothingIsKept(t *testing.T) {
	testkit.Slow(t, "starts many gateways")
	for _, isolation := range []string{"reset", "fresh"} {
		t.Run(isolation, func(t *testing.T) {
			e2e.Binary(t)
			modules := leaking()
			s := startDev(t, nil, "--config", offering(t, offers(modules, func(o *offered) { o.isolation = isolation })...))
			for _, h := range modules {
				t.Run(h.Name, func(t *testing.T) { s.suffer(t, h) })
			}
		})
	}
}

// TestPooledModulesLeak is its control: pooled, where nothing is promised, the second caller meets the first one's
// text. A module that is right here would show nothing anywhere.
func TestPooledModulesLeak(t *testing.T) {
	testkit.Slow(t, "calls for long")
	e2e.Binary(t)
	modules := leaking()
	if len(modules) < 15 {
		t.Errorf("only %d modules", len(modules))
	}
	var in []wasmgen.Hostile
	for _, h := range modules {
		e := runBinary(t, "config", "check", alone(t, offered{name: "m-" + h.Name, code: h.Module, isolation: "pooled"}))
		judged(t, e)
		if e.code == 0 {
			in = append(in, h)
		} else { // admission tries several texts, and saw it
			t.Logf("%s: %.300s", h.Name, e.stderr)
		}
	}
	s := startDev(t, nil, "--config", offering(t, offers(in, func(o *offered) { o.isolation = "pooled" })...))
	for _, h := range in {
		first, second := s.right("m-"+h.Name, texts[0]), s.right("m-"+h.Name, texts[2])
		if second == nil {
			t.Errorf("%s: the first call: %v; the second must be wrong", h.Name, first)
		}
	}
	if len(in) < 10 {
		t.Errorf("only %d modules were taken into service", len(in))
	}
}

// TestHostileModulesInProcesses calls one module of each kind in a worker process, where most of them would run.
func TestHostileModulesInProcesses(t *testing.T) {
	testkit.Slow(t, "waits for modules that hang")
	e2e.Binary(t)
	var modules []wasmgen.Hostile
	for _, name := range []string{"loop-without-end", "recursion-without-loops", "memory-fill-without-loops",
		"stack-of-large-frames",
		"flood-of-output", "emit-kind-pointer-wraps", "trap-with-broken-memory", "memory-grows-and-is-touched",
		"hoard-in-memory", "hoard-in-a-table-by-set"} {
		modules = append(modules, hostileModule(t, name))
	}
	s := startDev(t, nil, "--config", offering(t, offers(modules, func(o *offered) { o.sandbox = "process" })...))
	stop := s.neighbours(t)
	for _, h := range modules {
		t.Run(h.Name, func(t *testing.T) {
			if h.Want == wasmgen.Answers {
				s.suffer(t, h)
				return
			}
			if err := s.denied("m-"+h.Name, h.Poisoned(texts[0])); err != nil {
				t.Error(err)
			}
			s.rightAgain(t, "m-"+h.Name, texts[0])
		})
	}
	if err := s.neighbour(stop()); err != nil {
		t.Errorf("after all: %v", err)
	}
}

// rightAgain waits until a module whose process may have been killed, and is started again after a while, is right.
func (s *server) rightAgain(t *testing.T, tool, text string) {
	t.Helper()
	end, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for err := s.right(tool, text); err != nil; err = s.right(tool, text) {
		select {
		case <-tick.C:
		case <-end.C:
			t.Errorf("still not right after %v: %v", patience, err)
			return
		}
	}
}
