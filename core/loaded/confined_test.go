package loaded

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/testkit"
)

// A rule id of two steps is said, with both places; what a step in shadow calls its rules is nobody's concern.
func TestRuleIDsOfTwoStepsAreSaid(t *testing.T) {
	step := func(name, mode string, ids ...string) config.AuthorizeStep {
		set := config.RuleSet{Path: name + ".yaml"}
		for i, id := range ids {
			set.Rules = append(set.Rules, config.Rule{ID: id, Pos: config.Pos{File: set.Path, Line: i + 2}})
		}
		return config.AuthorizeStep{Name: name, Mode: mode, Rules: []config.RuleSet{set}}
	}
	const tail = "; grants and records name a rule by its id: give each its own, or name the step in every grant for " +
		"it (--step)"
	for name, c := range map[string]struct {
		steps []config.AuthorizeStep
		want  []string
	}{
		"none":         {[]config.AuthorizeStep{step("house", "enforce", "a", "b"), step("risk", "enforce", "c")}, nil},
		"one":          {[]config.AuthorizeStep{step("house", "enforce", "a", "b"), step("risk", "enforce", "b")}, []string{"chains.authorize: the steps house (house.yaml:3) and risk (risk.yaml:2) both have a rule b" + tail}},
		"in shadow":    {[]config.AuthorizeStep{step("house", "enforce", "a"), step("risk", "shadow", "a")}, nil},
		"in three":     {[]config.AuthorizeStep{step("house", "enforce", "a"), step("risk", "enforce", "a"), step("more", "enforce", "a")}, []string{"risk (risk.yaml:2) both have a rule a", "house (house.yaml:2) and more (more.yaml:2)"}},
		"a whole file": {[]config.AuthorizeStep{step("house", "enforce", "a", "b", "c"), step("risk", "enforce", "a", "b", "c")}, []string{"both have a rule a, and 2 more ids in common" + tail}},
	} {
		cfg := &config.Config{}
		cfg.Chains.Authorize.Steps = c.steps
		var got []string
		for _, line := range Warnings(cfg) {
			if strings.HasPrefix(line, "chains.authorize: ") {
				got = append(got, line)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s: %q, want %q", name, got[i], part)
			}
		}
	}
}

// TestWarnings: what a configuration leaves open is said, and what is closed is not.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "plugin.py")
	if err := testkit.WriteProgram(script, []byte("#!/opt/acme/venv/bin/python -u\n")); err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(dir, "venv")
	linked := filepath.Join(dir, "linked.py")
	for _, err := range []error{os.Mkdir(venv, 0o700), os.Symlink("/bin/sh", filepath.Join(venv, "python")),
		testkit.WriteProgram(linked, []byte("#!"+venv+"/python\n"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	linkedTemp := filepath.Join(dir, "tmp")
	if err := os.Symlink(os.TempDir(), linkedTemp); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		plugin config.Plugin
		want   []string // parts of the lines about it, in order
	}{
		"closed":              {config.Plugin{Exec: "/bin/true", Network: []config.Port{config.NoPort}}, nil},
		"its ports":           {config.Plugin{Exec: "/bin/true", Network: []config.Port{443}}, nil},
		"open":                {config.Plugin{Exec: "/bin/true"}, []string{"network is not given"}},
		"off":                 {config.Plugin{Exec: "/bin/true", Confine: config.ConfineOff}, []string{"confine is off"}},
		"module":              {config.Plugin{Wasm: "a.wasm"}, nil},
		"interpreter":         {config.Plugin{Exec: config.Path(script), Network: []config.Port{443}}, []string{"its interpreter /opt/acme/venv/bin/python is outside"}},
		"virtual environment": {config.Plugin{Exec: config.Path(linked), Network: []config.Port{443}}, []string{"its interpreter " + venv + "/python is outside"}},
		"the temporary directory": {config.Plugin{Exec: "/bin/true", Network: []config.Port{443}, Paths: config.PluginPaths{Write: []config.Path{config.Path(dir), config.Path(linkedTemp)}}},
			[]string{"paths.write: " + linkedTemp + " holds the directories in which plugins work"}},
		"its interpreter": {config.Plugin{Exec: config.Path(script), Network: []config.Port{443},
			Paths: config.PluginPaths{Read: []config.Path{"/opt/acme/venv"}}}, nil},
	} {
		c.plugin.User.UID = 65123
		cfg := &config.Config{Plugins: map[string]config.Plugin{"p": c.plugin}}
		cfg.Chains.ScanOutput.Steps = []config.ScanStep{{Use: "secrets", Mode: "enforce"}}
		got := slices.DeleteFunc(Warnings(cfg),
			func(line string) bool { return strings.HasPrefix(line, "this machine: ") })
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, part := range c.want {
			if !strings.HasPrefix(got[i], "plugins.p: ") || !strings.Contains(got[i], part) {
				t.Errorf("%s: %q, want %q", name, got[i], part)
			}
		}
	}
	cfg := &config.Config{}
	cfg.Audit.Archive = config.Archive{Exec: config.Path(script), User: config.PluginUser{UID: 65123}}
	said := strings.Join(Warnings(cfg), "\n")
	for _, want := range []string{"audit.archive: network is not given", "audit.archive: its interpreter /opt/acme"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing is said of %q in:\n%s", want, said)
		}
	}
	missing := 0
	for _, line := range Warnings(&config.Config{Plugins: map[string]config.Plugin{"p": {Exec: "/bin/true"}}}) {
		if strings.HasPrefix(line, "this machine: ") {
			missing++
		}
	}
	if want := len(confine.Gaps(&confine.Policy{})); missing != want {
		t.Errorf("%d lines about this machine, which lacks %d parts", missing, want)
	}
}

