package core

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

const benchConfig = `version: 1
server: {metrics: "off"}
audit: {args: %s}
plugins:
  secrets: {kind: scanner, builtin: secrets, limits: {timeout: 10s}}
chains:
  authorize: {budget: 10s, steps: [{name: rules, rules: [rules.yaml]}]}
  scan_output: {budget: 10s, steps: [{use: secrets}], actions: [{kinds: ["SECRET_*"], action: redact}]}
`

// benchGateway is a whole gateway on a disk, with 100 rules, but without a listener in the way.
func benchGateway(tb testing.TB, args string) (*Gateway, *store.Key) {
	tb.Helper()
	return benchGatewayOf(tb, fmt.Sprintf(benchConfig, args))
}

func benchGatewayOf(tb testing.TB, settings string) (*Gateway, *store.Key) {
	tb.Helper()
	var rules strings.Builder
	rules.WriteString("rules:\n")
	for i := range 98 {
		fmt.Fprintf(&rules, "  - {id: other-%d, tools: [\"service-%d/**\"], effect: deny}\n", i, i)
	}
	rules.WriteString("  - {id: large, tools: [\"files/*\"], when: 'args.limit > 1000', effect: deny}\n  - {id: rest, " +
		"tools: [\"*/*\"], effect: permit}\n")
	dir := tb.TempDir()
	for name, text := range map[string]string{"yett.yaml": settings, "rules.yaml": rules.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	cfg, err := config.Load(config.Sources{File: filepath.Join(dir, "yett.yaml"), Builtins: scanners.Names(), Serve: true,
		Flags: map[string]any{"storage.path": filepath.Join(dir, "data"), "server.listen": "127.0.0.1:0"}})
	if err != nil {
		tb.Fatal(err)
	}
	ctx := context.Background()
	opts := Options{Version: "bench", CacheDir: compiled, Log: logTo(tb.Logf), OnFatal: func(err error) { tb.Error(err) }}
	g, err := New(ctx, cfg, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	made, err := g.Service().CreateKey(ctx, ops.KeySpec{Name: "bench", Preset: "agent"},
		store.Who{Principal: "bench", Method: "system", Surface: "system"})
	if err != nil {
		tb.Fatal(err)
	}
	key, err := g.Service().KeyOf(made.Value)
	if err != nil {
		tb.Fatal(err)
	}
	return g, key
}

var benchBody = `{"agent_id":"support-7","session_id":"session-000042","tool_id":"files/read","args":{"amount":118.25,"filter":{"archived":false,"state":"open","tags":["paging","index"]},` +
	`"limit":120,"path":"/srv/team-12/reports/summary.md","text":"` +
	strings.Repeat("please check whether this is still possible and what it costs. ", 5) +
	`"},"context":{"channel":"chat","turn":4,"user":"u-00042"}}`

func benchOp(tb testing.TB, name string) *ops.Op {
	tb.Helper()
	for i := range ops.Table {
		if ops.Table[i].Name == name {
			return &ops.Table[i]
		}
	}
	tb.Fatalf("there is no operation %s", name)
	return nil
}

// caller sends one body again and again, as a transport would.
type caller struct {
	g   *Gateway
	op  *ops.Op
	req ops.Request
	doc exact.Doc
	out []byte
}

func newCaller(tb testing.TB, g *Gateway, key *store.Key, op, body string) *caller {
	tb.Helper()
	return &caller{g: g, op: benchOp(tb, op), req: ops.Request{Ctx: context.Background(), Key: key, Raw: body,
		Who: store.Who{Principal: key.ID, Method: "api_key", Surface: "http", Peer: "127.0.0.1:1", RequestID: "req_BENCH"}}}
}

func (c *caller) call() (ops.Response, error) {
	c.req.Start = time.Now()
	if err := c.doc.Parse(c.req.Raw, exact.DefaultLimits); err != nil {
		return nil, err
	}
	c.req.Body = c.doc.Root()
	resp, err := c.g.Service().Run(c.op, &c.req)
	if err == nil {
		c.out = resp.AppendJSON(c.out[:0])
	}
	return resp, err
}

func (c *caller) permit() error {
	resp, err := c.call()
	if err != nil {
		return err
	}
	if d := resp.(*wire.AuthorizeResponse); d.Effect != "PERMIT" {
		return fmt.Errorf("%s %s %s", d.Effect, d.ReasonCode, d.Reason)
	}
	return nil
}

// BenchmarkAuthorize is parse, digest, 100 rules, durable record and answer, in parallel, without HTTP.
func BenchmarkAuthorize(b *testing.B) {
	for _, args := range []string{"digest", "redacted"} {
		b.Run(args, func(b *testing.B) {
			g, key := benchGateway(b, args)
			b.ReportAllocs()
			b.SetParallelism(128)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				c := newCaller(b, g, key, "authorize", benchBody)
				for pb.Next() {
					if err := c.permit(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// scanText is 4 KiB of prose and code; a dirty one holds a string shaped like a token.
func scanText(dirty bool) string {
	line := "2026-03-04 info worker 7: the index returned an empty page\nfunc page(n int) int { return n * 4 }\n"
	text := strings.Repeat(line, 4096/len(line)+1)[:4096]
	if dirty {
		text = text[:2000] + "\nexport GITHUB_TOKEN=" + "gh" + "p_" + "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE" + "\n" +
			text[2000:]
	}
	return text
}

// BenchmarkScanWasm4KB is one scan chain with the secrets scanner in the sandbox, on one core, without a record.
func BenchmarkScanWasm4KB(b *testing.B) {
	g, _ := benchGateway(b, "digest")
	for name, want := range map[string]string{"clean": chain.Pass, "dirty": chain.Redacted} {
		b.Run(name, func(b *testing.B) {
			in := &chain.Input{Text: scanText(name == "dirty"), ToolID: "files/read"}
			b.SetBytes(int64(len(in.Text)))
			b.ReportAllocs()
			for b.Loop() {
				if res := g.gen.Load().Scan.Run(context.Background(), in); res.Outcome != want {
					b.Fatalf("%s %s, want %s", res.Outcome, res.Reason, want)
				}
			}
		})
	}
}

// BenchmarkAuditAppend is one durable record, by many at once.
func BenchmarkAuditAppend(b *testing.B) {
	g, _ := benchGateway(b, "digest")
	by := store.Who{Principal: "bench", Method: "system", Surface: "system"}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(128)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n.Add(1)
			if err := g.store.Commit(context.Background(),
				&store.Note{Type: "bench", By: by, Fields: [][2]string{{"text", "a record"}}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if got := g.store.Seq(); got < uint64(n.Load()) {
		b.Errorf("%d records after %d commits", got, n.Load())
	}
}

// authorizeObjects is the most objects that one authorize may put on the heap, the sequencer's share included.
const authorizeObjects = 12

// TestAuthorizeAllocations holds the ceiling. A failure names what to look at; raising it needs a reason.
func TestAuthorizeAllocations(t *testing.T) {
	g, key := benchGateway(t, "digest")
	c := newCaller(t, g, key, "authorize", benchBody)
	got := testing.AllocsPerRun(500, func() {
		if err := c.permit(); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f objects", got)
	if got > authorizeObjects {
		t.Errorf("one authorize allocates %.0f objects, the ceiling is %d: see go test -run none -bench Authorize/digest "+
			"-memprofile", got, authorizeObjects)
	}
}
