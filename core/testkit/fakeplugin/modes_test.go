//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// expected says how each mode shows that it does what its name says.
var expected = map[string]func(t *testing.T, mode string){
	"good": func(t *testing.T, mode string) {
		r := up(t, mode, "")
		r.good()
		if a, err := r.check(patience, 0, "fake/permit/x"); err != nil || a.Error == "" {
			t.Errorf("a malformed request: %v %v", err, a)
		}
		if err := terminate(r.cmd); err != nil {
			t.Fatal(err)
		}
		r.ended()
	},
	"ttl": func(t *testing.T, mode string) {
		if a, err := up(t, mode, "5s").check(patience, 1, "fake/permit/x"); err != nil || a.TtlMs != 5000 {
			t.Errorf("%v %v", err, a)
		}
	},
	"intruder": func(t *testing.T, mode string) {
		r := up(t, mode, fmt.Sprintf(`{"Own": %q}`, t.TempDir()))
		r.good()
		if _, err := r.check(patience, 1, "intrude/now"); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return strings.Contains(r.stderr.String(), "intruder succeeded with [") })
	},
	"relentless": func(t *testing.T, mode string) {
		up(t, mode, "{}").good() // no more of it here, where nothing bounds it
	},
	"environment": func(t *testing.T, mode string) {
		r := up(t, mode, "", "TOKEN=x")
		r.good()
		if !strings.Contains(r.lines(), `"TOKEN=x"`) || !strings.Contains(r.lines(), `"limits"`) {
			t.Error(r.lines())
		}
	},
	"crash-start":       noStart(patience, "not today"),
	"crash-handshake":   noTalk(codes.Unavailable),
	"silent":            noStart(shortly, ""),
	"stop-start":        noStart(shortly, ""),
	"slow-handshake":    noStart(shortly, ""),
	"garbage-handshake": noStart(patience, ""),
	"half-handshake":    noStart(shortly, ""),
	"long-handshake":    noStart(shortly, ""),
	"noise-before":      noStart(patience, ""),
	"wrong-protocol":    noStart(patience, ""),
	"net-rpc":           noStart(patience, ""),
	"foreign-port":      noTalk(codes.Unavailable),
	"no-tls":            noTalk(codes.Unavailable),
	"foreign-socket":    noTalk(codes.Unavailable),
	"garbage-socket":    noTalk(codes.Unavailable),
	"garbage-tls":       noTalk(codes.Unavailable),
	"mute-socket":       mute,
	"hang-info":         noTalk(codes.DeadlineExceeded),

	"hang-configure":   configured(codes.DeadlineExceeded),
	"exit-configure":   configured(codes.Unavailable),
	"refuse-configure": configured(codes.OK),
	"error-configure":  configured(codes.InvalidArgument),
	"wrong-api": said(func(i *pluginv1.InfoResponse) bool {
		return len(i.ApiVersions) == 1 && i.ApiVersions[0] == 7
	}),
	"wrong-kind": said(func(i *pluginv1.InfoResponse) bool {
		return len(i.Kinds) == 1 && i.Kinds[0] == pluginv1.Kind_KIND_SCANNER
	}),
	"info-changes": said(func(i *pluginv1.InfoResponse) bool {
		return i.Version != "1.0.0" && strings.HasPrefix(i.Version, "1.0.")
	}),
	"no-kind":        said(func(i *pluginv1.InfoResponse) bool { return len(i.Kinds) == 0 }),
	"bad-name":       said(func(i *pluginv1.InfoResponse) bool { return strings.Contains(i.Name, "\n") }),
	"bad-version":    said(func(i *pluginv1.InfoResponse) bool { return strings.Contains(i.Version, "\x1b") }),
	"bad-schema":     said(func(i *pluginv1.InfoResponse) bool { return strings.Contains(i.ConfigSchema, "nonsense") }),
	"outside-schema": said(func(i *pluginv1.InfoResponse) bool { return strings.Contains(i.ConfigSchema, "file:") }),
	"bad-example":    said(func(i *pluginv1.InfoResponse) bool { return strings.Contains(i.ExampleConfig, "nota") }),
	"huge-info":      noTalk(codes.ResourceExhausted),
	"health-not-serving": func(t *testing.T, mode string) {
		if s := health(t, up(t, mode, ""), patience); s.GetStatus() != pluginv1.HealthResponse_STATUS_NOT_SERVING {
			t.Error(s)
		}
	},
	"health-never": func(t *testing.T, mode string) {
		if s := health(t, up(t, mode, ""), shortly); s != nil {
			t.Error(s)
		}
	},
	"health-silent": func(t *testing.T, mode string) {
		r := up(t, mode, "")
		if s := health(t, r, patience); s.GetStatus() != pluginv1.HealthResponse_STATUS_SERVING {
			t.Error(s)
		}
		if a, err := r.check(shortly, 1, "fake/permit/x"); err == nil {
			t.Error(a)
		}
	},

	"crash-nth":        firstGood(codes.Unavailable, patience),
	"panic-nth":        firstGood(codes.Unavailable, patience),
	"hang":             firstGood(codes.DeadlineExceeded, shortly),
	"stop-itself":      firstGood(codes.DeadlineExceeded, shortly),
	"grandchild-crash": firstGood(codes.Unavailable, patience),
	"late": func(t *testing.T, mode string) {
		r := up(t, mode, "1ms")
		req := request(1, "fake/deny/x")
		req.DeadlineUnixNano = time.Now().Add(shortly).UnixNano()
		if a, err := r.authorizer.Check(r.within(patience), req); err != nil ||
			a.Effect != pluginv1.CheckResponse_EFFECT_PERMIT || time.Now().UnixNano() < req.DeadlineUnixNano {
			t.Errorf("%v %v", err, a)
		}
	},
	"huge": firstBad(func(a *pluginv1.CheckResponse, err error) bool {
		return status.Code(err) == codes.ResourceExhausted
	}),
	"bad-first":      firstBadFor("yett:trial", func(a *pluginv1.CheckResponse, _ error) bool { return a.GetId() == 8 }),
	"wrong-id":       firstBad(func(a *pluginv1.CheckResponse, _ error) bool { return a.GetId() > 1 }),
	"zero-id":        firstBad(func(a *pluginv1.CheckResponse, err error) bool { return err == nil && a.Id == 0 }),
	"unknown-effect": firstBad(func(a *pluginv1.CheckResponse, _ error) bool { return a.GetEffect() == 77 }),
	"no-effect":      firstBad(func(a *pluginv1.CheckResponse, err error) bool { return err == nil && a.Effect == 0 }),
	"no-code":        firstBad(func(a *pluginv1.CheckResponse, _ error) bool { return wrongPermit(a) && a.Code == "" }),
	"bad-code": firstBad(func(a *pluginv1.CheckResponse, _ error) bool {
		return wrongPermit(a) && strings.Contains(a.Code, "\n")
	}),
	"long-reason": firstBad(func(a *pluginv1.CheckResponse, _ error) bool {
		return wrongPermit(a) && len(a.Reason) == 1<<20
	}),
	"long-rule": firstBad(func(a *pluginv1.CheckResponse, _ error) bool {
		return wrongPermit(a) && len(a.RuleId) == 300
	}),
	"error-permit":    firstBad(func(a *pluginv1.CheckResponse, _ error) bool { return wrongPermit(a) && a.Error != "" }),
	"bad-approvals":   firstBad(func(a *pluginv1.CheckResponse, _ error) bool { return a.GetApprovals() == 1<<32-1 }),
	"scan-kind":       badScan(func(a *pluginv1.ScanResponse) bool { return a.Findings[0].Kind == "OTHER" }),
	"scan-span":       badScan(func(a *pluginv1.ScanResponse) bool { return a.Findings[0].End == 5 }),
	"scan-wrap":       badScan(func(a *pluginv1.ScanResponse) bool { return a.Findings[0].Start > 4 }),
	"scan-severity":   badScan(func(a *pluginv1.ScanResponse) bool { return a.Findings[0].Severity == 77 }),
	"scan-action":     badScan(func(a *pluginv1.ScanResponse) bool { return a.Findings[0].Suggested == 77 }),
	"scan-confidence": badScan(func(a *pluginv1.ScanResponse) bool { return a.Findings[0].Confidence == 7 }),
	"scan-many":       badScan(func(a *pluginv1.ScanResponse) bool { return len(a.Findings) == 1000 }),
	"ends-stream":     streamed("DENY", "Aborted"),
	"no-answer":       streamed("error", "Aborted"),
	"twice":           streamed("DENY", "PERMIT"),
	"unasked":         streamed("DENY", "PERMIT of another", "PERMIT of another"),

	"memory-hog":  func(t *testing.T, mode string) { stays(t, up(t, mode, "2")) }, // what it does, a host with limits sees
	"file-hog":    func(t *testing.T, mode string) { stays(t, up(t, mode, "2")) },
	"fork-bomb":   func(t *testing.T, mode string) { stays(t, up(t, mode, "2")) },
	"ignore-term": deaf,
	"noise-after": func(t *testing.T, mode string) { up(t, mode, "").good() },
	"noise-stderr": func(t *testing.T, mode string) {
		r := up(t, mode, "")
		r.good()
		eventually(t, func() bool { return strings.Count(r.stderr.String(), "chatter") > 1000 })
	},
	"noise-line": func(t *testing.T, mode string) { up(t, mode, "").good() },
	"grandchild": func(t *testing.T, mode string) { up(t, mode, "").good() },

	"validate-effect": func(t *testing.T, mode string) { validated(t, mode, true, `{"note":1}`, true) },
	"validate-anything": func(t *testing.T, mode string) {
		validated(t, mode, false, `{"note":1}`, false)
	},
	"permit-unknown":   firstBadFor("fake/other", wrongPermitted),
	"permit-malformed": firstBadFor("", wrongPermitted),
	"serial":           func(t *testing.T, mode string) { up(t, mode, "1ms").good() },
	"no-drain": func(t *testing.T, mode string) {
		r := up(t, mode, "1h")
		done := make(chan error, 1)
		go func() {
			_, err := r.check(patience, 1, "fake/slow/x")
			done <- err
		}()
		if err := terminate(r.cmd); err != nil {
			t.Fatal(err)
		}
		if err := <-done; status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	},

	"acks-beyond":      acknowledged("12"),
	"acks-backwards":   acknowledged("2 1"),
	"acks-never":       acknowledged(""),
	"acks-nothing-new": acknowledged("0"),
	"acks-flood":       acknowledged(strings.TrimSpace(strings.Repeat("2 ", 10_000))),
	"acks-slowly":      acknowledged("2"),
	"acks-each":        acknowledged("1 2 2"),
	"refuses-record":   acknowledged("9!"),
	"crash-record":     acknowledged("Unavailable"),
	"crash-batch":      acknowledged("Unavailable"),
	"ends-consume":     acknowledged("2 Aborted"),
	"unread":           acknowledged(""),
}

