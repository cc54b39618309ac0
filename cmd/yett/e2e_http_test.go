package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
)

// TestHTTPTorture sends malformed requests, each with a good one behind it: what llhttp refuses is 400 and the end of
// the connection, and the one behind it leaves no record.
func TestHTTPTorture(t *testing.T) {
	t.Parallel()
	e2e.Binary(t)
	type row struct {
		Text, Case, LLHTTP string
	}
	rows := dataRows[row](t, "http_torture.jsonl.gz")
	s := startDev(t, []string{"YETT__LIMITS__HEADER_READ=1s", "YETT__LIMITS__WHOLE_READ=1s", "YETT__LIMITS__IDLE=1s"})
	for _, r := range rows {
		if line, rest, ok := strings.Cut(r.Text, "HTTP/1.1\r\n"); ok && !strings.Contains(rest, "Host: ") {
			// Many rows have no Host, which hides what they are about.
			rows = append(rows, row{line + "HTTP/1.1\r\nHost: a\r\n" + rest, r.Case + " (with a Host)", r.LLHTTP})
		}
	}
	behind := func(i int) string {
		return rawPost("/v1/authorize", s.Keys.Agent, fmt.Sprintf(`{"agent_id":"behind-%d.","tool_id":"read"}`, i))
	}
	atOnce(40, len(rows), func(i int) {
		if err := torturedHTTP(s, rows[i].Text+behind(i), rows[i].LLHTTP == "reject"); err != nil {
			t.Errorf("%s (%s): %v: %q", rows[i].Case, rows[i].LLHTTP, err, rows[i].Text)
		}
	})
	control := s.dial()
	if _, err := io.WriteString(control, behind(1_000_000)+behind(1_000_001)); err != nil {
		t.Fatal(err)
	}
	if got, err := readAnswers(control, false); err != nil || len(got) != 2 {
		t.Errorf("two good requests: %v %v", got, err)
	}
	log := s.exported()
	refused, ran := 0, 0
	for i, r := range rows {
		there := strings.Contains(log, fmt.Sprintf(`"behind-%d."`, i))
		if r.LLHTTP == "reject" {
			refused++
			if there {
				t.Errorf("%s: what came behind it ran: %q", r.Case, r.Text)
			}
		} else if there {
			ran++
		}
	}
	if !strings.Contains(log, "behind-1000001.") || ran == 0 {
		t.Error("no good request ran behind another one, so their absence shows nothing")
	}
	t.Logf("%d requests, %d to refuse; behind %d of the others the next one ran", len(rows), refused, ran)
}

// torturedHTTP sends one text and leaves the connection open; the server has to end it.
func torturedHTTP(s *server, sent string, reject bool) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(deadline()); err != nil {
		return err
	}
	if _, err := io.WriteString(c, sent); err != nil {
		return err
	}
	got, err := readAnswers(c, strings.HasPrefix(sent, "HEAD "))
	if err != nil {
		return fmt.Errorf("not closed cleanly: %w", err)
	}
	for _, a := range got {
		if a.status >= 500 {
			return fmt.Errorf("status %d: %s", a.status, a.body)
		}
	}
	if reject && (len(got) == 0 || got[len(got)-1].status != 400 ||
		!strings.Contains(got[len(got)-1].body, `"code":"bad_request"`)) {
		return fmt.Errorf("%d answers, the last of them not 400 bad_request: %v", len(got), got)
	}
	return nil
}

// TestSmuggling sends what two servers in a row may read differently, written for this gateway's own paths.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	auth := "Authorization: Bearer " + s.Keys.Agent + "\r\n"
	hidden := rawPost("/v1/authorize", s.Keys.Agent, `{"agent_id":"smuggled","tool_id":"read"}`)
	n := fmt.Sprint(len(hidden))
	for name, head := range map[string]string{
		"length and chunked":        auth + "Content-Length: " + n + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunked and length":        auth + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"two lengths":               auth + "Content-Length: 0\r\nContent-Length: " + n + "\r\n\r\n",
		"two equal lengths":         auth + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"a list of lengths":         auth + "Content-Length: 0, 0\r\n\r\n",
		"signed length":             auth + "Content-Length: +0\r\n\r\n",
		"hexadecimal length":        auth + "Content-Length: 0x0\r\n\r\n",
		"chunked twice":             auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"another coding":            auth + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"identity":                  auth + "Transfer-Encoding: identity\r\n\r\n",
		"space before the colon":    auth + "Content-Length : 0\r\n\r\n",
		"bare LF":                   auth + "Content-Length: 0\n\r\n",
		"folded line":               auth + "X: a\r\n Content-Length: 0\r\n\r\n",
		"two Authorization headers": auth + auth + "Content-Length: 0\r\n\r\n",
		"two hosts":                 auth + "Host: b\r\nContent-Length: 0\r\n\r\n",
		"NUL in a value":            auth + "X: a\x00b\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := torturedHTTP(s, "POST /v1/authorize HTTP/1.1\r\nHost: a\r\n"+head+hidden, true); err != nil {
				t.Error(err)
			}
		})
	}
	if strings.Contains(s.exported(), "smuggled") {
		t.Error("a hidden request ran")
	}
}
