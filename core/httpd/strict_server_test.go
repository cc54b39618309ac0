package httpd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// scriptConn is a connection whose client said everything in advance, in pieces. After the last piece it ends, or times
// out.
type scriptConn struct {
	net.Conn // nil: nothing else may be called
	pieces   [][]byte
	end      error
	wrote    bytes.Buffer
	armed    int       // read deadlines set
	deadline time.Time // the last of them
}

func (c *scriptConn) Read(b []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, c.end
	}
	n := copy(b, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func (c *scriptConn) Write(b []byte) (int, error) { return c.wrote.Write(b) }
func (c *scriptConn) SetReadDeadline(t time.Time) error {
	c.armed, c.deadline = c.armed+1, t
	return nil
}

func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }
func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// strictServer counts what reaches the handler and answers as the real one does.
type strictServer struct {
	fasthttp.Server
	mu    sync.Mutex
	calls []string // "METHOD uri body"
}

func newStrictServer() *strictServer {
	s := &strictServer{}
	s.Handler = func(ctx *fasthttp.RequestCtx) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, fmt.Sprintf("%s %s %q", ctx.Method(), ctx.Request.Header.RequestURI(), ctx.Request.Body()))
		ctx.SetBodyString("ran")
	}
	s.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		status, text := 400, "fasthttp: "+err.Error()
		if se, ok := strictErrorOf(err); ok {
			status, text = se.Status, se.Code+" "+se.Reason
		}
		ctx.Error(text, status)
	}
	s.ReadBufferSize = 16 << 10
	s.MaxRequestBodySize = 4 << 20
	s.DisablePreParseMultipartForm = true
	s.NoDefaultDate = true
	s.Logger = log.New(io.Discard, "", 0)
	return s
}

func (s *strictServer) ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// answers splits what the server wrote: the statuses, the last body, and an error when an answer is incomplete.
func answers(raw []byte) (statuses []int, last string, err error) { return answersTo("GET", raw) }

func answersTo(method string, raw []byte) (statuses []int, last string, err error) {
	br := bufio.NewReader(bytes.NewReader(raw))
	for {
		if _, err := br.Peek(1); errors.Is(err, io.EOF) {
			return statuses, last, nil
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return statuses, last, fmt.Errorf("answer %d: %w", len(statuses), err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return statuses, last, fmt.Errorf("body of answer %d: %w", len(statuses), err)
		}
		statuses, last = append(statuses, resp.StatusCode), string(body)
	}
}

var testLimits = StrictLimits{HeaderBytes: testHeadMax, BodyBytes: testBodyMax}.withDefaults()

// play serves a connection whose client sends the pieces and then end.
func play(t testing.TB, s *strictServer, end error, pieces ...string) (*scriptConn, []int, string) {
	c := &scriptConn{end: end}
	for _, p := range pieces {
		if p != "" {
			c.pieces = append(c.pieces, []byte(p))
		}
	}
	_ = s.ServeConn(newStrictConn(c, testLimits)) // it returns the refusal, which the answer tells
	statuses, last, err := answers(c.wrote.Bytes())
	if err != nil {
		t.Fatalf("%v in %q", err, c.wrote.String())
	}
	return c, statuses, last
}

// TestStrictServerRefuses sends every refused case, cut at every boundary: always one complete answer of the right
// status as the last, nothing run that the parser did not let through.
func TestStrictServerRefuses(t *testing.T) {
	const evil = "\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, reduce := range []bool{false, true} {
		for _, tc := range strictRefused {
			t.Run(fmt.Sprintf("%s/%v", tc.name, reduce), func(t *testing.T) {
				in := tc.in + evil
				for i := 0; i <= len(in); i++ {
					s := newStrictServer()
					s.ReduceMemoryUsage = reduce
					_, statuses, last := play(t, s, io.EOF, in[:i], in[i:])
					wantRan := tc.after
					if strings.HasPrefix(tc.in, chnk) {
						wantRan = 0 // the head was fine, its body not
					}
					ran := s.ran()
					if len(ran) != wantRan || len(statuses) != wantRan+1 {
						t.Fatalf("cut at %d: ran %q, answered %v %q", i, ran, statuses, last)
					}
					reason := strings.TrimPrefix(tc.reason, "413 ")
					if !strings.Contains(last, reason) || strings.HasPrefix(last, "fasthttp") {
						t.Fatalf("cut at %d: answered %v %q", i, statuses, last)
					}
					want := 400
					if reason != tc.reason {
						want = 413
					}
					if statuses[len(statuses)-1] != want {
						t.Fatalf("cut at %d: answered %v, want %d", i, statuses, want)
					}
				}
			})
		}
	}
}

