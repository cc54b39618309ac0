//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCrowd says what calls of one key on many connections cost another key, where args are scanned before they
// are decided: how long its calls, its scans and a kill take, and how many are not permitted. The crowd's own sender
// takes one of two processors.
//
//	go test ./cmd/yett -run '^$' -bench Crowd -benchtime 1x
func BenchmarkCrowd(b *testing.B) {
	for _, c := range []struct{ sides, size int }{{4, 60 << 10}, {64, 60 << 10}, {400, 60 << 10}, {400, 2 << 10}} {
		b.Run(fmt.Sprintf("%d-of-%dKiB", c.sides, c.size>>10), func(b *testing.B) { crowd(b, c.sides, c.size) })
	}
}

func crowd(b *testing.B, sides, size int) {
	file := writeConfig(b, b.TempDir(), "", "", "")
	config, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	rewrite(b, file, strings.NewReplacer("    budget: 30s\n", "", "rules: [all.yaml]",
		"rules: [all.yaml], scan_args: true").Replace(string(config)))
	s := startDev(b, nil, "--config", file)
	_, many := s.madeKey("crowd", "--scopes", "authorize")
	_, killer := s.madeKey("killer", "--scopes", "kill")
	_, scanner := s.madeKey("scanner", "--scopes", "scan")
	body := text(map[string]any{"agent_id": "crowd", "tool_id": "files/read",
		"args": map[string]any{"t": strings.Repeat(`some text, "quoted" too. `, size/26)}})
	var calls, refused atomic.Int64
	ends := make([]func(), sides)
	for i := range ends {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReader(c)
		ends[i] = repeatedly(1, func() {
			answer, err := exchange(c, r, fmt.Sprintf("POST /v1/authorize HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
				"%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", many, len(body), body))
			if err != nil {
				b.Error(err)
				pause(time.Second)
			}
			if calls.Add(1); !strings.Contains(answer, `"PERMIT"`) {
				refused.Add(1)
			}
		})
	}
	pause(2 * time.Second)
	took := map[string][]time.Duration{}
	bad := 0
	timed := func(what string, ask func() (answer, error), want string) {
		at := time.Now()
		a, err := ask()
		took[what] = append(took[what], time.Since(at))
		if err != nil || a.status != 200 || !strings.Contains(string(a.body), want) {
			bad++
			b.Logf("%s: %v %s", what, err, a.body)
		}
	}
	output := text(map[string]any{"agent_id": "s", "tool_id": "files/read",
		"output": strings.Repeat("some words of an output. ", 350)})
	for end, n := time.Now().Add(15*time.Second), 0; time.Now().Before(end); n++ {
		timed("call", func() (answer, error) { return s.asked("files/read") }, `"PERMIT"`)
		timed("scan", func() (answer, error) { return s.send("POST", "/v1/scan_output", scanner, output) }, `"PASS"`)
		if n%10 == 0 {
			timed("kill", func() (answer, error) {
				return s.send("POST", "/v1/kill", killer, text(map[string]any{"agent_id": "agent-" + strconv.Itoa(n)}))
			}, `"active":true`)
		}
		pause(20 * time.Millisecond)
	}
	b.ReportMetric(float64(calls.Load()), "crowd-calls")
	for _, end := range ends {
		end()
	}
	if n := refused.Load(); n > 0 {
		b.Logf("%d calls of the crowd were not permitted", n)
	}
	for what, d := range took {
		b.ReportMetric(float64(quantile(d, 0.5).Microseconds()), what+"-p50-µs")
		b.ReportMetric(float64(quantile(d, 0.99).Microseconds()), what+"-p99-µs")
	}
	b.ReportMetric(float64(bad), "bad")
	b.ReportMetric(0, "ns/op")
}

// exchange sends one request and reads its answer's body.
func exchange(c net.Conn, r *bufio.Reader, request string) (string, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return "", err
	}
	length := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if v, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(v)); err != nil {
				return "", err
			}
		}
		if line == "\r\n" {
			break
		}
	}
	answer := make([]byte, length)
	_, err := io.ReadFull(r, answer)
	return string(answer), err
}
