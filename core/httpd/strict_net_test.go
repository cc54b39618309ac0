package httpd

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crypto/tls"
)

// listenStrict serves s on a loopback port behind the guard until the test ends.
func listenStrict(t testing.TB, s *strictServer, lim StrictLimits, wrap func(net.Listener) net.Listener) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if wrap != nil {
		ln = wrap(ln)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(newStrictListener(ln, lim)) }()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return addr
}

func dial(t testing.TB, addr string) *net.TCPConn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil { // a hang fails the test instead of stopping it
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// TestStrictTorture sends the labelled malformed requests. The client never closes its side: a refusal must not wait
// for that.
func TestStrictTorture(t *testing.T) {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		t.Skip("YETT_DATA is not set: it names the directory with http_torture.jsonl.gz")
	}
	f, err := os.Open(filepath.Join(dir, "http_torture.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, refused := 0, 0
	for dec := json.NewDecoder(zr); dec.More(); rows++ {
		var row struct{ Text, Case, LLHTTP string }
		if err := dec.Decode(&row); err != nil {
			t.Fatal(err)
		}
		if row.LLHTTP == "reject" {
			refused++
		}
		tortureRow(t, row.Case, row.Text, row.LLHTTP)
		if line, rest, ok := strings.Cut(row.Text, "HTTP/1.1\r\n"); ok && !strings.Contains(rest, "Host: ") {
			// Many rows have no Host, which hides what they are about.
			tortureRow(t, row.Case+" (with a Host)", line+"HTTP/1.1\r\nHost: a\r\n"+rest, row.LLHTTP)
		}
	}
	if rows == 0 || refused == 0 {
		t.Fatal("no rows were read")
	}
	t.Logf("%d rows, %d to refuse", rows, refused)
}

// tortureRow sends text on a connection of its own, leaves it open, and checks how the server ends it.
func tortureRow(t *testing.T, name, text, verdict string) {
	lim := StrictLimits{HeaderRead: 200 * time.Millisecond, WholeRead: 200 * time.Millisecond,
		Idle: 200 * time.Millisecond}
	s := newStrictServer()
	c := dial(t, listenStrict(t, s, lim, nil))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("%s: not closed cleanly: %v", name, err)
	}
	method, _, _ := strings.Cut(text, " ")
	if len(s.ran()) == 0 {
		method = "GET" // a refusal has a body whatever was asked
	}
	statuses, last, err := answersTo(method, raw)
	if err != nil {
		t.Errorf("%s: %v in %q", name, err, raw)
	}
	good, end := 0, 0
	for _, st := range statuses {
		if end = st; st == 200 {
			good++
		}
		if st >= 500 {
			t.Errorf("%s: answered %v", name, statuses)
		}
	}
	if verdict == "reject" && (end != 400 || good != 0 || strings.HasPrefix(last, "fasthttp")) {
		t.Errorf("%s: answered %v %q", name, statuses, last)
	}
	if len(s.ran()) != good {
		t.Errorf("%s: ran %q, answered %v", name, s.ran(), statuses)
	}
	t.Logf("%-6s %v %s (%s)", verdict, statuses, name, last)
}

func TestStrictNetTimeouts(t *testing.T) {
	for _, tc := range []struct {
		name, send string
		lim        StrictLimits
		statuses   string
	}{
		{"idle", "", StrictLimits{Idle: 50 * time.Millisecond}, "[]"},
		{"idle after a request", get + "\r\n", StrictLimits{Idle: 50 * time.Millisecond}, "[200]"},
		{"head", "GET /", StrictLimits{HeaderRead: 50 * time.Millisecond}, "[408]"},
		{"body", post + "Content-Length: 5\r\n\r\n", StrictLimits{WholeRead: 50 * time.Millisecond}, "[408]"},
		{"long body", post + "Content-Length: 500000\r\n\r\nx", StrictLimits{WholeRead: 50 * time.Millisecond}, "[408]"},
		{"chunk", chnk + "5\r\nab", StrictLimits{WholeRead: 50 * time.Millisecond}, "[408]"},
		{"pipelined head", get + "\r\nGET /", StrictLimits{HeaderRead: 50 * time.Millisecond}, "[200 408]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStrictServer()
			c := dial(t, listenStrict(t, s, tc.lim, nil))
			if _, err := io.WriteString(c, tc.send); err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			if statuses, last, err := answers(raw); err != nil || fmt.Sprint(statuses) != tc.statuses {
				t.Fatalf("answered %v %q, %v", statuses, last, err)
			}
		})
	}
}