// TestModes runs every mode once.
func TestModes(t *testing.T) {
	binary(t)
	names := map[string]bool{}
	for _, m := range modes() {
		names[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			show := expected[m.name]
			if show == nil || m.what == "" || m.group == "" {
				t.Fatal("nothing says what it does")
			}
			show(t, m.name)
		})
	}
	for name := range expected {
		if !names[name] {
			t.Errorf("there is no mode %s", name)
		}
	}
	if len(names) != len(modes()) {
		t.Error("a name twice")
	}
}

func TestUnknownMode(t *testing.T) {
	r := launch(t, "nonsense", "", patience)
	if r.err == nil {
		t.Fatal("it started")
	}
	// go-plugin reads stderr on a goroutine of its own, and does not wait for that
	eventually(t, func() bool { return strings.Contains(r.stderr.String(), `no mode "nonsense"`) })
}

func noStart(wait time.Duration, stderr string) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		r := launch(t, mode, "", wait)
		if r.err == nil {
			t.Fatal("it started")
		}
		t.Log(r.err)
		if stderr != "" {
			eventually(t, func() bool { return strings.Contains(r.stderr.String(), stderr) })
		}
	}
}

// noTalk wants a handshake, and then no Info.
func noTalk(want ...codes.Code) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		r := launch(t, mode, "", patience)
		if r.err != nil {
			t.Log(r.err) // go-plugin looked already
			return
		}
		wait := patience
		if slices.Contains(want, codes.DeadlineExceeded) {
			wait = shortly
		}
		_, err := r.plugin.Info(r.within(wait), &pluginv1.InfoRequest{})
		for _, code := range want {
			if status.Code(err) == code {
				return
			}
		}
		t.Errorf("%v, want %v", err, want)
	}
}