// TestNobodyMasksIsSaid: without a scanner that enforces nothing is masked.
func TestNobodyMasksIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		steps []config.ScanStep
		said  bool
	}{
		"no steps":    {nil, true},
		"shadow":      {[]config.ScanStep{{Use: "a", Mode: "shadow"}}, true},
		"one of them": {[]config.ScanStep{{Use: "a", Mode: "shadow"}, {Use: "b", Mode: "enforce"}}, false},
	} {
		cfg := &config.Config{}
		cfg.Chains.ScanOutput.Steps = c.steps
		said := slices.ContainsFunc(Warnings(cfg), func(line string) bool {
			return strings.HasPrefix(line, "chains.scan_output: no scanner enforces")
		})
		if said != c.said {
			t.Errorf("%s: said is %v", name, said)
		}
	}
}

// TestSharedProcesses: the kernel counts processes by user, so one plugin can take them from another. Who runs alone,
// or starts none, is not warned about.
func TestSharedProcesses(t *testing.T) {
	cfg := &config.Config{Plugins: map[string]config.Plugin{
		"a": {Exec: "/bin/true", User: config.PluginUser{UID: 65123}, Limits: config.PluginLimits{Processes: 64}},
		"b": {Exec: "/bin/true", User: config.PluginUser{UID: 65123}},
		"c": {Exec: "/bin/true", User: config.PluginUser{UID: 65124}, Limits: config.PluginLimits{Processes: 64}},
		"d": {Exec: "/bin/true", User: config.PluginUser{UID: os.Geteuid()}, Limits: config.PluginLimits{Processes: 64}},
		"e": {Exec: "/bin/true"},
		"m": {Wasm: "m.wasm"},
	}}
	var got []string
	for _, line := range Warnings(cfg) {
		if strings.Contains(line, "limits.processes") {
			got = append(got, line)
		}
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "plugins.a: ") || !strings.Contains(got[0], "and b may use them up") ||
		!strings.HasPrefix(got[1], "plugins.d: ") || !strings.Contains(got[1], "and e may use them up") {
		t.Errorf("%q", got)
	}
}

// TestPolicyOf: what the configuration says is what the kernel is asked for.
func TestPolicyOf(t *testing.T) {
	p := policyOf(&config.Plugin{Confine: config.ConfineRequired, Network: []config.Port{443, 5432},
		Paths:  config.PluginPaths{Read: []config.Path{"/a"}, Write: []config.Path{"/b"}},
		Limits: config.PluginLimits{Processes: 8}})
	if !p.Required || !p.Children || !slices.Equal(p.Read, []string{"/a"}) || !slices.Equal(p.Write, []string{"/b"}) ||
		p.Network == nil || !slices.Equal(p.Network.Ports, []uint16{443, 5432}) {
		t.Errorf("%+v", p)
	}
	if p := policyOf(&config.Plugin{}); p.Network != nil || p.Required || p.Children {
		t.Errorf("nothing said: %+v", p)
	}
	if p := policyOf(&config.Plugin{Network: []config.Port{config.NoPort}}); p.Network == nil ||
		len(p.Network.Ports) != 0 {
		t.Errorf("none: %+v", p)
	}
}

// TestArchiveThatCannotRun: who checks a configuration is told that the program of the archive is another one, and not
// months later, when records are to go. A server that starts is no worse for it.
func TestArchiveThatCannotRun(t *testing.T) {
	program := filepath.Join(t.TempDir(), "archive")
	if err := testkit.WriteProgram(program, []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{}
	cfg.Audit.Archive = config.Archive{Exec: config.Path(program), Digest: "sha256:" + strings.Repeat("0", 64)}
	if err := Check(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "audit.archive.exec: "+program) ||
		!strings.Contains(err.Error(), "pinned is") {
		t.Errorf("a check says %v", err)
	}
	var log strings.Builder
	p, err := NewPool(t.Context(), "", "", slog.New(slog.NewTextHandler(&log, nil)), func(prochost.Change) {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	g, err := Build(t.Context(), cfg, p, false)
	if err != nil || !strings.Contains(log.String(), "audit.archive.exec: ") {
		t.Fatalf("a start: %v, and says %q", err, log.String())
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
