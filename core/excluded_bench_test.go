package core

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkExcludedPlugins is a whole authorize, without a transport, where match keeps the call from 0 or 4
// authorizers in processes. The processes are started by the benchmark, not by the gateway, so that it can run where
// instructions are counted:
//
//	GOMAXPROCS=1 GOGC=off GODEBUG=asyncpreemptoff=1 valgrind --tool=lackey --basic-counts=yes \
//	  ./core.test -test.run '^$' -test.bench ExcludedPlugins/4 -test.benchtime 40000x
//
// The counts of 40 000 and of 10 000 calls differ by those of 30 000, and by what the plugins' health streams cost in
// that time.
func BenchmarkExcludedPlugins(b *testing.B) {
	for _, n := range []int{0, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var plugins, steps strings.Builder
			dir := b.TempDir()
			for i := range n {
				socket := filepath.Join(dir, fmt.Sprint(i))
				serveAside(b, socket)
				if i == 0 {
					plugins.WriteString("plugins:\n")
				}
				fmt.Fprintf(&plugins, "  p%d: {kind: authorizer, connect: \"unix://%s\", peer: {uid: %d}, limits: {start: 60s}}\n",
					i, socket, os.Getuid())
				fmt.Fprintf(&steps, ", {use: p%d, match: {tools: [\"entitled/**\"]}}", i)
			}
			g, key := benchGatewayOf(b, "version: 1\nserver: {metrics: \"off\"}\naudit: {args: digest}\n"+plugins.String()+
				"chains:\n  authorize: {budget: 10s, steps: [{name: rules, rules: [rules.yaml]}"+steps.String()+"]}\n")
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

// serveAside runs this test binary as an authorizer that listens on a socket, until the benchmark ends.
func serveAside(b *testing.B, socket string) {
	b.Helper()
	c := exec.Command(os.Args[0], "--listen", "unix://"+socket)
	c.Env, c.Stderr = append(os.Environ(), guestEnv+"=denies"), os.Stderr
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Process.Kill(); err != nil {
			b.Error(err)
		}
		_ = c.Wait() // killed
	})
}
