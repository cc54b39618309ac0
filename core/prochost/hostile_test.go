//go:build linux

package prochost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
)

const patience = time.Minute // bounds every wait for something that comes

// fakeMode is one line of fake modes.
type fakeMode struct{ name, group, what string }

// buildFake builds the fake once and keeps its bytes.
var buildFake = sync.OnceValues(func() (code []byte, err error) {
	dir, err := os.MkdirTemp("", "prochost-fake-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "fake")
	if out, err := exec.Command("go", "build", "-o", path, "../testkit/fakeplugin").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// fakes are all modes, and the program.
func fakes(t *testing.T) (path, digest string, modes []fakeMode) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the fake is not built")
	}
	code, err := buildFake()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "fake")
	if err := testkit.WriteProgram(path, code); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "modes").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		modes = append(modes, fakeMode{f[0], f[1], f[2]})
	}
	sum := sha256.Sum256(code)
	return path, "sha256:" + hex.EncodeToString(sum[:]), modes
}

// given is what a mode needs to show itself soon. Modes that are refused (see refused) show themselves in their own
// time: a short limit would end them on a busy machine before they can be refused.
var given = map[string]func(s *prochost.Spec){
	"slow-handshake":     soon("1h"),
	"silent":             soon(""),
	"stop-start":         soon(""),
	"half-handshake":     soon(""),
	"garbage-handshake":  soon(""),
	"long-handshake":     soon(""),
	"garbage-socket":     soon(""),
	"garbage-tls":        soon(""),
	"mute-socket":        soon(""),
	"crash-handshake":    soon(""),
	"hang-info":          soon(""),
	"hang-configure":     soon(""),
	"health-never":       soon(""),
	"health-not-serving": soon(""),
	"crash-nth":          func(s *prochost.Spec) { s.Env["FAKE_ARG"] = "3" },
	"memory-hog":         func(s *prochost.Spec) { s.Limits.Data = 512 << 20 },
	"file-hog":           func(s *prochost.Spec) { s.Limits.Files = 256 },
	"fork-bomb": func(s *prochost.Spec) {
		// the limit is of the user, over all runs of this test
		uid := uint32(20_000 + (os.Getpid()<<4+int(uids.Add(1)))%40_000)
		s.User, s.Limits.Processes = &supervise.User{UID: uid, GID: uid}, 96
	},
	"grandchild":       unconfined,
	"grandchild-crash": unconfined,
	"huge":             func(s *prochost.Spec) { s.Timeout = 10 * time.Second },
}

var uids atomic.Int32

// unconfined is for what a confined plugin cannot do: start processes.
func unconfined(s *prochost.Spec) { s.Unconfined = true }

// maySwitch says whether this process may start others as another user, and give files away: root in a container may
// not be able to.
var maySwitch = sync.OnceValue(func() bool {
	file, err := os.CreateTemp("", "hostile-")
	if err != nil {
		return false
	}
	defer os.Remove(file.Name())
	defer file.Close()
	c := exec.Command("/bin/true")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65123, Gid: 65124}}
	return file.Chown(65123, 65124) == nil && c.Run() == nil
})

func soon(arg string) func(s *prochost.Spec) {
	return func(s *prochost.Spec) {
		s.Env["FAKE_ARG"] = arg
		s.StartTimeout = time.Second
	}
}

// hostile is a fake as a plugin.
type hostile struct {
	*prochost.Plugin
	t     *testing.T
	token string
}

func load(t *testing.T, m fakeMode, kind prochost.Kind, path, digest, way string) *hostile {
	t.Helper()
	h := &hostile{t: t, token: fmt.Sprintf("%s-%d-%d", m.name, os.Getpid(), time.Now().UnixNano())}
	s := prochost.Spec{Name: "hostile", Kind: kind, Path: path, Digest: digest, Timeout: 400 * time.Millisecond,
		StartTimeout: patience, DrainTimeout: 2 * time.Second,
		Env: map[string]string{"FAKE_MODE": m.name, "FAKE_RUN": h.token}}
	if way == "unary" {
		s.Env["FAKE_UNARY"] = "1"
	}
	if m.group != "check" {
		s.Timeout = patience // what is right is right in its own time
	}
	if change := given[m.name]; change != nil {
		change(&s)
	}
	p, err := prochost.Load(context.Background(), prochost.Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	h.Plugin = p
	t.Cleanup(h.over)
	return h
}

// over closes the plugin: that ends, and nothing of it is left.
func (h *hostile) over() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		h.t.Logf("close: %v", err)
	}
	if ctx.Err() != nil {
		h.t.Error("Close does not end")
	}
	if !eventually(func() bool { return len(marked(h.token)) == 0 }) {
		h.t.Errorf("still there: %v", marked(h.token))
	}
}