func TestStrictServerAccepts(t *testing.T) {
	for _, tc := range strictAccepted {
		t.Run(tc.name, func(t *testing.T) {
			for i := 0; i <= len(tc.in); i++ {
				s := newStrictServer()
				_, statuses, last := play(t, s, io.EOF, tc.in[:i], tc.in[i:])
				ran := s.ran()
				if len(ran) != len(tc.bodies) {
					t.Fatalf("cut at %d: ran %q, answered %v %q", i, ran, statuses, last)
				}
				for k, body := range tc.bodies {
					if !strings.HasSuffix(ran[k], fmt.Sprintf(" %q", body)) {
						t.Fatalf("cut at %d: ran %q, want bodies %q", i, ran, tc.bodies)
					}
				}
			}
		})
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestStrictServerEnds(t *testing.T) {
	ok := get + "\r\n"
	reset := errors.New("connection reset")
	for _, tc := range []struct {
		name     string
		in       string
		end      error
		statuses string
		last     string
	}{
		{"nothing then EOF", "", io.EOF, "[]", ""},
		{"nothing then timeout", "", timeoutError{}, "[]", ""},
		{"idle EOF", ok, io.EOF, "[200]", "ran"},
		{"idle timeout", ok, timeoutError{}, "[200]", "ran"},
		{"idle reset", ok, reset, "[200]", "ran"},
		{"a lone CRLF is no request", ok + "\r\n", io.EOF, "[200]", "ran"},
		{"head timeout", "G", timeoutError{}, "[408]", "timeout headers: not read within the limit of 5s"},
		{"second head timeout", ok + "GET /", timeoutError{}, "[200 408]", "timeout headers: not read within the limit of 5s"},
		{"body timeout", post + "Content-Length: 9\r\n\r\nabc", timeoutError{}, "[408]", "timeout request: not read within the limit of 10s"},
		{"no body timeout", post + "Content-Length: 9\r\n\r\n", timeoutError{}, "[408]", "timeout request: not read within the limit of 10s"},
		{"chunk timeout", chnk, timeoutError{}, "[408]", "timeout request: not read within the limit of 10s"},
		{"head EOF", "G", io.EOF, "[400]", "bad_request the connection ended within the request"},
		{"second head EOF", ok + "GET / HTTP/1.1\r\n", io.EOF, "[200 400]", "bad_request the connection ended within the request"},
		{"body EOF", post + "Content-Length: 9\r\n\r\nabc", io.EOF, "[400]", "bad_request the connection ended within the request"},
		{"body reset", post + "Content-Length: 9\r\n\r\nabc", reset, "[400]", "bad_request the connection ended within the request"},
		{"chunk size EOF", chnk + "5", io.EOF, "[400]", "bad_request the connection ended within the request"},
		{"chunk data EOF", chnk + "5\r\nab", io.EOF, "[400]", "bad_request the connection ended within the request"},
		{"chunk end EOF", chnk + "1\r\na", io.EOF, "[400]", "bad_request the connection ended within the request"},
		{"last chunk EOF", chnk + "1\r\na\r\n0\r\n", io.EOF, "[400]", "bad_request the connection ended within the request"},
		{"trailer EOF", chnk + "0\r\nA: b\r\n", io.EOF, "[400]", "bad_request the connection ended within the request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, reduce := range []bool{false, true} {
				s := newStrictServer()
				s.ReduceMemoryUsage = reduce
				_, statuses, last := play(t, s, tc.end, tc.in)
				if fmt.Sprint(statuses) != tc.statuses || last != tc.last {
					t.Fatalf("reduce %v: answered %v %q, want %s %q", reduce, statuses, last, tc.statuses, tc.last)
				}
			}
		})
	}
}

