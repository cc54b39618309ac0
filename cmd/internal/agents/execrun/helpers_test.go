package execrun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/wire"
)

// TestMain makes the test's binary a yett that has one command, for the processes that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		root := &cobra.Command{Use: "yett"}
		root.AddCommand(Command())
		os.Exit(cli.Run(context.Background(), root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; a hang fails the test instead of stopping it.
const patience = 60 * time.Second

// secret is what the fake gateway redacts.
const (
	secret   = "sec_" + "abcd1234"
	redacted = "[SECRET]"
)

var secrets = regexp.MustCompile(`sec_[a-z0-9]{8}`)

// stream is what the fake gateway knows of one scan stream.
type stream struct {
	text     string // all of it
	out      int    // how much of the text has been settled
	released int
	ended    bool
}

// fake is a gateway over TLS that scans streams. It settles a byte once it can belong to no secret.
type fake struct {
	*httptest.Server
	t       *testing.T
	dir     string
	file    string // the hook's file
	mu      sync.Mutex
	streams map[string]*stream
	asked   []wire.ScanRequest // without their texts
	instead func(n int, w http.ResponseWriter, r wire.ScanRequest) bool
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir(), streams: map[string]*stream{}}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(f.Close)
	sum := sha256.Sum256(f.Certificate().RawSubjectPublicKeyInfo)
	hf := &hookfile.File{Agent: "claude-code", URL: f.URL, Key: "key", AgentID: "me",
		Pins: []string{"sha256/" + base64.StdEncoding.EncodeToString(sum[:])}}
	raw, err := hf.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	f.file = filepath.Join(f.dir, "hook.json")
	if err := os.WriteFile(f.file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	var in wire.ScanRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/scan_output" || in.StreamID == "" {
		f.t.Errorf("asked %s %+v: %v", r.URL.Path, in, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.asked)
	row := in
	row.Output = ""
	f.asked = append(f.asked, row)
	if f.instead != nil && f.instead(n, w, in) {
		return
	}
	st := f.streams[in.StreamID]
	if st == nil {
		st = &stream{}
		f.streams[in.StreamID] = st
	}
	if in.Offset != len(st.text) || st.ended {
		f.t.Errorf("offset %d of a stream with %d bytes, ended %v", in.Offset, len(st.text), st.ended)
	}
	st.text += in.Output
	f.answer(w, st, in.Final)
}

// answer settles what can be settled, and says so.
func (f *fake) answer(w http.ResponseWriter, st *stream, final bool) {
	cut := max(st.out, len(st.text)-len(secret)+1)
	if final {
		cut = len(st.text)
	}
	for cut > st.out && cut < len(st.text) && !utf8.RuneStart(st.text[cut]) {
		cut--
	}
	from := max(0, st.out-1)
	for _, at := range secrets.FindAllStringIndex(st.text[from:], -1) {
		if a, b := at[0]+from, at[1]+from; a < cut && cut < b {
			cut = b
		}
	}
	text := secrets.ReplaceAllString(st.text[st.out:cut], redacted)
	outcome := "PASS"
	if text != st.text[st.out:cut] {
		outcome = "REDACTED"
	}
	st.out, st.released, st.ended = cut, st.released+len(text), final
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"outcome": outcome, "sanitized_output": text, "reason_code": "R",
		"findings": []any{}, "scanned_by": []any{}, "scan_id": "s", "policy_version": "p", "latency_ms": 0,
		"stream": wire.ScanStream{NextOffset: len(st.text), Settled: cut, Released: st.released, Ended: final}})
}

// requests are the requests so far.
func (f *fake) requests() []wire.ScanRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]wire.ScanRequest(nil), f.asked...)
}

// result is what a process has printed and how it has ended.
type result struct {
	out, err string
	code     int
}

// yett prepares `yett exec` with the fake's file.
func (f *fake) yett(args ...string) *exec.Cmd {
	f.t.Helper()
	me, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(me, append([]string{"exec", "--config", f.file}, args...)...)
	cmd.Dir = f.dir
	return cmd
}

// sh runs a script under `yett exec` in a child.
func (f *fake) sh(script string, flags ...string) result {
	f.t.Helper()
	return collect(f.t, f.yett(append(flags, "--", "sh", "-c", script)...))
}

// collect runs a process to its end.
func collect(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	cmd.WaitDelay = patience // for what holds the pipes without being waited for
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	run := cmd.Run()
	var exit *exec.ExitError
	if run != nil && !errors.As(run, &exit) {
		t.Fatalf("%v: %v", cmd.Args, run)
	}
	r := result{out.String(), err.String(), cmd.ProcessState.ExitCode()}
	if strings.Contains(r.out+r.err, secret) {
		t.Errorf("%q: the secret came out: %+v", cmd.Args, r)
	}
	return r
}

// want compares a result.
func (r result) want(t *testing.T, name, out, err string, code int) {
	t.Helper()
	if r.out != out || r.err != err || r.code != code {
		t.Errorf("%s: got %q, %q, exit %d; want %q, %q, exit %d", name, r.out, r.err, r.code, out, err, code)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer late.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Errorf("it does not come: %s", what)
			return
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// issue makes a ticket for a command.
func (f *fake) issue(command string) string {
	f.t.Helper()
	id, err := wrap.Issue(f.file, wrap.Ticket{Command: command, Shell: "sh", Tool: "Bash", AgentID: "me/sub",
		SessionID: "s"})
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// line is a wrapped command line.
func (f *fake) line(command, shell string) string {
	f.t.Helper()
	me, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	line, err := wrap.Wrap(command, shell, wrap.Line{Yett: me, Config: f.file, Ticket: f.issue(command)})
	if err != nil {
		f.t.Fatal(err)
	}
	return line
}

func denied(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"outcome":"DENIED","reason_code":%q,"findings":[],"scanned_by":[],"scan_id":"s",`+
		`"policy_version":"p","latency_ms":0,"stream":{"next_offset":0,"settled":0,"released":0,"ended":true}}`, code)
}
