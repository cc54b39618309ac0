//go:build linux

package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
)

var buildFakes = sync.OnceValues(func() (code []byte, err error) {
	dir, err := os.MkdirTemp("", "conform-fakes-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "fake")
	if out, err := exec.Command("go", "build", "-o", path, "../../../../core/testkit/fakeplugin").CombinedOutput(); err !=
		nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// theFake is the program of core/testkit/fakeplugin, and its modes by name: each a group.
func theFake(t *testing.T) (path string, modes map[string]string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the fake is not built")
	}
	code, err := buildFakes()
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
	modes = map[string]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(line, "\t")
		modes[f[0]] = f[1]
	}
	return path, modes
}

// fakeFault is which check fails for a mode, and its sentence.
type fakeFault struct{ check, why, arg string }

const (
	noLine = `no handshake line within`
	inVain = `DEADLINE_EXCEEDED`

	unacknowledged = `record 1 was sent \d+s ago, and 0 is what was acknowledged`
)

// fakeFaults are all modes that are no good.
var fakeFaults = map[string]fakeFault{
	"crash-start": {"handshake", `exit status 3: fake: not today`, ""}, "crash-handshake": {"handshake", `no such file`, ""},
	"silent": {"handshake", noLine, ""}, "stop-start": {"handshake", noLine, ""}, "slow-handshake": {"handshake", noLine, "1h"},
	"garbage-handshake": {"handshake", `handshake line ".*" has`, ""}, "half-handshake": {"handshake", noLine, ""},
	"long-handshake": {"handshake", `has more than 16384 bytes`, ""}, "noise-before": {"handshake", `loading the model`, ""},
	"wrong-protocol": {"handshake", `protocol version 99`, ""}, "net-rpc": {"handshake", `netrpc, wants grpc`, ""}, "no-tls": {"mtls", `no certificate`, ""},
	"foreign-socket": {"handshake", `/run/other.sock`, ""}, "foreign-port": {"handshake", `tcp socket, wants unix`, ""},
	"garbage-socket": {"handshake", `UNAVAILABLE`, ""}, "garbage-tls": {"handshake", `UNAVAILABLE`, ""}, "mute-socket": {"handshake", inVain, ""},

	"hang-info": {"handshake", inVain, ""}, "hang-configure": {"settings", inVain, ""}, "exit-configure": {"settings", `settings are too much`, ""},
	"refuse-configure": {"settings", `/note: does not please`, ""}, "error-configure": {"settings", `do not please`, ""},
	"wrong-api": {"versions", `lists \[7\]`, ""}, "wrong-kind": {"kinds", `does not name it`, ""}, "no-kind": {"info", `at least one`, ""},
	"info-changes": {"info", `differs from the first`, ""}, "bad-name": {"info", `name "Fake`, ""}, "bad-version": {"info", `version "1`, ""},
	"bad-schema": {"schema", `config_schema`, ""}, "outside-schema": {"schema", `/etc/passwd`, ""}, "huge-info": {"handshake", `RESOURCE_EXHAUSTED`, ""},
	"bad-first": {"before-configure", `Check answered PERMIT`, ""}, "health-not-serving": {"health", `closed for today`, ""}, "health-never": {"health", `no first answer`, ""},

	"crash-nth": {"answers", `call 3 is one too many`, ""}, "panic-nth": {"answers", `index out of range`, ""}, "hang": {"unknown-call", inVain, ""},
	"stop-itself": {"unknown-call", inVain, ""}, "memory-hog": {"unknown-call", inVain, ""}, "file-hog": {"unknown-call", inVain, ""},
	"fork-bomb": {"unknown-call", inVain, ""}, "late": {"deadline", `much later`, "1s"}, "huge": {"unknown-call", `RESOURCE_EXHAUSTED`, ""},
	"ends-stream": {"stream", `one call is enough`, ""}, "no-answer": {"stream", `one call is enough`, ""}, "twice": {"stream", `answered the id \d+ twice`, ""},
	"unasked": {"stream", `which nobody asked`, ""}, "health-silent": {"health", `gave 1 answers`, ""}, "grandchild-crash": {"answers", `call 3 is one too many`, ""},

	"wrong-id": {"answers", `carries the id`, ""}, "zero-id": {"answers", `carries the id 0`, ""}, "unknown-effect": {"answers", `effect 77`, ""},
	"no-effect": {"answers", `effect 0`, ""}, "no-code": {"answers", `code ""`, ""}, "bad-code": {"answers", `"fine by me`, ""},
	"long-reason": {"answers", `reason has 1048576 bytes`, ""}, "long-rule": {"answers", `rule_id has 300 bytes`, ""},
	"error-permit": {"unknown-call", `but it failed`, ""}, "bad-approvals": {"answers", `urgent`, ""},
	"scan-kind": {"texts", `kind "OTHER"`, ""}, "scan-span": {"texts", `does not lie`, ""}, "scan-wrap": {"texts", `does not lie`, ""},
	"scan-severity": {"texts", `severity 77`, ""}, "scan-action": {"texts", `action 77`, ""}, "scan-confidence": {"texts", `confidence 7`, ""},
	"scan-many": {"texts", `1000 findings`, ""},

	"noise-after": {"stdout", `more than the handshake: "a line of chatter`, ""}, "noise-stderr": {"stdout", `bytes to standard error`, ""},
	"noise-line": {"stdout", `bytes to standard error`, ""}, "ignore-term": {"drain", `still runs 2s after SIGTERM`, ""}, "grandchild": {"leftovers", `sleep|holds its standard output`, ""},

	"validate-effect": {"validate-only", `after nothing but validate_only`, ""}, "validate-anything": {"settings-refused", `took a list`, ""},
	"bad-example": {"schema", `nota`, ""}, "permit-unknown": {"unknown-call", `PERMIT FAKE_WRONG`, ""}, "permit-malformed": {"malformed", `PERMIT FAKE_WRONG`, ""},
	"serial": {"stream", `DEADLINE_EXCEEDED`, "100ms"}, "no-drain": {"drain", `SIGTERM`, ""},

	"acks-beyond": {"batches", `and only those up to 1 were sent`, ""}, "acks-backwards": {"batches", `after record 4, record 1 was acknowledged`, ""},
	"acks-never": {"batches", unacknowledged, ""}, "acks-nothing-new": {"batches", unacknowledged, ""}, "unread": {"batches", unacknowledged, ""},
	"refuses-record": {"batches", `record 1 could not be taken in`, ""}, "crash-record": {"batches", `record 1 is poison`, ""},
	"crash-batch": {"batches", `batch 3 is the last`, ""}, "ends-consume": {"batches", `one call is enough`, ""},
}

// fakeAllowed are a subscriber's modes that keep the rules: acknowledgements are cumulative, so that one more changes
// nothing, and may take their time.
var fakeAllowed = []string{"acks-flood", "acks-slowly", "acks-each"}

// soon are the modes that a run waits for in vain: it need not be long.
func soon(f fakeFault, name string, o *Options) {
	switch {
	case f.why == noLine:
		o.start = time.Second
	case f.why == inVain:
		o.most = 3 * time.Second
	case f.why == unacknowledged:
		o.ack = 3 * time.Second
	case name == "ignore-term":
		o.drain = 2 * time.Second
	}
}

// startsProcesses are the modes that could do nothing inside the confinement.
var startsProcesses = map[string]bool{"grandchild": true, "grandchild-crash": true, "fork-bomb": true}

// TestFakes runs the suite with each fake that the host is tried with: one that is good passes, and each of the others
// fails for what it does, with a sentence that says so. Most of its time is waiting, so that many run side by side.
func TestFakes(t *testing.T) {
	path, modes := theFake(t)
	for name := range fakeFaults {
		if modes[name] == "" {
			t.Errorf("there is no mode %s", name)
		}
	}
	places := make(chan struct{}, 6)
	var all sync.WaitGroup
	defer all.Wait()
	for i, name := range slices.Sorted(maps.Keys(modes)) {
		group := modes[name]
		f, bad := fakeFaults[name]
		if bad == (group == "good" || slices.Contains(fakeAllowed, name)) {
			t.Errorf("%s of group %s: want a fault of each that is neither good nor allowed, and of no other", name, group)
			continue
		}
		if !testkit.Every(i, 6) {
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			text := f.shows(path, name, bad, 0)
			if text != "" && f.why == inVain { // where others keep the machine busy, it may not have come to where it hangs
				text = f.shows(path, name, bad, 30*time.Second)
			}
			if text != "" {
				t.Errorf("%s: %s", name, text)
			}
		})
	}
}

// shows runs the suite with one mode, and says what is wrong with the report. most bounds one check; 0: the usual.
func (f fakeFault) shows(path, name string, bad bool, most time.Duration) string {
	o := Options{Path: path, Env: map[string]string{"FAKE_MODE": name}, CheckConfig: schemaCheck, Timeout: 5 * time.Second,
		Unconfined: startsProcesses[name]}
	if f.arg != "" {
		o.Env["FAKE_ARG"] = f.arg
	}
	if bad {
		o.Only = []string{f.check}
	}
	soon(f, name, &o)
	if most > 0 {
		o.most = most
	}
	rep, err := Run(context.Background(), o)
	if err != nil {
		return err.Error()
	}
	if !bad {
		if !rep.Pass {
			return rep.Reason + "\n" + lines(rep)
		}
		return ""
	}
	for _, got := range rep.Checks {
		if got.Name == f.check && got.Outcome == Fail && regexp.MustCompile(f.why).MatchString(got.Why) && !rep.Pass &&
			rep.Reason != "" {
			return ""
		}
	}
	return fmt.Sprintf("pass %t, want %s to fail with %q: %s\n%s", rep.Pass, f.check, f.why, rep.Reason, lines(rep))
}
