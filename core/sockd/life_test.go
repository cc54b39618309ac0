package sockd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/config"
)

// until waits for something that another goroutine does.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// next takes what comes next from a channel.
func next[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("not reached")
	}
}

func TestAnswersComeInOrder(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	const n = 256
	var b strings.Builder
	for i := range n {
		op := "hold"
		if i%3 == 1 {
			op = "echo"
		}
		fmt.Fprintf(&b, `{"type":"%s","n":%d,"say":%d}`+"\n", op, i, i)
	}
	c.write(b.String())
	holds := r.holds(n - n/3)     // all of them at once
	for i := n - 1; i >= 0; i-- { // the oldest last
		if i%3 != 1 {
			close(holds[fmt.Sprint(i)].done)
		}
	}
	for i := range n {
		want := fmt.Sprintf(`{"held":%d}`, i)
		if i%3 == 1 {
			want = fmt.Sprintf(`{"said":%d}`, i)
		}
		if got := c.line(); got != want {
			t.Fatalf("answer %d is %s", i, got)
		}
	}
}

func TestPipelineIsBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Pipeline = 8 })
	c := r.as(r.key("agent", "authorize").Value)
	for i := range 20 {
		c.write(fmt.Sprintf(`{"type":"hold","n":%d}`+"\n", i))
	}
	holds := map[string]hold{}
	for i := range 20 {
		for holds[fmt.Sprint(i)].done == nil {
			h := next(t, r.held)
			holds[h.n] = h
		}
		if begun := r.begun.Load(); begun > int64(8+i) {
			t.Fatalf("%d were begun with %d answered", begun, i)
		}
		close(holds[fmt.Sprint(i)].done)
		if got := c.line(); got != fmt.Sprintf(`{"held":%d}`, i) {
			t.Fatal(got)
		}
	}
}

// TestPipelineDefault holds 256 and looks that the next one is not begun before one is answered.
func TestPipelineDefault(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	c.write(strings.Repeat(`{"type":"hold","n":1}`+"\n", 257))
	r.holds(256)
	r.as(r.key("another", "authorize").Value).ask(`{"type":"echo"}`) // others are not held up
	if n := r.begun.Load(); n != 256 {
		t.Errorf("%d run at once", n)
	}
}

func TestHalfClosedClientsGetTheirAnswers(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("agent", "authorize").Value
	c := r.as(key)
	c.write(`{"type":"hold","n":1}` + "\n" + `{"type":"echo","say":2}`) // the last line has no end
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(r.holds(1)["1"].done)
	if a, b := c.line(), c.line(); a != `{"held":1}` || b != `{"said":2}` {
		t.Errorf("%s %s", a, b)
	}
	c.end()
	c = r.as(key)
	c.write(`{"type":"govern","agent_id":"a`)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := c.line(); !strings.Contains(got, `"code":"invalid_json","effect":"DENY"`) {
		t.Error(got)
	}
	c.end()
}

