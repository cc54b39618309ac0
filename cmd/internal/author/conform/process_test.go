package conform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// modeEnv makes this test binary a plugin, good or with one defect.
const modeEnv = "CONFORM_TEST_MODE"

func TestMain(m *testing.M) {
	supervise.Launch()
	if os.Getenv(plugin.CookieKey) != "" {
		bePlugin(os.Getenv(modeEnv))
		return
	}
	testkit.Prepare(testkit.Beside(8))
	goleak.VerifyTestMain(m)
}

// bePlugin is what the binary is as a plugin. It keeps every rule but the one that mode names.
func bePlugin(mode string) {
	switch mode {
	case "crash at start":
		fmt.Fprintln(os.Stderr, "cannot find my licence")
		os.Exit(7)
	case "noise first":
		say("hello, I am a plugin")
	case "garbage":
		say("\x00\xff|||")
		select {}
	case "never ready":
		select {}
	case "wrong version":
		say("1|7|unix|/tmp/x|grpc|")
		select {}
	case "tcp":
		say("1|1|tcp|127.0.0.1:1|grpc|")
		select {}
	case "netrpc":
		say("1|1|unix|/tmp/x|netrpc|")
		select {}
	case "no tls":
		os.Unsetenv("PLUGIN_CLIENT_CERT")
	case "ignores SIGTERM":
		swallow()
	case "exit 3":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		go func() { <-c; os.Exit(3) }()
	case "grandchild":
		cmd := exec.Command("/bin/sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout = realStdout
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	plugin.Serve(testAuthorizer(mode), testScanner(mode), testSubscriber(mode))
}

// realStdout is what sdk/plugin keeps from its authors. It is kept for good: a file that is collected closes its
// descriptor.
var realStdout = os.NewFile(1, "stdout")

func say(line string) { fmt.Fprintln(realStdout, line) }

// swallow keeps SIGTERM from whoever asks for it later.
func swallow() {
	signal.Ignore(syscall.SIGTERM)
	go func() {
		for range time.Tick(time.Millisecond) {
			signal.Ignore(syscall.SIGTERM)
		}
	}()
}

func testInfo() plugin.Info {
	return plugin.Info{Name: "conform-test", Version: "1.2.3", Description: "a plugin of a test",
		ExampleConfig: `{"deny":"rm"}`, ConfigSchema: `{"type":"object","additionalProperties":false,"properties":{"deny":{"type":"string","maxLength":64}}}`,
		Secrets: []plugin.Secret{{Name: "token", Required: true}}, Findings: []plugin.FindingKind{{Kind: "MAIL"}}}
}

type testState struct {
	Deny string `json:"deny"`
}

func testAuthorizer(mode string) plugin.Authorizer {
	var state testState
	var asked atomic.Int64
	var once sync.Once
	return plugin.Authorizer{
		Info: testInfo(),
		Validate: func(_ context.Context, s plugin.Settings) error {
			if mode == "validate writes" {
				_ = os.WriteFile("state.db", []byte("x"), 0o600)
			}
			var try testState
			return s.Decode(&try)
		},
		Configure: func(_ context.Context, s plugin.Settings) error {
			if mode == "logs the secret" {
				s.Log.Info("configured", "token", s.Secrets["token"])
			}
			return s.Decode(&state)
		},
		Check: func(_ context.Context, c *plugin.Call) (sdk.Verdict, error) {
			switch n := asked.Add(1); {
			case mode == "crash on the 200th" && n == 200:
				panicElsewhere()
			case mode == "noise later":
				once.Do(func() { say("checking " + c.ToolID) })
			case mode == "stops itself" && n == 100:
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			case mode == "many processes" && n <= 5:
				for range 20 {
					_ = exec.Command("/bin/sleep", "60").Start()
				}
			}
			if state.Deny != "" && strings.Contains(c.ToolID, state.Deny) {
				return sdk.Verdict{Effect: sdk.Deny, Code: "TEST_DENY"}, nil
			}
			return sdk.Verdict{}, nil
		},
	}
}

func panicElsewhere() {
	done := make(chan struct{})
	go func() { defer close(done); panic("lost my nerve") }()
	<-done
}

func testScanner(string) plugin.Scanner {
	return plugin.Scanner{Info: testInfo(), Scan: func(_ context.Context, t *plugin.Text) ([]sdk.Finding, error) {
		at := strings.Index(t.Text, "anna@example.com")
		if at < 0 {
			return nil, nil
		}
		return []sdk.Finding{{Kind: "MAIL", Start: at, End: at + 16, Confidence: 1, Severity: sdk.Low,
			Suggested: sdk.Redact}}, nil
	}}
}

// heldEnv names a file that the subscriber of this process wants to itself from its first batch on.
const heldEnv = "CONFORM_TEST_HELD"

var held *os.File // open until the process ends

func testSubscriber(string) plugin.Subscriber {
	hold := sync.OnceValue(func() (err error) {
		path := os.Getenv(heldEnv)
		if path == "" {
			return nil
		}
		if held, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
		return syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	})
	return plugin.Subscriber{Info: testInfo(), Consume: func(context.Context, *plugin.Batch) error { return hold() }}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// testOptions are for a machine that does much else at the same time.
func testOptions(t *testing.T, mode string) Options {
	o := Options{Path: self(t), Env: map[string]string{modeEnv: mode}, CheckConfig: schemaCheck, Timeout: 5 * time.Second}
	if testing.Verbose() {
		o.Log = func(line string) { t.Log(line) }
	}
	return o
}

func TestGoodProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes")
	}
	rep, err := Run(context.Background(), testOptions(t, "good"))
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Pass {
		t.Errorf("%s", rep.Reason)
	}
	for _, c := range rep.Checks {
		if c.Outcome != Pass {
			t.Errorf("%s is %s: %s", c.Name, c.Outcome, c.Why)
		}
	}
	t.Logf("\n%s", lines(rep))
}

// TestFeedsOneProcess: the gateway never feeds two processes of a subscriber at the same time, so one that wants a file
// to itself, as our jsonl does, keeps every rule.
func TestFeedsOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes")
	}
	o := testOptions(t, "good")
	dir := t.TempDir()
	o.Env[heldEnv], o.Confine.Write = filepath.Join(dir, "held"), []string{dir}
	o.Only = []string{"batches", "second-stream", "stdout", "processes", "drain", "leftovers", "kill"}
	rep, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Pass {
		t.Errorf("%s\n%s", rep.Reason, lines(rep))
	}
}