// mute dials the socket of the handshake itself, since go-plugin waits twenty seconds for the answer that never comes.
func mute(t *testing.T, mode string) {
	cmd := exec.Command(binary(t))
	cmd.Env = []string{"FAKE_MODE=" + mode, "TMPDIR=" + t.TempDir()}
	ownGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killGroup(cmd)
		_ = cmd.Wait() // killed: the error says so
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	parts := strings.Split(line, "|")
	if err != nil || len(parts) != 6 {
		t.Fatalf("%v %q", err, line)
	}
	c, err := net.Dial(parts[2], parts[3])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(shortly)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(n, err)
	}
}

// configured wants an end of Configure; OK stands for problems.
func configured(want codes.Code) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		r, wait := launch(t, mode, "", patience), patience
		if r.err != nil {
			t.Fatal(r.err)
		}
		if want == codes.DeadlineExceeded {
			wait = shortly
		}
		if resp, err := r.configure(wait, false); status.Code(err) != want || want == codes.OK && len(resp.Problems) == 0 {
			t.Errorf("%v %v", err, resp)
		}
	}
}

func said(holds func(*pluginv1.InfoResponse) bool) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		if i, err := up(t, mode, "").plugin.Info(context.Background(), &pluginv1.InfoRequest{}); err != nil || !holds(i) {
			t.Errorf("%v %v", err, i)
		}
	}
}