// TestHangUp: a peer that is gone ends what only waits, and what changes something runs to its end.
func TestHangUp(t *testing.T) {
	for _, half := range []bool{false, true} {
		r := newRig(t, nil)
		c := r.as(r.key("agent", "authorize").Value)
		c.write(`{"type":"wait"}` + "\n" + `{"type":"hold","n":1}` + "\n")
		runs := r.holds(2)["1"]
		if half {
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		until(t, "the long poll ended", func() bool { return r.s.inFlight.Size() == 1 })
		close(runs.done)
		until(t, "the connection is gone", func() bool {
			r.s.mu.Lock()
			defer r.s.mu.Unlock()
			return len(r.s.conns) == 0
		})
	}
}

func TestLongLines(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.AuthorizeBody, set.Limits.ScanBody = 1<<10, 4<<10 })
	c := r.as(r.key("agent", "authorize", "scan").Value)
	limit := 4<<10 + lineSlack
	tooLong := `{"ok":false,"error":"the line is longer than the limit of 12288 bytes (limits.scan_body and what is around it)","code":"too_large","effect":"DENY","reason_code":"TOO_LARGE","result":{"effect":"DENY","reason_code":"TOO_LARGE","reason":"the line is longer than the limit of 12288 bytes (limits.scan_body and what is around it)"}}`
	echo := func(n int) string {
		line := `{"type":"echo","say":""}`
		return line[:len(line)-2] + strings.Repeat("x", n-len(line)) + line[len(line)-2:]
	}
	if got := c.ask(echo(4 << 10)); !strings.HasPrefix(got, `{"said":"xxx`) {
		t.Errorf("a body of the limit: %.200s", got)
	}
	want := `{"ok":false,"error":"the message is 4097 bytes long, more than the limit of 4096 (limits.scan_body)","code":"too_large"}`
	if got := c.ask(echo(4<<10 + 1)); got != want {
		t.Errorf("a body above it: %s", got)
	}
	if got := c.ask(strings.Repeat(" ", limit-4<<10) + echo(4<<10)); got[:5] != `{"sai` {
		t.Errorf("a line of the limit: %s", got)
	}
	if got := c.ask(strings.Repeat(" ", limit-4<<10+1) + echo(4<<10)); got != tooLong {
		t.Errorf("a line above it: %s", got)
	}
	if got := c.ask(`{"type":"govern","agent_id":"a","tool_id":"permit","args":{"x":"` + strings.Repeat("y", 1000) +
		`"}}`); !strings.Contains(got, "limits.authorize_body") || !strings.Contains(got, `"effect":"DENY"`) {
		t.Errorf("a govern above its own limit: %s", got)
	}
	if got := c.ask(`{"jsonrpc":"2.0","method":"govern","x":"` + strings.Repeat("x", 100<<10)); got !=
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the line is longer than the limit of 12288 bytes (limits.scan_body and what is around it)","data":{"code":"too_large","effect":"DENY","reason_code":"TOO_LARGE"}},"result":{"effect":"DENY","reason_code":"TOO_LARGE","reason":"the line is longer than the limit of 12288 bytes (limits.scan_body and what is around it)"}}` {
		t.Errorf("a far too long one: %s", got)
	}
	for range 100 { // 10 MiB, of which nothing is kept
		c.write(strings.Repeat("z", 100<<10))
	}
	c.write("\n" + `{"type":"echo","say":1}` + "\n" + strings.Repeat("x", limit+1) + "\n" + `{"type":"echo","say":2}` +
		"\n")
	for _, want := range []string{tooLong, `{"said":1}`, tooLong, `{"said":2}`} {
		if got := c.line(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestInFlightIsBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.InFlight = 2 })
	c := r.as(r.key("agent", "authorize").Value)
	c.write(`{"type":"hold","n":1}` + "\n" + `{"type":"hold","n":2}` + "\n" +
		`{"type":"govern","agent_id":"a","tool_id":"permit"}` + "\n")
	for _, h := range r.holds(2) {
		close(h.done)
	}
	c.line()
	c.line()
	if got := c.line(); got != `{"ok":false,"error":"more than 2 requests at once, the last quarter of which is for keys that have few (limits.in_flight)","code":"too_many_requests","effect":"DENY","reason_code":"TOO_MANY_REQUESTS"}` {
		t.Error(got)
	}
	c.ask(`{"type":"echo"}`)
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Idle = config.Duration(50 * time.Millisecond) })
	key := r.key("agent", "authorize").Value
	c := r.as(key)
	c.write(`{"type":"hold","n":1}` + "\n")
	runs := r.holds(1)["1"]
	idle := r.as(key)
	idle.end()
	c.write(`{"type":"echo","say":2}` + "\n") // what runs is no idleness
	close(runs.done)
	if a, b := c.line(), c.line(); a != `{"held":1}` || b != `{"said":2}` {
		t.Errorf("%s %s", a, b)
	}
	c.end()
}

