//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit/intruder"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

const (
	besideRounds = 5
	besideCalls  = 10_000 // of the neighbour in each half of a round
	besideEvery  = time.Millisecond
	stranger     = 64_997 // a user of this machine that owns nothing
)

// BenchmarkBeside says what one user of a gateway costs another: the latency of a neighbour's authorize over HTTP,
// which is asked at a fixed rate, alone and beside it, in turns. The figure is the median over the rounds of the ratio
// of the p99. It is for an idle machine:
//
//	go test ./cmd/yett -run '^$' -bench 'Beside/scans' -benchtime 1x -timeout 60m
//
// With YETT_LG=COMMAND it is this program that asks, which takes the flags of the C generator and prints p99= and bad=:
// a generator in Go has a p99 of its own, and flatters the ratio.
func BenchmarkBeside(b *testing.B) {
	for _, c := range []struct {
		name string
		run  func(b *testing.B)
	}{
		{"scans-in-process", func(b *testing.B) { besideScans(b, "inproc") }},
		{"scans-in-worker", func(b *testing.B) { besideScans(b, "process") }},
		{"plugin", func(b *testing.B) { besidePlugin(b, nil) }},
		{"plugin-of-an-ordinary-user", func(b *testing.B) { besidePlugin(b, &syscall.Credential{Uid: stranger, Gid: stranger}) }},
		{"bodies-without-a-key", besideBodies},
	} {
		b.Run(c.name, c.run)
	}
}

// compare measures the neighbour alone and while the trouble lasts. Trouble begins with a call of start and ends with a
// call of what it gives.
func compare(b *testing.B, s *server, start func() (stop func())) {
	var ratios, alone, beside []float64
	half := func() float64 {
		if generator := os.Getenv("YETT_LG"); generator != "" {
			return s.generated(b, strings.Fields(generator))
		}
		load := s.steadily("files/read", besideEvery)
		pause(besideCalls * besideEvery)
		close(load.stop)
		load.wg.Wait()
		if len(load.errs) > 0 {
			b.Errorf("%d of the neighbour's calls failed, the first: %v", len(load.errs), load.errs[0])
		}
		return float64(quantile(load.lap(), 0.99).Microseconds())
	}
	half() // warm
	for range besideRounds {
		a := half()
		stop := start()
		w := half()
		stop()
		alone, beside, ratios = append(alone, a), append(beside, w), append(ratios, w/a)
	}
	b.Logf("p99 in µs alone %.0f, beside %.0f, ratios %.2f", alone, beside, ratios)
	b.ReportMetric(middle(alone), "µs-alone")
	b.ReportMetric(middle(beside), "µs-beside")
	b.ReportMetric(middle(ratios), "ratio")
	b.ReportMetric(0, "ns/op")
}

// generated has the neighbour's calls made by a program with the flags of the generator in C, and gives their p99 in
// microseconds.
func (s *server) generated(b *testing.B, command []string) float64 {
	bodies := filepath.Join(b.TempDir(), "bodies")
	body := text(map[string]any{"agent_id": "neighbour", "tool_id": "files/read",
		"args": map[string]any{"path": "notes.txt"}})
	if err := os.WriteFile(bodies, append([]byte(body), '\n'), 0o600); err != nil {
		b.Fatal(err)
	}
	seconds := besideCalls * besideEvery / time.Second
	args := append(command[1:], "-a", strings.TrimPrefix(s.URL, "http://"), "-b", bodies, "-c", "16", "-d", fmt.Sprint(int(seconds)), "-w", "0",
		"-r", fmt.Sprint(int(time.Second/besideEvery)), "-u", "/v1/authorize", "-H", "Authorization: Bearer "+s.Keys.Agent,
		"-e", `"PERMIT"`)
	out, err := exec.Command(command[0], args...).Output()
	var p99 float64
	var bad int
	for _, field := range strings.Fields(string(out)) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "p99":
			_, err = fmt.Sscan(value, &p99)
		case "bad":
			_, err = fmt.Sscan(value, &bad)
		}
	}
	if err != nil || p99 == 0 || bad != 0 {
		b.Fatalf("%v: %s", err, out)
	}
	return p99
}

// besideScans: another key's scans all run to their deadline.
func besideScans(b *testing.B, sandbox string) {
	dir := b.TempDir()
	code := wasmgen.Armed(wasmgen.Cat(wasmgen.Forever(), wasmgen.FindBody())).Encode()
	path := filepath.Join(dir, "slow.wasm")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		b.Fatal(err)
	}
	plugin := fmt.Sprintf("  slow: {kind: scanner, wasm: %s, digest: %q, sandbox: %s, limits: {timeout: 1s}}\n", path,
		digestOf(b, path), sandbox)
	file := writeConfig(b, dir, plugin, "", "")
	config, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	rewrite(b, file, strings.Replace(string(config), "steps: [{use: secrets}]", "steps: [{use: secrets}, {use: slow}]", 1))
	s := startDev(b, nil, "--config", file)
	_, other := s.madeKey("slow", "--scopes", "scan")
	body := text(map[string]any{"agent_id": "slow", "tool_id": "files/read",
		"output": wasmgen.Trigger + " some text that is long"})
	compare(b, s, func() func() {
		return repeatedly(16, func() {
			if a, err := s.send("POST", "/v1/scan_output", other, body); err == nil && a.status == 200 &&
				a.str("outcome") != "DENIED" {
				b.Errorf("the slow scan ended: %s", a.body)
			}
		})
	})
}