// TestProcessDefects plants what only a process can do wrong.
func TestProcessDefects(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes")
	}
	for i, d := range []struct {
		mode, check, why string
		only             []string
	}{
		{mode: "crash at start", check: "handshake", why: `without a handshake line: ended with exit status 7: cannot find my licence`},
		{mode: "noise first", check: "handshake", why: `the handshake line "hello, I am a plugin" has 1 parts`},
		{mode: "garbage", check: "handshake", why: `the handshake line`},
		{mode: "never ready", check: "handshake", why: `no handshake line within 500ms`},
		{mode: "wrong version", check: "handshake", why: `chooses protocol version 7`},
		{mode: "tcp", check: "handshake", why: `offers a tcp socket`},
		{mode: "netrpc", check: "handshake", why: `names the protocol netrpc`},
		{mode: "no tls", check: "mtls", why: `no certificate although PLUGIN_CLIENT_CERT was set`},
		{mode: "ignores SIGTERM", check: "drain", why: `still runs 1s after SIGTERM`},
		{mode: "exit 3", check: "drain", why: `was not answered|ended with exit status 3`},
		{mode: "grandchild", check: "leftovers", why: `1 processes that it started are left after its end: sleep`},
		{mode: "validate writes", check: "validate-only", why: `left files in the working directory: state.db`},
		{mode: "logs the secret", check: "settings", why: `wrote the value of the secret token to its log`, only: []string{"settings", "answers"}},
		{mode: "crash on the 200th", check: "stream", why: `the process ended: .*lost my nerve`},
		{mode: "noise later", check: "stdout", why: `standard output has more than the handshake: "checking`},
		{mode: "stops itself", check: "stream", why: `.`},
		{mode: "many processes", check: "processes", why: `after a few calls it is`, only: []string{"processes"}},
	} {
		if !testkit.Every(i, 4) {
			continue
		}
		t.Run(d.mode, func(t *testing.T) {
			o := testOptions(t, d.mode)
			if o.Only = d.only; d.only == nil {
				o.Only = []string{d.check}
			}
			switch d.mode { // what is waited for in vain
			case "never ready":
				o.start = 500 * time.Millisecond
			case "ignores SIGTERM":
				o.drain = time.Second
			case "grandchild", "many processes": // inside they could start none
				o.Unconfined = true
			}
			rep, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			failed := false
			for _, c := range rep.Checks {
				if c.Outcome == Fail && (c.Name == d.check || d.mode == "logs the secret") &&
					regexp.MustCompile(d.why).MatchString(c.Why) {
					failed = true
				}
			}
			if rep.Pass || !failed {
				t.Errorf("pass %t, want %s to fail with %q\n%s", rep.Pass, d.check, d.why, lines(rep))
			}
		})
	}
}

// A file that is not the same any more is not run again, and the report says so.
func TestSwappedFile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes")
	}
	path := filepath.Join(t.TempDir(), "plugin")
	text, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.WriteProgram(path, text); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, "good")
	o.Path = path
	o.Only = []string{"before-configure", "file"}
	swapped := sync.OnceFunc(func() {
		if err := testkit.WriteProgram(path+".new", []byte("#!/bin/sh\n")); err != nil {
			t.Error(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Error(err)
		}
	})
	o.CheckConfig = func(string, []byte) error { swapped(); return nil }
	rep, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, rep, "file"); rep.Pass || c.Outcome != Fail || !strings.Contains(c.Why, "the file was sha256:") {
		t.Errorf("%s", lines(rep))
	}
}