func health(t *testing.T, r *run, wait time.Duration) *pluginv1.HealthResponse {
	t.Helper()
	stream, err := r.plugin.Health(r.within(wait), &pluginv1.HealthRequest{IntervalMs: 50})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := stream.Recv() // nil is the answer to whoever waited in vain
	return s
}

// firstGood wants one right answer, and from the second on this error.
func firstGood(want codes.Code, wait time.Duration) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		r := up(t, mode, "2")
		if a, err := r.check(patience, 1, "fake/deny/x"); err != nil || a.Effect != pluginv1.CheckResponse_EFFECT_DENY {
			t.Fatalf("%v %v", err, a)
		}
		if a, err := r.check(wait, 2, "fake/deny/x"); status.Code(err) != want {
			t.Errorf("%v %v", err, a)
		}
	}
}

// stays wants a right answer to the first call; the second is harmful without limits.
func stays(t *testing.T, r *run) {
	t.Helper()
	if a, err := r.check(patience, 1, "fake/deny/x"); err != nil || a.Effect != pluginv1.CheckResponse_EFFECT_DENY {
		t.Errorf("%v %v", err, a)
	}
}

func wrongPermit(a *pluginv1.CheckResponse) bool {
	return a.GetEffect() == pluginv1.CheckResponse_EFFECT_PERMIT && a.GetId() == 1
}

func wrongPermitted(a *pluginv1.CheckResponse, _ error) bool { return wrongPermit(a) }

func firstBad(holds func(a *pluginv1.CheckResponse, err error) bool) func(t *testing.T, mode string) {
	return firstBadFor("fake/deny/x", holds)
}

func firstBadFor(tool string, holds func(a *pluginv1.CheckResponse, err error) bool) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		r := up(t, mode, "")
		if a, err := r.check(patience, 1, tool); !holds(a, err) {
			t.Errorf("%v %v", err, a)
		}
	}
}

func badScan(holds func(a *pluginv1.ScanResponse) bool) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		if a, err := up(t, mode, "").scan(patience, "text"); err != nil || !holds(a) {
			t.Errorf("%v %v", err, a)
		}
	}
}

// streamed wants these answers to one request of a stream.
func streamed(want ...string) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		r := up(t, mode, "")
		stream, err := r.authorizer.CheckStream(r.within(patience))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(request(1, "fake/deny/x")); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			got := ""
			switch a, err := stream.Recv(); {
			case err != nil:
				got = status.Code(err).String()
			case a.Error != "":
				got = "error"
			default:
				got = strings.TrimPrefix(a.Effect.String(), "EFFECT_")
				if a.Id != 1 {
					got += " of another"
				}
			}
			if got != w {
				t.Errorf("answer %d: %s, want %s", i, got, w)
			}
		}
	}
}

