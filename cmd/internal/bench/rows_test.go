//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk/abi"
)

// rowsOf makes the rows that a run with these settings has.
func rowsOf(t *testing.T, rows string, large bool, conns ...int) *ratioRun {
	t.Helper()
	r := &ratioRun{conns: conns, large: large}
	if rows != "" {
		r.rows = regexp.MustCompile(rows)
	}
	var err error
	if r.loads, err = benchLoads(); err != nil {
		t.Fatal(err)
	}
	if err := r.choose(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGoalsHaveLoads holds the tables against each other, so that nothing is looked up in vain.
func TestGoalsHaveLoads(t *testing.T) {
	loads, err := benchLoads()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, l := range loads {
		at[l.name] = i
		if _, known := gatewayFlags[l.gateway]; l.gateway != "" && !known {
			t.Errorf("%s: there is no gateway %s", l.name, l.gateway)
		}
		if before, known := at[l.after]; l.after != "" && (!known || before >= i) {
			t.Errorf("%s goes by %s, which has to stand before it", l.name, l.after)
		}
		if l.work == nil && (l.expect == "" || l.prepare == nil && len(l.bodies) == 0) {
			t.Errorf("%s sends or expects nothing", l.name)
		}
	}
	ids := map[string]bool{}
	for _, g := range ratioGoals {
		for _, name := range []string{g.load, g.base} {
			if _, known := at[name]; !known {
				t.Errorf("%s: there is no load %q", g.id, name)
			}
		}
		if g.load == g.base || g.goal <= 0 || g.what == "" || ids[g.id] {
			t.Errorf("%+v", g)
		}
		ids[g.id] = true
	}
}

// TestChoose checks that a row brings what it is made of along, and nothing else.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		rows   string
		large  bool
		conns  []int
		ids    string
		needed string
	}{
		{"^S1$", false, []int{64, 256}, "S1", "authorize-digest/256 echo-authorize/256"},
		{"S4", false, []int{64, 256}, "S4-16 S4-64", "echo-authorize/64 govern-8x16/64 govern-8x64/64"},
		{"redeem", false, []int{64}, "S7-redeem-64", "authorize-digest/64 redeem/64"},
		{"subs", false, []int{256}, "subscribers-p99", "authorize-digest/256 authorize-followed/256 authorize-quiet/256"},
		{"rules", false, []int{256}, "rules-1000", "rules-10/256 rules-1000/256"},
		{"rules", true, []int{256}, "rules-1000 rules-100000", "rules-10/256 rules-1000/256 rules-100000/256"},
	} {
		if testkit.Quick() && c.large {
			continue // it makes a hundred thousand rules
		}
		r := rowsOf(t, c.rows, c.large, c.conns...)
		var ids, needed []string
		for _, g := range r.goals {
			ids = append(ids, g.id)
		}
		for k := range r.needed {
			needed = append(needed, fmt.Sprintf("%s/%d", k.load, k.conns))
		}
		slices.Sort(needed)
		if got := strings.Join(ids, " "); got != c.ids {
			t.Errorf("%s: rows %s, want %s", c.rows, got, c.ids)
		}
		if got := strings.Join(needed, " "); got != c.needed {
			t.Errorf("%s: measures %s, want %s", c.rows, got, c.needed)
		}
	}
}

