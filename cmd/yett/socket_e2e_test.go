package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// socketConn is one connection to a server's socket.
type socketConn struct {
	t testing.TB
	*net.UnixConn
	r *bufio.Reader
}

// socketOf is the path of the socket that a server printed.
func socketOf(t testing.TB, s *server) string {
	t.Helper()
	var at struct{ Socket string }
	if err := json.Unmarshal([]byte(s.line), &at); err != nil || at.Socket == "" {
		t.Fatalf("the line names no socket: %v: %s", err, s.line)
	}
	return at.Socket
}

func dialSocket(t testing.TB, path string) *socketConn {
	t.Helper()
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c := &socketConn{t, nc.(*net.UnixConn), bufio.NewReader(nc)}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// line reads one line as an object.
func (c *socketConn) line() map[string]any {
	c.t.Helper()
	text, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("read: %v after %q", err, text)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		c.t.Fatalf("%v: %q", err, text)
	}
	return v
}

func (c *socketConn) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a line and reads the answer.
func (c *socketConn) ask(line string) map[string]any {
	c.t.Helper()
	c.send(line)
	return c.line()
}

// auth gives a key for what follows.
func (c *socketConn) auth(key string) *socketConn {
	c.t.Helper()
	if got := c.ask(`{"type":"auth","api_key":"` + key + `"}`); got["ok"] != true {
		c.t.Fatalf("auth: %v", got)
	}
	return c
}

const (
	socketRead   = `"agent_id":"demo","tool_id":"files/read","args":{"path":"README.md"}`
	socketRefund = `"agent_id":"demo","tool_id":"payments/refund","args":{"order":"A-17","amount":120.50}`
)