// validated says what validate_only finds and whether checks work after it.
func validated(t *testing.T, mode string, problem bool, config string, after bool) {
	t.Helper()
	r := launch(t, mode, "", patience)
	if r.err != nil {
		t.Fatal(r.err)
	}
	resp, err := r.plugin.Configure(r.within(patience),
		&pluginv1.ConfigureRequest{Config: []byte(config), ValidateOnly: true})
	if err != nil || (len(resp.Problems) > 0) != problem {
		t.Fatalf("%v %v", err, resp)
	}
	if a, err := r.check(patience, 1, "fake/permit/x"); err != nil || (a.Error == "") != after {
		t.Errorf("%v %v", err, a)
	}
}

func deaf(t *testing.T, mode string) {
	r := up(t, mode, "")
	if err := terminate(r.cmd); err != nil {
		t.Fatal(err)
	}
	r.good() // still there
}

// acknowledged wants these answers to a batch of two records: numbers, "!" behind one with an error, and the code of
// the end.
func acknowledged(want string) func(t *testing.T, mode string) {
	return func(t *testing.T, mode string) {
		arg := map[string]string{"acks-beyond": "10", "acks-slowly": "1ms", "crash-batch": "1", "crash-record": "2",
			"refuses-record": "10"}[mode]
		r := up(t, mode, arg)
		wait := patience
		if mode == "unread" { // all others end the stream, since we do
			wait = shortly
		}
		stream, err := r.subscriber.Consume(r.within(wait))
		if err != nil {
			t.Fatal(err)
		}
		first := uint64(1)
		if mode == "refuses-record" {
			first = 9
		}
		b := &pluginv1.Batch{StoreId: "s", FirstSeq: first, LastSeq: first + 1, TreeRoot: make([]byte, 32)}
		for seq := first; seq <= first+1; seq++ {
			b.Records = append(b.Records, &pluginv1.Record{Seq: seq, Json: fmt.Appendf(nil, `{"seq":%d}`, seq),
				LeafHash: make([]byte, 32)})
		}
		if err := stream.Send(b); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			a, err := stream.Recv()
			if err != nil {
				if code := status.Code(err); code == codes.Unavailable || code == codes.Aborted {
					got = append(got, code.String())
				}
				break
			}
			line := strconv.FormatUint(a.Seq, 10)
			if a.Error != "" {
				line += "!"
			}
			got = append(got, line)
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%.200q, want %.200q", g, want)
		}
		r.wrote(b)
	}
}

// wrote checks what the fake wrote down of a batch.
func (r *run) wrote(b *pluginv1.Batch) {
	r.t.Helper()
	n := 0
	for _, line := range strings.Split(r.lines(), "\n") {
		var l struct{ Batch *took }
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			r.t.Error(err)
		}
		if l.Batch == nil {
			continue
		}
		for _, x := range l.Batch.Records {
			if string(x.JSON) != fmt.Sprintf(`{"seq":%d}`, x.Seq) || len(x.Leaf) != 64 {
				r.t.Errorf("%+v", x)
			}
			n++
		}
	}
	mode := r.cmd.Env[0]
	want := map[string]int{"FAKE_MODE=unread": 0, "FAKE_MODE=crash-record": 0, "FAKE_MODE=refuses-record": 1}
	if w, ok := want[mode]; ok && n != w || !ok && n != len(b.Records) {
		r.t.Errorf("%d records written down", n)
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	end, tick := time.NewTimer(patience), time.NewTicker(5*time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatal("it does not come")
		}
	}
}

// TestSecrets configures a good fake with a secret: it has it, and wrote down where it was.
func TestSecrets(t *testing.T) {
	r := launch(t, "good", "", patience)
	if r.err != nil {
		t.Fatal(r.err)
	}
	path := t.TempDir() + "/token"
	if err := os.WriteFile(path, []byte("the value"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := &pluginv1.ConfigureRequest{Config: []byte(`{}`), Secrets: map[string]string{"token": path}}
	if resp, err := r.plugin.Configure(r.within(patience), req); err != nil || len(resp.Problems) > 0 {
		t.Fatalf("%v %v", err, resp)
	}
	if !strings.Contains(r.lines(), "the value") {
		t.Error(r.lines())
	}
}
