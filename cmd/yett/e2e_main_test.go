package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/exact"
)

// TestMain makes room for the binary; it is built by the first test that needs it.
func TestMain(m *testing.M) {
	if code, is := traced(); is {
		os.Exit(code)
	}
	if is, err := host.Child(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if is {
		os.Exit(0)
	}
	os.Exit(e2e.Run(m))
}

// patience bounds every wait of these tests; a hang fails the test instead of stopping it.
const patience = 60 * time.Second

// server is one running `yett dev`.
type server struct {
	t      testing.TB
	cmd    *exec.Cmd
	client *http.Client
	stderr *syncBuffer
	rest   chan string // what came on stdout after the first line
	ended  bool

	line string // the first line of stdout
	URL  string
	Data string
	Keys devKeySet
}

// syncBuffer takes the child's messages while a test may read them.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// generous are settings under which a busy machine does not change a verdict.
var generous = []string{"YETT__CHAINS__AUTHORIZE__BUDGET=30s", "YETT__CHAINS__SCAN_OUTPUT__BUDGET=30s",
	"YETT__PLUGINS__SECRETS__LIMITS__TIMEOUT=30s"}

// generousDev is generous for the scanners that only the default configuration has.
var generousDev = []string{"YETT__PLUGINS__PII__LIMITS__TIMEOUT=30s", "YETT__PLUGINS__INJECTION__LIMITS__TIMEOUT=30s"}

// startDev runs `yett dev -o json` on a free port, with env on top of generous, and stops it when the test ends.
func startDev(t testing.TB, env []string, args ...string) *server {
	t.Helper()
	s := &server{t: t, stderr: &syncBuffer{}, rest: make(chan string, 1), client: newClient(t)}
	s.command(args...)
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = s.stderr
	s.start()
	return s
}

// command prepares `yett dev -o json` on a free port.
func (s *server) command(args ...string) {
	s.t.Helper()
	s.cmd = exec.Command(e2e.Binary(s.t), append([]string{"dev", "-o", "json", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+e2e.Cache()), generous...)
	if !slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(a, ".yaml") }) {
		s.cmd.Env = append(s.cmd.Env, generousDev...)
	}
}

// start runs the command that was prepared, and reads its first line.
func (s *server) start() {
	t := s.t
	t.Helper()
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop() })
	r := bufio.NewReader(stdout)
	if s.line, err = r.ReadString('\n'); err != nil {
		_ = s.cmd.Wait()
		s.ended = true
		t.Fatalf("yett dev did not come up: %v\n%s", err, s.stderr)
	}
	go func() {
		more, _ := io.ReadAll(r)
		s.rest <- string(more)
	}()
	if err := json.Unmarshal([]byte(s.line), s); err != nil {
		t.Fatalf("the line is not JSON: %v: %q", err, s.line)
	}
}

func newClient(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{Timeout: patience}).DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience + 30*time.Second}
}

// stop ends the server as its supervisor would and checks that it went well.
func (s *server) stop() {
	s.t.Helper()
	if s.ended {
		return
	}
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Error(err)
	}
	if err := s.wait(); err != nil {
		s.t.Errorf("yett dev ended with %v\n%s", err, s.stderr)
	}
}

// kill ends the server as a power cut would end it.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.wait() // killed: the error says so
}

// wait returns how the process ended, and kills one that does not end.
func (s *server) wait() error {
	s.t.Helper()
	s.ended = true
	timer := time.AfterFunc(patience, func() {
		s.t.Errorf("yett dev does not end\n%s", s.stderr)
		_ = s.cmd.Process.Kill()
	})
	defer timer.Stop()
	if more := <-s.rest; more != "" { // reads to the end before Wait closes the pipe
		s.t.Errorf("stdout has more than one line: %q", more)
	}
	return s.cmd.Wait()
}

// answer is one HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any // nil unless the body is an object
}

func (a answer) str(name string) string {
	s, _ := a.json[name].(string)
	return s
}

// send makes one request. headers are name, value pairs. Safe for use from many goroutines.
func (s *server) send(method, path, key, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(text)}
	_ = json.Unmarshal(text, &a.json) // what is no object is seen by wellFormed
	return a, nil
}

// post is send for tests that go on only when it works.
func (s *server) post(key, path, body string, headers ...string) answer {
	s.t.Helper()
	a, err := s.send("POST", path, key, body, headers...)
	if err == nil {
		err = a.wellFormed()
	}
	if err != nil {
		s.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

// wellFormed checks what holds for every answer of an operation: strict JSON, the right type, a request id, and a
// problem with all its members when it is none of 200.
func (a answer) wellFormed() error {
	var doc exact.Doc
	if err := doc.Parse(a.body, exact.Limits{Depth: 64, Tokens: 1 << 20}); err != nil {
		return fmt.Errorf("status %d: body: %w: %.200q", a.status, err, a.body)
	}
	if a.header.Get("X-Request-Id") == "" {
		return fmt.Errorf("status %d without X-Request-Id", a.status)
	}
	if a.str("effect") != "" && a.json["decision_id"] != nil || a.status == 200 {
		if ct := a.header.Get("Content-Type"); ct != "application/json" {
			return fmt.Errorf("status %d: content type %q", a.status, ct)
		}
		return nil
	}
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		return fmt.Errorf("status %d: content type %q", a.status, ct)
	}
	for _, name := range []string{"type", "title", "detail", "code", "error", "request_id"} {
		if a.str(name) == "" {
			return fmt.Errorf("status %d: the problem has no %s: %s", a.status, name, a.body)
		}
	}
	if a.str("code") != a.str("error") || a.str("request_id") != a.header.Get("X-Request-Id") {
		return fmt.Errorf("status %d: members differ: %s", a.status, a.body)
	}
	if n, ok := a.json["status"].(float64); ok && int(n) != a.status || !ok && a.str("status") != "unknown" {
		return fmt.Errorf("status %d: the problem's status is %v", a.status, a.json["status"])
	}
	return nil
}

// exported is the audit log of a running or stopped server as `yett audit export` writes it.
func (s *server) exported() string {
	s.t.Helper()
	var out, msgs bytes.Buffer
	cmd := exec.Command(e2e.Binary(s.t), "audit", "export", "--data", s.Data, "--out", "-")
	cmd.Stdout, cmd.Stderr = &out, &msgs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("audit export: %v\n%s", err, &msgs)
	}
	return out.String()
}

// dataFile is a file of the labelled sets.
func dataFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		t.Skip("YETT_DATA is not set: it names the directory with " + name)
	}
	return filepath.Join(dir, name)
}

// dataRows reads a labelled set of JSON lines.
func dataRows[T any](t testing.TB, name string) []T {
	t.Helper()
	f, err := os.Open(dataFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	for dec := json.NewDecoder(zr); dec.More(); {
		var row T
		if err := dec.Decode(&row); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}

// atOnce runs fn for 0 to n-1 on so many goroutines.
func atOnce(workers, n int, fn func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// text is v as JSON without the escapes that are for HTML only.
func text(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // tests hand in strings and maps
	}
	return strings.TrimSuffix(b.String(), "\n")
}