// TestSocketAndHTTPDecideAlike takes one deferred call through both, and looks at what the log says of who asked how.
func TestSocketAndHTTPDecideAlike(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	agent, approver := dialSocket(t, socketOf(t, s)).auth(s.Keys.Agent),
		dialSocket(t, socketOf(t, s)).auth(s.Keys.Approver)
	if got, over := agent.ask(`{"type":"govern",`+socketRead+`}`),
		s.post(s.Keys.Agent, "/v1/authorize", `{`+socketRead+`}`); got["effect"] != "PERMIT" ||
		got["rule_id"] != over.json["rule_id"] || got["policy_version"] != over.json["policy_version"] {
		t.Errorf("%v, over HTTP %s", got, over.body)
	}
	asked := agent.ask(`{"id":1,` + socketRefund + `}`)
	token, _ := asked["defer_token"].(string)
	if asked["effect"] != "DEFER" || asked["id"] != 1.0 || token == "" {
		t.Fatalf("%v", asked)
	}
	if got := agent.ask(`{"type":"approve_defer","defer_token":"` + token + `","approved":true}`); got["code"] !=
		"missing_scope" {
		t.Errorf("the agent approves: %v", got)
	}
	if got := approver.ask(`{"jsonrpc":"2.0","id":"a","method":"approve_defer","params":{"defer_token":"` + token +
		`","approved":true,"approver_id":"somebody"}}`); fmt.Sprint(got["result"]) == "" || got["error"] != nil {
		t.Errorf("approve: %v", got)
	}
	if got := agent.ask(`{"type":"poll_defer","agent_id":"demo","defer_token":"` + token + `"}`); got["status"] !=
		"approved" {
		t.Errorf("poll: %v", got)
	}
	if got := s.post(s.Keys.Agent, "/v1/authorize", `{`+socketRefund+`,"defer_token":"`+token+`"}`); got.str("effect") !=
		"PERMIT" {
		t.Errorf("redeemed over HTTP: %s", got.body)
	}
	if got := agent.ask(`{` + socketRefund + `,"defer_token":"` + token + `"}`); got["effect"] == "PERMIT" {
		t.Errorf("redeemed twice: %v", got)
	}
	secret := sampleSecret()
	if got := agent.ask(`{"type":"scan_output","tool_id":"files/read","output":"token ` + secret + `"}`); got["outcome"] !=
		"REDACTED" || strings.Contains(fmt.Sprint(got), secret) {
		t.Errorf("scan: %v", got)
	}
	log := s.exported()
	for _, want := range []string{`"principal_method":"socket_auth","surface":"socket","peer":"uid:`,
		`"principal_method":"api_key","surface":"http"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	if strings.Contains(log, s.Keys.Agent) || strings.Contains(s.stderr.String(), s.Keys.Agent) {
		t.Error("a key's value is written somewhere")
	}
}

// TestSocketStreams: what any surface causes reaches the subscribers of the socket, in order.
func TestSocketStreams(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	audit := dialSocket(t, socketOf(t, s)).auth(s.Keys.Operator)
	first := audit.ask(`{"type":"audit_subscribe","agent_id":""}`)
	if first["subscribed"] != true || first["from_seq"] == nil {
		t.Fatalf("%v", first)
	}
	if got := dialSocket(t, socketOf(t, s)).auth(s.Keys.Agent).ask(`{"type":"audit_subscribe"}`); got["code"] !=
		"missing_scope" {
		t.Errorf("without the scope: %v", got)
	}
	agent := dialSocket(t, socketOf(t, s)).auth(s.Keys.Agent)
	for i := range 50 {
		if i%2 == 0 {
			agent.ask(`{` + socketRead + `}`)
		} else {
			s.post(s.Keys.Agent, "/v1/authorize", `{`+socketRead+`}`)
		}
	}
	last, decisions := 0.0, 0
	for decisions < 50 {
		record := audit.line()
		seq, _ := record["seq"].(float64)
		if seq <= last {
			t.Fatalf("seq %v behind %v", seq, last)
		}
		last = seq
		if record["type"] == "decision" && record["tool_id"] == "files/read" {
			decisions++
		}
	}
	s.stop()
	if line := audit.line(); line["type"] != "closing" && line["type"] != "gap" {
		t.Errorf("the last line of a draining server is %v", line)
	}
	if _, err := audit.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("no end: %v", err)
	}
}

// TestSocketRevoke revokes over the admin socket: an open connection is as good as none.
func TestSocketRevoke(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	var made struct{ ID, Key string }
	out := succeeds(t, "keys", "create", "short-lived", "--data", s.Data, "-o", "json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := dialSocket(t, socketOf(t, s)).auth(made.Key)
	if got := c.ask(`{` + socketRead + `}`); got["effect"] != "PERMIT" {
		t.Fatalf("%v", got)
	}
	succeeds(t, "keys", "revoke", made.ID, "--data", s.Data)
	if got := c.ask(`{` + socketRead + `}`); got["effect"] != "DENY" || got["code"] != "key_revoked" {
		t.Errorf("after the revoke: %v", got)
	}
}

// TestSocketFindsAPlace: a data directory whose path is too long for a socket gets its socket elsewhere, and the end
// takes it away. It served before there was a socket, and nobody asked for that path.
func TestSocketFindsAPlace(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startDev(t, nil, "--data", data)
	path := socketOf(t, s)
	if filepath.Dir(path) == data || len(path) > 107 {
		t.Errorf("the socket is %s", path)
	}
	if got := dialSocket(t, path).ask(`{` + socketRead + `}`); got["effect"] != "PERMIT" {
		t.Errorf("%v", got)
	}
	s.stop()
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

// TestSocketFile: the file a killed server leaves is replaced, one that is served is not, and the end takes it away.
func TestSocketFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	dir, err := os.MkdirTemp("", "yk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "run", "s")
	s := startDev(t, nil, "--data", data, "--socket", path)
	if got := socketOf(t, s); got != path {
		t.Errorf("the line says %s", got)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
	other := exec.Command(e2e.Binary(t), "dev", "-o", "json", "--listen", "127.0.0.1:0", "--socket", path)
	other.Env = append(os.Environ(), "XDG_CACHE_HOME="+e2e.Cache())
	if text, err := other.CombinedOutput(); err == nil || !bytes.Contains(text, []byte("another server listens there")) {
		t.Errorf("a second server on the same socket: %v\n%s", err, text)
	}
	dialSocket(t, path).auth(s.Keys.Agent) // the first one is still served
	s.kill()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("a killed server took its file away: %v", err)
	}
	s = startDev(t, nil, "--data", data, "--socket", path)
	dialSocket(t, path).auth(s.Keys.Agent)
	s.stop()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestSocketDrains: what runs when the server is told to stop is answered, and nothing after it is permitted.
func TestSocketDrains(t *testing.T) {
	s := startDev(t, nil)
	audit := dialSocket(t, socketOf(t, s)).auth(s.Keys.Operator)
	if got := audit.ask(`{"type":"audit_subscribe","agent_id":""}`); got["subscribed"] != true {
		t.Fatalf("%v", got)
	}
	agent := dialSocket(t, socketOf(t, s)).auth(s.Keys.Agent)
	asked := agent.ask(`{` + socketRefund + `}`)
	token, _ := asked["defer_token"].(string)
	agent.send(`{"type":"poll_defer","defer_token":"` + token + `","wait_seconds":60}`)
	agent.send(`{` + socketRead + `}`)
	agent.send(`{"type":"hello","protocol":[1]}`)
	// what is behind the poll is decided: so that one has begun
	for record := audit.line(); record["tool_id"] != "files/read"; {
		record = audit.line()
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := agent.line(); got["status"] != "pending" {
		t.Errorf("the long poll: %v", got)
	}
	if got := agent.line(); got["effect"] != "PERMIT" {
		t.Errorf("what was decided before: %v", got)
	}
	if got := agent.line(); got["code"] != "draining" && got["protocol"] != 1.0 {
		t.Errorf("hello: %v", got)
	}
	// It may be told, or find the connection closed: never a permit.
	if _, err := io.WriteString(agent, `{`+socketRead+"}\n"); err == nil {
		if text, err := agent.r.ReadString('\n'); err == nil && !strings.Contains(text, `"effect":"DENY"`) {
			t.Errorf("a draining server answers %s", text)
		}
	}
	if err := s.wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, s.stderr)
	}
}

// TestServeRefusesItsOwnUserAsPeer: under serve, programs of the server's own user could speak as the key.
func TestServeRefusesItsOwnUserAsPeer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), "rules:\n  - {id: reads, tools: [\"files/read\"], effect: permit}\n")
	write(t, filepath.Join(dir, "yett.yaml"), fmt.Sprintf("version: 1\nserver: {listen: \"127.0.0.1:0\", metrics: "+
		"off}\nconsole: {listen: \"127.0.0.1:0\"}\nsocket: {peers: [{uid: %d, key: agents}]}\nstorage: {path: "+
		"data}\nchains: {authorize: {steps: [{name: house, rules: [rules.yaml]}]}}\n", os.Geteuid()))
	cmd := exec.Command(e2e.Binary(t), "serve", "--config", filepath.Join(dir, "yett.yaml"))
	text, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(text, []byte("socket.peers: user")) {
		t.Errorf("serve ended with %v\n%s", err, text)
	}
}

// succeeds runs a command that must, and gives its standard output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	var out, msgs bytes.Buffer
	cmd := exec.Command(e2e.Binary(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &msgs
	if err := cmd.Run(); err != nil {
		t.Fatalf("yett %s: %v\n%s", strings.Join(args, " "), err, &msgs)
	}
	return out.String()
}