// TestStrictNetRefusalReachesSender: a client that is still sending a body far over the limit gets the whole answer,
// not a reset.
func TestStrictNetRefusalReachesSender(t *testing.T) {
	s := newStrictServer()
	c := dial(t, listenStrict(t, s, StrictLimits{BodyBytes: 1000}, nil))
	body := strings.Repeat("x", 200_000)
	if _, err := fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", post, len(body), body); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if statuses, last, err := answers(raw); err != nil || fmt.Sprint(statuses) != "[413]" ||
		!strings.Contains(last, "limit of 1000 bytes") {
		t.Fatalf("answered %v %q, %v", statuses, last, err)
	}
}

// TestStrictNetBodies sends bodies around the sizes of the buffers involved, by length and in chunks, over plain TCP
// and TLS, with many requests on a connection.
func TestStrictNetBodies(t *testing.T) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	for _, secure := range []bool{false, true} {
		s := newStrictServer()
		var wrap func(net.Listener) net.Listener
		base := "http://"
		if secure {
			base = "https://"
			wrap = func(ln net.Listener) net.Listener {
				return tls.NewListener(ln, &tls.Config{Certificates: cert.TLS.Certificates})
			}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
			Timeout: 30 * time.Second}
		base += listenStrict(t, s, StrictLimits{}, wrap) + "/"
		var want []string
		for _, n := range []int{0, 1, 700, 4095, 4096, 4097, 8192, 16383, 16384, 16385, 70_000, 1 << 20} {
			body := strings.Repeat("b", n)
			// the second is chunked
			for _, r := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
				resp, err := client.Post(base, "text/plain", r)
				if err != nil {
					t.Fatalf("%d bytes: %v", n, err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					t.Fatalf("%d bytes: %d, %v", n, resp.StatusCode, err)
				}
				_ = resp.Body.Close()
				want = append(want, fmt.Sprintf("POST / %q", body))
			}
		}
		client.CloseIdleConnections()
		if got := s.ran(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("secure %v: the bodies are not those that were sent", secure)
		}
	}
}

// TestStrictNetPipeline: answers come in order, one for each of many requests that were sent at once.
func TestStrictNetPipeline(t *testing.T) {
	const n = 200
	s := newStrictServer()
	c := dial(t, listenStrict(t, s, StrictLimits{}, nil))
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n%03d", i, i)
	}
	if _, err := io.WriteString(c, in.String()); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	for range n {
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	for i, call := range s.ran() {
		if want := fmt.Sprintf("POST /%d \"%03d\"", i, i); call != want {
			t.Fatalf("call %d is %s", i, call)
		}
	}
	_ = c.Close()
}

// TestStrictNetLargestHead: a head at the limit passes a server whose read buffer is as large, one byte more is 413.
func TestStrictNetLargestHead(t *testing.T) {
	s := newStrictServer()
	c := dial(t, listenStrict(t, s, StrictLimits{}, nil))
	if _, err := io.WriteString(c, headOf(16<<10)+headOf(16<<10+1)); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if statuses, last, err := answers(raw); err != nil || fmt.Sprint(statuses) != "[200 413]" ||
		!strings.Contains(last, "headers") {
		t.Fatalf("answered %v %q, %v", statuses, last, err)
	}
}