func TestRecordingFails(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	r.gate.broken.Store(true)
	want := `"code":"audit_unavailable","effect":"DENY","reason_code":"AUDIT_UNAVAILABLE"`
	if got := c.ask(`{"type":"govern","agent_id":"a","tool_id":"permit"}`); got !=
		`{"ok":false,"error":"nothing can be recorded, so nothing is permitted",`+want+`}` {
		t.Error(got)
	}
	if got := c.ask(`{"jsonrpc":"2.0","id":1,"method":"govern","params":{"agent_id":"a","tool_id":"permit"}}`); !strings.Contains(got, `"data":{`+want+`}`) || !strings.Contains(got, `"result":{"effect":"DENY","reason_code":"AUDIT_UNAVAILABLE"`) {
		t.Error(got)
	}
}

func TestRevokedKeysAreRefusedOnOpenSockets(t *testing.T) {
	r := newRig(t, nil)
	k := r.key("agent", "authorize")
	open, own := r.as(k.Value), r.dial()
	line := `{"type":"govern","agent_id":"a","tool_id":"permit","api_key":"` + k.Value + `"}`
	if got := own.ask(line); !strings.Contains(got, `"effect":"PERMIT"`) {
		t.Fatal(got)
	}
	if err := r.revoke(k.Key.ID); err != nil {
		t.Fatal(err)
	}
	if got := own.ask(line); !strings.Contains(got, `"code":"key_revoked","effect":"DENY"`) {
		t.Error(got)
	}
	if got := open.ask(`{"type":"govern","agent_id":"a","tool_id":"permit"}`); !strings.Contains(got,
		`"code":"key_revoked","effect":"DENY"`) {
		t.Error(got)
	}
}

// mapped lets this process's user be a peer.
func mapped(key string) func(*rig, *Settings) {
	return func(_ *rig, set *Settings) {
		set.OwnPeer, set.Peers = true, map[uint32]string{uint32(os.Geteuid()): key}
	}
}