// repeatedly does something from so many sides until it is told to stop.
func repeatedly(sides int, do func()) (stop func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for range sides {
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					do()
				}
			}
		})
	}
	return func() { close(ended); wg.Wait() }
}

// besidePlugin: a plugin goes for everything it can reach, over and over.
func besidePlugin(b *testing.B, as *syscall.Credential) {
	if as != nil && !maySwitch() {
		b.Fatal("this process may not start others as another user: run it as root")
	}
	built, digest := e2e.Fake(b)
	dir, err := os.MkdirTemp("", "yett-beside-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	path, data := filepath.Join(dir, "fake"), filepath.Join(dir, "data")
	if out, err := exec.Command("cp", built, path).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	target, err := json.Marshal(intruder.Target{Pid: -1, File: filepath.Join(data, "audit.key"),
		Dir: filepath.Join(data, "db"), Socket: filepath.Join(data, "admin", "sock")})
	if err != nil {
		b.Fatal(err)
	}
	plugin := fmt.Sprintf("  spy: {kind: authorizer, exec: %s, digest: %q, env: {FAKE_MODE: relentless, FAKE_ARG: "+
		"'%s'}, network: none}\n", path, digest, target)
	file := writeConfig(b, dir, plugin, "      - {use: spy, match: {tools: [\"harass/**\", \"peace/**\"]}, "+
		"on_error: deny}\n", "")
	if err := os.Mkdir(data, 0o700); err != nil {
		b.Fatal(err)
	}
	s := startDevAs(b, as, dir, "--config", file, "--data", data)
	compare(b, s, func() func() {
		if a, err := s.asked("harass/now"); err != nil || a.status != 200 {
			b.Errorf("%v %s", err, a.body)
		}
		stop := repeatedly(1, func() { // it may be ended for what it takes: it begins again when it is asked again
			_, _ = s.asked("harass/again") // whatever comes of it
			pause(time.Second)
		})
		return func() {
			stop()
			if a, err := s.asked("peace/now"); err != nil || a.status != 200 {
				b.Errorf("%v %s", err, a.body)
			}
			pause(time.Second) // what it had begun
		}
	})
}

// startDevAs is startDev by another user, who owns dir.
func startDevAs(b *testing.B, as *syscall.Credential, dir string, args ...string) *server {
	if as == nil {
		return startDev(b, nil, args...)
	}
	for _, d := range []string{e2e.Dir, e2e.Cache()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(as.Uid), int(as.Gid))
	})
	if err != nil {
		b.Fatal(err)
	}
	s := &server{t: b, stderr: &syncBuffer{}, rest: make(chan string, 1), client: newClient(b)}
	s.cmd = exec.Command(e2e.Binary(b), append([]string{"dev", "-o", "json", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+dir, "HOME="+dir), generous...)
	s.cmd.Dir, s.cmd.Stderr = dir, s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	s.start()
	return s
}

// besideBodies: connections without a key send bodies byte by byte, for as long as anybody lets them. What memory they
// take is looked at afterwards, for a minute in which the neighbour asks now and then, and held against a minute of the
// neighbour alone: what its many calls of before have left to be done would be most of the figure.
func besideBodies(b *testing.B) {
	s := startDev(b, nil, "--config", writeConfig(b, b.TempDir(), "", "", ""))
	addr := strings.TrimPrefix(s.URL, "http://")
	start := func() func() {
		return repeatedly(32, func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			_, err = fmt.Fprintf(c, "POST /v1/authorize HTTP/1.1\r\nHost: x\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n{", 4<<20)
			for n := 0; err == nil && n < 1000; n++ {
				pause(5 * time.Millisecond)
				_, err = c.Write([]byte(" "))
			}
		})
	}
	compare(b, s, start)
	grown := func() (mib float64, served int) {
		before, most := s.resident(), int64(0)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); pause(20 * time.Millisecond) {
			if a, err := s.asked("files/read"); err != nil || a.status != 200 {
				b.Errorf("call %d of the neighbour: %v %s", served, err, a.body)
			}
			most, served = max(most, s.resident()), served+1
		}
		return float64(most-before) / (1 << 20), served
	}
	alone, _ := grown()
	stop := start()
	beside, served := grown()
	stop()
	b.ReportMetric(alone, "MiB-alone")
	b.ReportMetric(beside, "MiB-beside")
	b.ReportMetric(float64(served), "calls-served")
}