// marked are the processes with a text in their environment.
func marked(text string) (found []string) {
	entries, _ := os.ReadDir("/proc") // there is one: this is Linux
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// whatever cannot be read is gone
		if env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")); bytes.Contains(env, []byte(text)) {
			line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			found = append(found, e.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func eventually(holds func() bool) bool {
	end, tick := time.NewTimer(patience), time.NewTicker(10*time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}

func callOf(tool string) *chain.Call {
	return &chain.Call{KeyID: "k", KeyName: "k", AgentID: "a", ToolID: tool, CallID: "c", Now: time.Now()}
}

// asks makes a call that has as long as it may want: the plugin's own timeout bounds it.
func (h *hostile) asks(tool string) (sdk.Verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v, err := h.Check(ctx, callOf(tool))
	if ctx.Err() != nil {
		h.t.Errorf("a call ran into its caller's patience: %v", err)
	}
	return v, err
}

func (h *hostile) scans(text string) ([]sdk.Finding, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := h.Scan(ctx, &chain.Input{Text: text, ToolID: "t", AgentID: "a"})
	if ctx.Err() != nil {
		h.t.Errorf("a scan ran into its caller's patience: %v", err)
	}
	return found, err
}

func (h *hostile) waits() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := h.Wait(ctx)
	if ctx.Err() != nil {
		h.t.Errorf("Wait does not end: %v", err)
	}
	return err
}

// TestHostileAuthorizers asks every fake: nothing that it does wrongly is a permit, calls end in time, and it can be
// ended.
func TestHostileAuthorizers(t *testing.T) {
	testkit.Slow(t, "waits for modules that hang")
	path, digest, modes := fakes(t)
	for _, m := range modes {
		// those are others' business, and TestHostileInfoChanges'
		if m.group == "feed" || m.group == "conform" || m.name == "info-changes" {
			continue
		}
		if m.name == "fork-bomb" && !maySwitch() {
			t.Log("no fork bomb: its limit counts what its user has, so it takes a user of its own, and the right to switch")
			continue
		}
		for _, way := range []string{"stream", "unary"} {
			if way == "unary" && m.group != "check" {
				continue
			}
			t.Run(m.name+"/"+way, func(t *testing.T) {
				t.Parallel()
				h := load(t, m, prochost.Authorizer, path, digest, way)
				h.behaves(m, h.waits(), way)
			})
		}
	}
}

func (h *hostile) behaves(m fakeMode, started error, way string) {
	h.t.Helper()
	switch m.group {
	case "good", "noise":
		h.right(started)
	case "check":
		if started != nil {
			h.t.Fatalf("it must come up, so that it can do harm: %v", started)
		}
		h.neverPermits(m, way)
	default:
		if comesUp[m.name] {
			h.right(started)
			return
		}
		h.neverUp(m, started)
	}
}

// comesUp are the modes that a host may put up with.
var comesUp = map[string]bool{
	"noise-before": true,
	"bad-schema":   true, "outside-schema": true, // schemas are judged by Options.CheckConfig, and there is none here
}

// refused are the modes that only an operator can mend.
var refused = map[string]bool{"refuse-configure": true, "error-configure": true, "wrong-api": true, "wrong-kind": true,
	"no-kind": true, "bad-name": true, "bad-version": true, "wrong-protocol": true, "net-rpc": true, "foreign-port": true,
	"foreign-socket": true, "no-tls": true}

func (h *hostile) neverUp(m fakeMode, started error) {
	h.t.Helper()
	if started == nil {
		h.t.Fatalf("it came up: %+v", h.Status())
	}
	h.t.Log(started)
	var r *prochost.Refused
	if errors.As(started, &r) != refused[m.name] {
		h.t.Errorf("refused: %v", !refused[m.name])
	}
	if text := started.Error(); len(text) > 4<<10 || strings.ContainsAny(text, "\x1b\x00\n") ||
		!strings.Contains(text, "hostile") {
		h.t.Errorf("the reason is long, or no text, or does not name the plugin: %.5000q", text)
	}
	for range 3 {
		if v, err := h.asks("fake/permit/x"); err == nil {
			h.t.Errorf("an answer: %+v", v)
		}
	}
	if s := h.Status(); s.State == supervise.StateReady || s.Detail == "" {
		h.t.Errorf("%+v", s)
	}
}

// starts are the modes whose process is useless from some call on, so that another one must take its place.
var starts = map[string]bool{"crash-nth": true, "panic-nth": true, "grandchild-crash": true, "stop-itself": true,
	"health-silent": true}

// neverPermits makes calls that a good plugin denies.
func (h *hostile) neverPermits(m fakeMode, way string) {
	h.t.Helper()
	var mu sync.Mutex
	var failures, denials int
	var why error
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				v, err := h.asks("fake/deny/x")
				mu.Lock()
				switch {
				case err != nil:
					failures++
					why = err
				case v.Effect == sdk.Deny:
					denials++
				default:
					h.t.Errorf("a wrong answer got through: %+v", v)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s := h.Stats()
	h.t.Logf("%d failures, %d denials, %v: %+v", failures, denials, why, s)
	right := m.name == "twice" || m.name == "unasked" || m.name == "ends-stream" // with a denial, and then with more
	if failures == 0 && !right && !(m.name == "no-answer" && way == "unary") {
		h.t.Error("it did nothing wrong")
	}
	if text := fmt.Sprint(why); failures > 0 && (len(text) > 4<<10 || strings.ContainsAny(text, "\x1b\x00\n")) {
		h.t.Errorf("the reason is long, or no text: %.5000q", text)
	}
	if starts[m.name] && !eventually(func() bool {
		return h.Stats().Starts > 1 && h.Status().State == supervise.StateReady
	}) {
		h.t.Errorf("it was not started again: %+v %+v", h.Stats(), h.Status())
	}
	if s.Errors < uint64(failures) {
		h.t.Errorf("%d errors are counted, %d calls failed", s.Errors, failures)
	}
}

// right checks a plugin that is a nuisance, and right.
func (h *hostile) right(started error) {
	h.t.Helper()
	if started != nil {
		h.t.Fatal(started)
	}
	for tool, want := range map[string]sdk.Effect{"fake/permit/x": sdk.Permit, "fake/deny/x": sdk.Deny,
		"fake/defer/x": sdk.Defer, "other": sdk.Abstain} {
		if v, err := h.asks(tool); err != nil && tool == "fake/permit/x" || err == nil && v.Effect != want {
			h.t.Errorf("%s: %v %+v", tool, err, v)
		}
	}
}

// TestHostileScanners has every fake look through texts: nothing that it does wrongly passes for a clean text.
func TestHostileScanners(t *testing.T) {
	path, digest, modes := fakes(t)
	for i, m := range modes {
		if m.group != "check" || !testkit.Every(i, 3) || m.name == "fork-bomb" && !maySwitch() {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := load(t, m, prochost.Scanner, path, digest, "stream")
			if err := h.waits(); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if found, err := h.scans("a text with FAKEMARK in it"); err == nil && len(found) != 1 {
					t.Errorf("a wrong answer got through: %+v", found)
				} else if err == nil {
					t.Logf("%+v", found)
				}
			}
			if s := h.Stats(); s.Errors == 0 && !onlyChecks[m.name] {
				t.Errorf("%+v", s)
			}
		})
	}
}

// onlyChecks are the modes that are good scanners.
var onlyChecks = map[string]bool{"twice": true, "unasked": true, "ends-stream": true, "no-answer": true}

// TestHostileEnvironment looks at what a plugin sees of us: what it was given and the handshake, its own descriptors,
// its own directory, its user; and its secret is nowhere but in the file.
func TestHostileEnvironment(t *testing.T) {
	path, digest, _ := fakes(t)
	secret := "ex" + "ample-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.Setenv("YETT_HOSTILE_TEST", "of the host")
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	given["environment"] = func(s *prochost.Spec) {
		s.Env["FAKE_OUT"], s.Confine.Write = out, []string{dir}
		s.Secrets = map[string][]byte{"token": []byte(secret)}
		if maySwitch() {
			s.User = &supervise.User{UID: 65123, GID: 65124}
		}
		s.Limits = supervise.Limits{Files: 99, FileSize: 1 << 20}
	}
	defer delete(given, "environment")
	h := load(t, fakeMode{name: "environment", group: "good"}, prochost.Authorizer, path, digest, "stream")
	h.right(h.waits())
	h.surroundings(out, secret)
}

func (h *hostile) surroundings(out, secret string) {
	h.t.Helper()
	var env struct {
		Env, Args                    []string
		UID, GID                     int
		Groups                       []int
		Open                         map[string]string
		Limits, Status, Cmdline, Dir string
	}
	var settings struct{ Secrets, Paths map[string]string }
	text, err := os.ReadFile(out)
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Environment, Configure json.RawMessage }
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			h.t.Fatal(err)
		}
		if l.Environment != nil {
			if strings.Contains(string(l.Environment), secret) {
				h.t.Errorf("the secret is in what it sees of itself: %s", l.Environment)
			}
			err = errors.Join(err, json.Unmarshal(l.Environment, &env))
		}
		if l.Configure != nil {
			err = errors.Join(err, json.Unmarshal(l.Configure, &settings))
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	if settings.Secrets["token"] != secret {
		h.t.Errorf("the secret did not reach it: %+v", settings)
	}
	for _, v := range env.Env {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "FAKE_") && !strings.HasPrefix(name, "PLUGIN_") && name != "YETT_PLUGIN" &&
			name != "TMPDIR" {
			h.t.Errorf("variable %s was not given", name)
		}
	}
	uid, gid := os.Getuid(), os.Getgid()
	if maySwitch() {
		uid, gid = 65123, 65124
	}
	if len(env.Args) != 1 || env.UID != uid || env.GID != gid || maySwitch() && len(env.Groups) > 1 {
		h.t.Errorf("%q, user %d, group %d and %v", env.Args, env.UID, env.GID, env.Groups)
	}
	for fd, name := range env.Open {
		if strings.Contains(name, "/work") || strings.Contains(name, "/root") || strings.Contains(name, ".db") {
			h.t.Errorf("descriptor %s is %s", fd, name)
		}
	}
	h.t.Logf("directory %s, descriptors %v", env.Dir, env.Open)
	if home, _ := os.Getwd(); env.Dir == home || env.Dir == "/" {
		h.t.Errorf("its directory is %s", env.Dir)
	}
}