// TestJudge checks that each round is held against its own base, and that anything wrong in any round shows.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		id             string
		measured       float64
		spread         [2]float64
		verdict        string
		of, against    sample // what of it the rounds below fill in
		echo, base     float64
		rounds         [][2]float64 // what it is compared with, and its own
		latencies      bool         // the rounds are p99s
		spoilt, better string
	}{
		{id: "S1", measured: 0.5, spread: [2]float64{0.4, 0.6}, verdict: "met", echo: 50, rounds: [][2]float64{{100, 60}, {50, 20}, {10, 5}}, better: "higher",
			of: sample{Load: "authorize-digest", Connections: 256}, against: sample{Load: "echo-authorize", Connections: 256}},
		{id: "S4-64", measured: 1.2, spread: [2]float64{1.2, 1.4}, verdict: "missed", echo: 100, rounds: [][2]float64{{100, 120}, {100, 140}, {100, 120}}, better: "higher",
			of:      sample{Load: "govern-8x64", Connections: 8, InFlight: 64},
			against: sample{Load: "echo-authorize", Connections: 64}},
		{id: "S7-redeem", measured: 0.7, spread: [2]float64{0.6, 0.8}, verdict: "met", base: 10, rounds: [][2]float64{{10, 6}, {10, 7}, {10, 8}}, better: "higher",
			of: sample{Load: "redeem", Connections: 256}, against: sample{Load: "authorize-digest", Connections: 256}},
		{id: "subscribers-p99", measured: 1.5, spread: [2]float64{1, 2}, verdict: "met", base: 7, rounds: [][2]float64{{100, 100}, {50, 100}, {10, 15}}, latencies: true, better: "lower",
			of:      sample{Load: "authorize-followed", Connections: 256},
			against: sample{Load: "authorize-quiet", Connections: 256}},
	} {
		var all []sample
		for i, round := range c.rounds {
			base, own := c.against, c.of
			for k, s := range []*sample{&base, &own} {
				s.Round, s.Good, s.PerSecond = i+1, 1, round[k]
				if c.latencies {
					s.PerSecond, s.P99 = 7, round[k]
				}
			}
			all = append(all, base, own)
		}
		// another row's
		all = append(all, sample{Load: c.of.Load, Connections: 999, Round: 1, PerSecond: 1e9, P99: 1e9, Bad: 1})
		r := rowsOf(t, "^"+c.id+"$", false, 64, 256)
		row := r.judge(all)[0]
		if row.ID != c.id || row.Measured != c.measured || row.Spread != c.spread || row.Verdict != c.verdict ||
			row.Echo != c.echo || row.Base != c.base || row.Better != c.better {
			t.Errorf("%+v", row)
		}
		for name, plant := range map[string]func(*sample){"bad": func(s *sample) {
			s.Bad = 1
		}, "unrecorded": func(s *sample) { s.Unrecorded = 1 }, "none": func(s *sample) { s.Good = 0 },
			"late": func(s *sample) { s.Late = 1 }, "disturbed": func(s *sample) {
				s.Disturbed = "somebody left"
			}, "gone": func(s *sample) { s.Round = 99 }} {
			for i := range len(all) - 1 {
				planted := slices.Clone(all)
				plant(&planted[i])
				row := r.judge(planted)[0]
				if name == "gone" && i%2 == 1 {
					continue // a round without the load itself is a round less
				}
				if row.Verdict != "missed" || row.Why == "short of the goal" {
					t.Errorf("%s, %s in sample %d: %+v", c.id, name, i, row)
				}
			}
		}
		if row := r.judge(nil)[0]; row.Verdict != "missed" || !strings.Contains(row.Why, "nothing was measured") {
			t.Errorf("nothing measured: %+v", row)
		}
	}
}