func TestPeersStandForKeys(t *testing.T) {
	r := newRig(t, mapped("agents"))
	govern := `{"type":"govern","agent_id":"a","tool_id":"permit"}`
	c := r.dial()
	if got := c.ask(govern); !strings.Contains(got, `"code":"unauthenticated","effect":"DENY"`) {
		t.Errorf("a name that is no key: %s", got)
	}
	if !strings.Contains(r.logged.String(), `stands for the key "agents" (socket.peers), but there is no live key`) {
		t.Errorf("the log says %q", r.logged.String())
	}
	k, other := r.key("agents", "authorize"), r.key("other", "authorize")
	who := func(line, name, method string) {
		t.Helper()
		c := r.dial()
		if got := c.ask(line); !strings.Contains(got, `"key":"`+name+`","method":"`+method+`"`) {
			t.Errorf("%s gives %s", line, got)
		}
	}
	who(`{"type":"who"}`, "agents", "peer")
	who(`{"type":"who","api_key":"`+other.Value+`"}`, "other", "api_key")
	c = r.as(other.Value)
	if got := c.ask(`{"type":"who"}`); !strings.Contains(got, `"key":"other","method":"socket_auth"`) {
		t.Errorf("auth before the peer: %s", got)
	}
	if got := c.ask(`{"type":"auth","api_key":"wrong"}`); !strings.Contains(got, "unauthenticated") {
		t.Error(got)
	}
	if got := c.ask(`{"type":"who"}`); !strings.Contains(got, "unauthenticated") {
		t.Errorf("a failed auth is made up for by the peer: %s", got)
	}
	if got := r.dial().ask(`{"type":"who","api_key":"wrong"}`); !strings.Contains(got, "unauthenticated") {
		t.Errorf("a wrong key is made up for by the peer: %s", got)
	}

	// A roll is followed, also on an open connection; a revoked key stands for nobody.
	open := r.dial()
	open.ask(`{"type":"who"}`)
	rolled, err := r.svc.RollKey(context.Background(), k.Key.ID, 0, adminWho)
	if err != nil {
		t.Fatal(err)
	}
	who(`{"type":"who"}`, "agents", "peer")
	if got := r.dial().ask(`{"type":"who"}`); !strings.Contains(got, `"principal":"`+rolled.Key.ID+`"`) {
		t.Errorf("not the new key: %s", got)
	}
	until(t, "the open connection follows", func() bool {
		return strings.Contains(open.ask(`{"type":"who"}`), rolled.Key.ID)
	})
	if err := r.revoke(rolled.Key.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{open, r.dial()} {
		if got := c.ask(govern); !strings.Contains(got, `"code":"unauthenticated","effect":"DENY"`) {
			t.Errorf("a revoked key stands: %s", got)
		}
	}
}

func TestPeersByID(t *testing.T) {
	set := Settings{}
	r := newRig(t, func(r *rig, s *Settings) {
		mapped(r.key("agents", "authorize").Key.ID)(r, s)
		set = *s
	})
	if got := r.dial().ask(`{"type":"who"}`); !strings.Contains(got, `"method":"peer"`) {
		t.Error(got)
	}
	if len(set.Peers) != 1 {
		t.Error("no peer")
	}
}

// TestOwnUserIsNoPeer: under serve the server's own user is refused where it is listed, and never stands for a key.
func TestOwnUserIsNoPeer(t *testing.T) {
	own := uint32(os.Geteuid())
	path := filepath.Join(shortDir(t), "s")
	var refused *ConfigError
	if s, err := Listen(Settings{Path: path, Peers: map[uint32]string{own: "agents"}}); s != nil ||
		!errors.As(err, &refused) || refused.Key != "socket.peers" {
		t.Errorf("it is taken: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a socket was made")
	}
	r := newRig(t, nil)
	r.key("agents", "authorize")
	r.s.set.Peers = map[uint32]string{own: "agents"} // behind the back of the first defence
	if got := r.dial().ask(`{"type":"who"}`); !strings.Contains(got, "unauthenticated") {
		t.Errorf("it stands for a key: %s", got)
	}
}

func TestDrain(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("agent", "authorize").Value
	busy, idle, late := r.as(key), r.as(key), r.as(key)
	busy.write(`{"type":"hold","n":1}` + "\n" + `{"type":"wait"}` + "\n")
	runs := r.holds(2)["1"]
	late.write(`{"type":"govern",`) // a message that is on its way
	until(t, "it has come", func() bool {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		return len(r.s.conns) == 3
	})
	r.s.Drain()
	late.write(`"agent_id":"a","tool_id":"permit"}` + "\n")
	refusal := `{"ok":false,"error":"the server is going down; ask again in a second","code":"draining","effect":"DENY","reason_code":"DRAINING"}`
	if got := late.line(); got != refusal {
		t.Errorf("a message that was on its way: %s", got)
	}
	idle.end()
	late.end()
	if got := r.dial().ask(`{"api_key":"` + key + `","agent_id":"a","tool_id":"permit"}`); got != refusal {
		t.Errorf("a new connection: %s", got)
	}
	busy.write(`{"jsonrpc":"2.0","id":1,"method":"echo"}` + "\n")
	close(runs.done)
	for _, want := range []string{`{"held":1}`, `{"waited":"stopping"}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the server is going down; ask again in a second","data":{"code":"draining"}}}`} {
		if got := busy.line(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	busy.end()
}

func TestCloseAnswersWhatRuns(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	c.write(`{"type":"hold","n":1}` + "\n" + `{"type":"wait"}` + "\n")
	runs := r.holds(2)["1"]
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	until(t, "it drains", func() bool { return r.s.draining.Load() })
	c.write(`{"jsonrpc":"2.0","id":3,"method":"echo"}` + "\n")
	until(t, "nobody listens", func() bool {
		nc, err := net.Dial("unix", r.set.Path)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	close(runs.done)
	for _, want := range []string{`{"held":1}`, `{"waited":"stopping"}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"the server is going down; ask again in a second","data":{"code":"draining"}}}`} {
		if got := c.line(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.end()
	next(t, stopped)
}

func TestCloseCutsOffWhatDoesNotEnd(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	c.write(`{"type":"hold","n":1}` + "\n")
	runs := r.holds(1)["1"]
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	closed := make(chan error, 1)
	s := r.s
	go func() { closed <- s.Close(ctx) }()
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is still there: %v", err)
	}
	close(runs.done)
	if err := next(t, closed); err != nil {
		t.Error(err)
	}
	if err := next(t, r.served); err != nil {
		t.Error(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Errorf("a second close: %v", err)
	}
	r.s = nil
}

func TestListen(t *testing.T) {
	dir := shortDir(t)
	set := Settings{Path: filepath.Join(dir, "made", "s")}
	listen := func(change func(*Settings)) error {
		s := set
		change(&s)
		srv, err := Listen(s)
		if err == nil {
			err = srv.Close(context.Background())
		}
		return err
	}
	mode := func(path string) string {
		st, err := os.Stat(path)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%#o", st.Mode().Perm())
	}
	first, err := Listen(set)
	if err != nil {
		t.Fatal(err)
	}
	if f, d := mode(set.Path), mode(filepath.Dir(set.Path)); f != "0600" || d != "0700" {
		t.Errorf("file %s, directory %s", f, d)
	}
	if err := listen(func(*Settings) {}); err == nil || !strings.Contains(err.Error(), "another server listens there") {
		t.Errorf("a live socket: %v", err)
	}
	// A dead server's socket: nobody listens, the file is there.
	first.ln.Close()
	if mode(set.Path) != "0600" {
		t.Fatal("the file is gone already")
	}
	if err := listen(func(*Settings) {}); err != nil {
		t.Errorf("a dead socket: %v", err)
	}
	if err := first.Close(context.Background()); err == nil {
		t.Error("a listener that was closed twice says nothing")
	}
	if err := os.WriteFile(set.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := listen(func(*Settings) {}); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file: %v", err)
	}
	if err := listen(func(s *Settings) { s.Path = filepath.Join(dir, strings.Repeat("x", MaxPath-len(dir))) }); err ==
		nil || !strings.Contains(err.Error(), "108 bytes long; a socket's path has at most 107") {
		t.Errorf("a long path: %v", err)
	}
	if err := listen(func(s *Settings) { s.Path = filepath.Join(dir, strings.Repeat("x", MaxPath-len(dir)-1)) }); err !=
		nil {
		t.Errorf("the longest path: %v", err)
	}
	if err := listen(func(s *Settings) { s.Path, s.Group = filepath.Join(dir, "g"), "no-such-group" }); err == nil ||
		!strings.Contains(err.Error(), "socket.group") {
		t.Errorf("a group that is none: %v", err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := listen(func(s *Settings) { s.Path = filepath.Join(open, "s") }); err == nil ||
		!strings.Contains(err.Error(), "can be written by others") {
		t.Errorf("a directory that all may write: %v", err)
	}
}

func TestListenForAGroup(t *testing.T) {
	gid := fmt.Sprint(os.Getegid())
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	path := filepath.Join(shortDir(t), "a", "s")
	s, err := Listen(Settings{Path: path, Mode: 0o660, Group: gid})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	for name, want := range map[string]os.FileMode{path: 0o660, filepath.Dir(path): 0o710} {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want || fmt.Sprint(st.Sys().(*syscall.Stat_t).Gid) != gid {
			t.Errorf("%s has mode %v, want %v", name, st.Mode(), want)
		}
	}
}

// TestFileOfAnotherServerStays: a server whose file was taken away does not remove the one that is there now.
func TestFileOfAnotherServerStays(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	a, err := Listen(Settings{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b, err := Listen(Settings{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}
