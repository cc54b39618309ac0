package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/yett-dev/yett/plugins/internal/remote/remotetest"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// collector is a real one, of testdata/collector.
type collector struct {
	binary, http, grpc, file string
	log                      *os.File
	cmd                      *exec.Cmd
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	if os.Getenv("YETT_COLLECTOR") == "" {
		t.Skip("set YETT_COLLECTOR=1 to run against a real collector: it is built, with modules from the Go proxy")
	}
	dir := t.TempDir()
	c := &collector{binary: filepath.Join(dir, "collector"), http: free(t), grpc: free(t),
		file: filepath.Join(dir, "records.jsonl")}
	build := exec.Command("go", "build", "-o", c.binary, ".")
	build.Dir = "testdata/collector"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the collector: %v\n%s", err, out)
	}
	var err error
	if c.log, err = os.Create(filepath.Join(dir, "collector.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			all, _ := os.ReadFile(c.log.Name())
			t.Logf("the end of the collector's log:\n%s", all[max(0, len(all)-4000):])
		}
		_ = c.log.Close()
	})
	return c
}

// free is an address that nobody listened on a moment ago.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (c *collector) start() error {
	c.cmd = exec.Command(c.binary, c.http, c.grpc, c.file)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c.cmd.Start()
}

func (c *collector) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// written are the log records that the collector's pipeline gave out, in order. A last line without an end was being
// written when the collector was killed, so its request was not answered.
func (c *collector) written(t *testing.T) (out []*logspb.LogRecord, stores map[string]int) {
	t.Helper()
	stores = map[string]int{}
	for i, line := range readLines(t, c.file) {
		var req collogspb.ExportLogsServiceRequest
		if err := protojson.Unmarshal(traceIDs([]byte(line)), &req); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		for _, rl := range req.ResourceLogs {
			for _, a := range rl.Resource.Attributes {
				stores[a.Key+"="+a.Value.GetStringValue()]++
			}
			for _, sl := range rl.ScopeLogs {
				out = append(out, sl.LogRecords...)
			}
		}
	}
	return out, stores
}

// traceID finds trace ids, which OTLP's JSON writes in hexadecimal and protobuf's in base64.
var traceID = regexp.MustCompile(`"traceId":"([0-9a-f]{32})"`)

func traceIDs(line []byte) []byte {
	return traceID.ReplaceAllFunc(line, func(m []byte) []byte {
		raw, err := hex.DecodeString(string(m[len(`"traceId":"`) : len(m)-1]))
		if err != nil {
			return m
		}
		return []byte(`"traceId":"` + base64.StdEncoding.EncodeToString(raw) + `"`)
	})
}

// TestRealCollector sends a log of varied records through OpenTelemetry's own receiver, which is killed under way, and
// wants every record with every value, for the first time in the order of the log.
func TestRealCollector(t *testing.T) {
	for _, protocol := range []string{protocolHTTP, protocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			c := newCollector(t)
			if err := c.start(); err != nil {
				t.Fatal(err)
			}
			endpoint := "http://" + c.http
			if protocol == protocolGRPC {
				endpoint = "http://" + c.grpc
			}
			p := loaded(t, map[string]any{"endpoint": endpoint, "protocol": protocol,
				"resource": map[string]string{"cloud.region": "x"}}, nil)
			sent, failures := c.load(t, p)
			got, stores := c.written(t)
			again := compare(t, got, sent)
			if stores["yett.store_id=sto_A"] == 0 || stores["cloud.region=x"] == 0 || len(stores) != 4 {
				t.Errorf("resources: %v", stores)
			}
			t.Logf("%d records, %d batches failed meanwhile, %d records came again", len(sent), failures, again)
		})
	}
}

// load sends batches as the host would, from the last acknowledged one on.
func (c *collector) load(t *testing.T, p *plugintest.Client) (sent []plugin.Record, failures int) {
	t.Helper()
	const kills, batches, size = 3, 300, 50
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	log := plugintest.Log{StoreID: "sto_A"}
	samples := readLines(t, "testdata/records.jsonl")[:5]
	todo := make([]*plugin.Batch, batches)
	for i := range todo {
		lines := make([]string, size)
		for j := range lines {
			lines[j] = samples[(i*size+j)%len(samples)]
		}
		todo[i] = log.Append(lines...)
		sent = append(sent, todo[i].Records...)
	}
	failures = remotetest.SendKilling(ctx, t, p, todo, kills, func(context.Context) error {
		c.kill()
		return c.start()
	})
	return sent, failures
}

// compare wants got to be what was sent, record by record.
func compare(t *testing.T, got []*logspb.LogRecord, sent []plugin.Record) (again int) {
	t.Helper()
	next := 0
	for _, r := range got {
		seq := r.Attributes[0].Value.GetIntValue()
		if r.Attributes[0].Key != "yett.seq" || seq < 1 || int(seq) > next+1 {
			t.Fatalf("%s %d comes behind %d", r.Attributes[0].Key, seq, next)
		}
		if int(seq) <= next {
			again++
		} else {
			next++
		}
		var doc exact.Doc
		if err := doc.Parse(string(sent[seq-1].JSON), recordLimits); err != nil {
			t.Fatal(err)
		}
		if have, want := plain(r.Body), expected(doc.Root(), 0); !same(have, want) {
			t.Fatalf("record %s: %v is not %v", strconv.FormatInt(seq, 10), have, want)
		}
		want := (&options{}).logRecord(&sent[seq-1], false, r.ObservedTimeUnixNano)
		if r.EventName != want.EventName || r.TimeUnixNano != want.TimeUnixNano || r.SeverityNumber != want.SeverityNumber ||
			r.SeverityText != want.SeverityText || string(r.TraceId) != string(want.TraceId) ||
			len(r.Attributes) != len(want.Attributes) {
			t.Fatalf("record %d: %v is not %v", seq, r, want)
		}
		for i, a := range want.Attributes {
			if r.Attributes[i].Key != a.Key || !same(plain(r.Attributes[i].Value), plain(a.Value)) {
				t.Fatalf("record %d: %v is not %v", seq, r.Attributes[i], a)
			}
		}
	}
	if next != len(sent) {
		t.Fatalf("%d of %d records arrived", next, len(sent))
	}
	return again
}