// TestStrictServerLast: whatever says that a request is the last, nothing behind it runs; what is there already is
// refused with it.
func TestStrictServerLast(t *testing.T) {
	const evil = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
	heads := map[string]string{
		"close":            "POST /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n",
		"Close, in a list": "POST /last HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n",
		"close, undone":    "POST /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\nConnection: keep-alive\r\n",
		"1.0":              "POST /last HTTP/1.0\r\n",
	}
	bodies := map[string]string{
		"none":    "\r\n",
		"length":  "Content-Length: 2\r\n\r\nhi",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"empty":   "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	}
	for hn, h := range heads {
		for bn, b := range bodies {
			if hn == "1.0" && strings.HasPrefix(b, "Transfer") {
				continue
			}
			t.Run(hn+"/"+bn, func(t *testing.T) {
				for _, lines := range []string{"", "\r\n\r\n"} {
					s := newStrictServer()
					if _, st, last := play(t, s, io.EOF, h+b+lines+evil); fmt.Sprint(st) != "[400]" ||
						!strings.Contains(last, "bad_request bytes after a request that closes") || len(s.ran()) != 0 {
						t.Fatalf("together: answered %v %q, ran %q", st, last, s.ran())
					}
					s = newStrictServer()
					if _, st, _ := play(t, s, io.EOF, h+b+lines, evil); fmt.Sprint(st) != "[200]" || len(s.ran()) != 1 {
						t.Fatalf("apart: answered %v, ran %q", st, s.ran())
					}
				}
			})
		}
	}
	t.Run("the handler says so", func(t *testing.T) {
		s := newStrictServer()
		inner := s.Handler
		s.Handler = func(ctx *fasthttp.RequestCtx) {
			if g, ok := strictConnOf(ctx.Conn()); ok {
				g.closeAfterAnswer()
			}
			inner(ctx)
		}
		if _, st, _ := play(t, s, io.EOF, get+"\r\n"+evil); fmt.Sprint(st) != "[200]" || len(s.ran()) != 1 {
			t.Fatalf("answered %v, ran %q", st, s.ran())
		}
	})
}

// TestStrictServerEarlyAnswer: when an answer comes before the body was read, the rest of the body is never a request.
func TestStrictServerEarlyAnswer(t *testing.T) {
	const evil = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
	in := post + fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(evil)) + evil
	for i := range len(in) + 1 {
		s := newStrictServer()
		s.ContinueHandler = func(*fasthttp.RequestHeader) bool { return false }
		c, st, _ := play(t, s, io.EOF, in[:i], in[i:])
		if len(s.ran()) != 0 || (i >= len(in)-len(evil) && fmt.Sprint(st) != "[417]") {
			t.Fatalf("cut at %d: answered %v, ran %q, wrote %q", i, st, s.ran(), c.wrote.String())
		}
	}
}

// TestStrictConnWantsMore reads more of a request than there is, as a server would that reads its framing differently.
func TestStrictConnWantsMore(t *testing.T) {
	second := get + "\r\n"
	c := newStrictConn(&scriptConn{pieces: [][]byte{[]byte(post + "Content-Length: 2\r\n\r\nhi" + second)}, end: io.EOF},
		testLimits)
	var got []byte
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if se, ok := strictErrorOf(err); ok {
			if se.Status != 400 || !strings.HasSuffix(string(got), "\r\n\r\nhi") {
				t.Fatalf("%v after %q", se, got)
			}
			break
		}
		if err != nil || strings.Contains(string(got), second) {
			t.Fatalf("read %q, %v: the second request was handed on before the first was answered", got, err)
		}
	}
}

// TestStrictConnHeadApart: no Read returns bytes of a head and of a body, or of two requests.
func TestStrictConnHeadApart(t *testing.T) {
	head := post + "Content-Length: 2\r\n\r\n"
	c := newStrictConn(&scriptConn{pieces: [][]byte{[]byte(head + "hi" + head + "ho")}, end: io.EOF}, testLimits)
	b := make([]byte, 4096)
	for i, want := range []string{head, "hi", head, "ho"} {
		n, err := c.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("read %d: %q, %v, want %q", i, b[:n], err, want)
		}
		if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); i%2 == 1 && err != nil {
			t.Fatal(err)
		}
		c.over = false // the answers after the heads are the test's, not a server's
	}
}