// TestPrepareFails checks that what cannot be prepared costs its own row and no other one.
func TestPrepareFails(t *testing.T) {
	r := rowsOf(t, "^S7-redeem$", false, 256)
	r.gateways = map[string]*child{"spend": {}}
	r.show = func(string, ...any) {}
	l := r.load("redeem")
	l.prepare = func(context.Context, *ratioRun, *child, *drive) (func() string, error) {
		return nil, errors.New("the disk stalled")
	}
	s, err := r.measure(context.Background(), l, 256, 3)
	if err != nil || s.Good != 0 || s.Disturbed != "the disk stalled" || s.Load != "redeem" || s.Connections != 256 ||
		s.Round != 3 {
		t.Fatalf("%v: %+v", err, s)
	}
	row := r.judge([]sample{{Load: "authorize-digest", Connections: 256, Round: 3, PerSecond: 10, Good: 1}, s})[0]
	if row.Verdict != "missed" || !strings.Contains(row.Why, "redeem in round 3: the disk stalled") {
		t.Errorf("%+v", row)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.measure(ctx, l, 256, 3); err == nil {
		t.Error("a run that was interrupted gave a sample")
	}
}

// TestCalm looks at this process itself.
func TestCalm(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for began := threadCPU(); threadCPU()-began < 30*time.Millisecond; { // so that there is something to be seen
	}
	if d, err := computedBy(self.Pid); err != nil || d < 20*time.Millisecond {
		t.Errorf("%s %v", d, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (&child{cmd: &exec.Cmd{Process: self}}).calm(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := computedBy(-1); err == nil {
		t.Error("a process that there is not has computed")
	}
}

// binary builds the whole program.
func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the real binary is not built")
	}
	path := filepath.Join(t.TempDir(), "yett")
	if out, err := exec.Command("go", "build", "-o", path, "../../yett").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// briefly runs the whole benchmark once, for a moment, and gives the rows and the raw results.
func briefly(t *testing.T, args ...string) ([]ratioRow, []sample) {
	t.Helper()
	bin, dir := binary(t), t.TempDir()
	raw := filepath.Join(dir, "raw.jsonl")
	cmd := exec.Command(bin, append([]string{"bench", "ratios", "--json", "--rounds", "1", "--seconds", "0.4", "--out",
		raw}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var rows []ratioRow
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Measured <= 0 || r.Goal <= 0 || r.Yett <= 0 || (r.Echo <= 0) == (r.Base <= 0) ||
			!slices.Contains([]string{"met", "limited", "missed"}, r.Verdict) {
			t.Errorf("%+v", r)
		}
		for _, wrong := range []string{"bad answers", "no record", "no good answer", "nothing", "cut off", "did not ask"} {
			if strings.Contains(r.Why, wrong) {
				t.Errorf("%s: %s", r.ID, r.Why)
			}
		}
	}
	text, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var all []sample
	for _, line := range lines[1 : len(lines)-len(rows)] {
		var s sample
		if err := json.Unmarshal(line, &s); err != nil || s.Load == "" {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, s)
	}
	left, err := filepath.Glob(filepath.Join(dir, "yett-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	return rows, all
}

// TestBenchRatios measures every row once. Figures are not looked at, only that each is there, was measured with good
// answers, and that nothing is left behind.
func TestBenchRatios(t *testing.T) {
	testkit.Slow(t, "measures everything once")
	want := 0
	for _, g := range ratioGoals {
		if !g.large {
			want++
		}
	}
	rows, all := briefly(t)
	if len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	if n := len(rowsOf(t, "", false, 1, 64, 256).needed); len(all) != n {
		t.Errorf("%d runs, want %d", len(all), n)
	}
	for _, s := range all {
		switch s.Load {
		case "authorize-quiet", "authorize-followed", "authorize-unsubscribed", "authorize-subscribed":
			if s.Rate <= 0 {
				t.Errorf("%+v: an open loop has a rate", s)
			}
		case "govern-8x16", "govern-8x64":
			if s.Connections != 8 || s.Load != fmt.Sprintf("govern-8x%d", s.InFlight) {
				t.Errorf("%+v", s)
			}
		}
	}
}

func TestBenchPickedRows(t *testing.T) {
	testkit.Slow(t, "measures")
	start := time.Now()
	rows, all := briefly(t, "--rows", "^rules", "--rules-100000", "--connections", "64")
	if len(rows) != 2 || rows[1].ID != "rules-100000-64" || len(all) != 3 {
		t.Errorf("%+v from %d runs", rows, len(all))
	}
	t.Logf("two rows in %s", time.Since(start).Round(time.Second))
}

// The texts that are to trip nothing trip nothing, and the two that look for the same literals agree on a text that has
// some.
func TestWorkThatTripsNothing(t *testing.T) {
	testkit.Long(t, "it compiles the scanners")
	for name, start := range map[string]func(context.Context, *ratioRun) (*work, error){"pass": startPass,
		"textbook": startTextbook} {
		w, err := start(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range testkit.Rounds(16, 1) {
			if n, err := w.do(context.Background()); err != nil || n != textBytes {
				t.Fatalf("%s: %d bytes, %v", name, n, err)
			}
		}
	}
	book := newTextbook([]abi.Trigger{{Literal: "abc"}, {Literal: "BCD"}, {Class: "at", Min: 1}})
	if n := book.count("xabcdBcd@"); n != 3 {
		t.Errorf("the textbook automaton counts %d of 3", n)
	}
}

// Rows that measure a plugin need its program: without Go the error says what to do.
func TestPluginCannotBeBuilt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if path, err := buildPlugin(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "--plugin FILE") {
		t.Errorf("%q, %v", path, err)
	}
}