// TestHostileInfoChanges ends a plugin that is another one after the restart: it is not taken back.
func TestHostileInfoChanges(t *testing.T) {
	path, digest, _ := fakes(t)
	h := load(t, fakeMode{name: "info-changes", group: "settings"}, prochost.Authorizer, path, digest, "stream")
	if err := h.waits(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if v, err := h.asks("fake/permit/x"); err == nil && v.Effect != sdk.Permit {
			t.Errorf("%+v", v)
		}
	}
	if !eventually(func() bool { return strings.Contains(h.Status().Detail, "Info") }) {
		t.Errorf("%+v", h.Status())
	}
	if v, err := h.asks("fake/permit/x"); err == nil {
		t.Errorf("%+v", v)
	}
}

// TestSwappedBinary changes the file after it was loaded: what was checked goes on, nothing else is ever started.
func TestSwappedBinary(t *testing.T) {
	path, digest, _ := fakes(t)
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), "mine")
	if err := testkit.WriteProgram(mine, code); err != nil {
		t.Fatal(err)
	}
	h := load(t, fakeMode{name: "crash-nth", group: "check"}, prochost.Authorizer, mine, digest, "stream")
	if err := h.waits(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if err := testkit.WriteProgram(mine, append(bytes.Clone(code), 0)); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { // the third call ends it
		if v, err := h.asks("fake/permit/x"); err == nil && v.Effect != sdk.Permit {
			t.Errorf("%+v", v)
		}
		return h.Stats().Crashes > 0 && h.Status().State != supervise.StateReady
	}) {
		t.Fatalf("%+v %+v", h.Stats(), h.Status())
	}
	if !eventually(func() bool {
		return strings.Contains(h.Status().Detail, "sha256:") || h.Status().State == supervise.StateReady
	}) {
		t.Errorf("%+v", h.Status())
	}
	t.Logf("%+v", h.Status())
	if _, err := prochost.Load(context.Background(), prochost.Options{},
		prochost.Spec{Name: "hostile", Kind: prochost.Authorizer, Path: mine, Digest: digest}); err == nil {
		t.Error("other bytes were loaded")
	} else if r := (*prochost.Refused)(nil); !errors.As(err, &r) {
		t.Errorf("not refused: %v", err)
	}
}