// TestStrictConnDeadlines: a deadline is set once for each state that has to wait, not for each request or read.
func TestStrictConnDeadlines(t *testing.T) {
	one := get + "\r\n"
	body := post + "Content-Length: 3\r\n\r\n"
	for _, tc := range []struct {
		name   string
		pieces []string
		want   int
	}{
		{"whole requests: one idle deadline", []string{one, one, one, body + "abc", one}, 1},
		// idle, head, idle
		{"a head in four pieces", []string{one[:1], one[1:5], one[5:20], one[20:]}, 3},
		// idle, whole, idle
		{"a body in three pieces", []string{body, "a", "b", "c"}, 3},
		// idle, head, whole, idle
		{"a head in two, a body in two", []string{body[:9], body[9:], "a", "bc"}, 4},
		// idle, head, head, idle
		{"each of two pipelined heads has its own", []string{one[:9], one[9:] + one[:9], one[9:]}, 4},
		// idle, whole, whole, idle
		{"each of two pipelined bodies has its own", []string{body, "abc" + body + "a", "b", "c"}, 1 + 1 + 1 + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, statuses, last := play(t, newStrictServer(), io.EOF, tc.pieces...)
			for _, st := range statuses {
				if st != 200 {
					t.Fatalf("answered %v %q", statuses, last)
				}
			}
			if c.armed != tc.want {
				t.Fatalf("%d deadlines were set, want %d", c.armed, tc.want)
			}
		})
	}
}

// TestStrictConnClockStartsAnew: a request's time does not count from the one before it.
func TestStrictConnClockStartsAnew(t *testing.T) {
	one := get + "\r\n"
	sc := &scriptConn{pieces: [][]byte{[]byte(one[:9]), []byte(one[9:]), []byte(one[:9]), []byte(one[9:])}, end: io.EOF}
	c := newStrictConn(sc, testLimits)
	b := make([]byte, 4096)
	for range 2 {
		if n, err := c.Read(b); err != nil || string(b[:n]) != one {
			t.Fatalf("%q, %v", b[:n], err)
		}
		if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if sc.deadline.Before(c.start) || c.start.Year() == 1970 {
			t.Fatalf("deadline %s, start %s", sc.deadline, c.start)
		}
		c.start = time.Unix(1, 0) // as if that request had begun long ago
	}
}

func TestStrictServerContinue(t *testing.T) {
	s := newStrictServer()
	client, server := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(newStrictConn(server, testLimits)) }()
	br := bufio.NewReader(client)
	for _, framing := range []string{"Content-Length: 5\r\n\r\n|hello",
		"Transfer-Encoding: chunked\r\n\r\n|5\r\nhello\r\n0\r\n\r\n"} {
		head, body, _ := strings.Cut(framing, "|")
		if _, err := io.WriteString(client, post+"Expect: 100-continue\r\n"+head); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, len(continueLine))
		if _, err := io.ReadFull(br, line); err != nil || string(line) != continueLine {
			t.Fatalf("read %q, %v", line, err)
		}
		if _, err := io.WriteString(client, body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	if got := s.ran(); len(got) != 2 || got[0] != `POST / "hello"` || got[1] != got[0] {
		t.Fatalf("ran %q", got)
	}
}

// FuzzStrictServer: fasthttp runs what the parser lets through, with that body, and nothing else.
func FuzzStrictServer(f *testing.F) {
	for _, tc := range strictAccepted {
		f.Add([]byte(tc.in), uint16(7))
	}
	for _, tc := range strictRefused {
		f.Add([]byte(tc.in+"\r\n"+get+"\r\n"), uint16(20))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		want := feedStrict(in)
		i := int(cut) % (len(in) + 1)
		s := newStrictServer()
		_, statuses, last := play(t, s, io.EOF, string(in[:i]), string(in[i:]))
		complete := len(want.heads)
		if complete > 0 && want.bodyMissing {
			complete--
		}
		ran := s.ran()
		refused := strings.HasPrefix(last, "fasthttp: ") || strings.Contains(last, "bytes after a request that closes")
		if len(ran) > complete || len(ran) < complete && !refused {
			t.Fatalf("ran %q, the parser let %d through: %v; answered %v %q", ran, complete, want, statuses, last)
		}
		for k, call := range ran {
			if !strings.HasSuffix(call, fmt.Sprintf(" %q", want.bodies[k])) {
				t.Fatalf("request %d ran as %q, its body is %q", k, call, want.bodies[k])
			}
		}
		if want.reason != "" && (len(statuses) == 0 || statuses[len(statuses)-1] < 400) {
			t.Fatalf("refused with %q, answered %v", want.reason, statuses)
		}
	})
}
