//go:build linux

package bench

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
)

// toolOutputs are real outputs of tools that hold nothing secret, from the folder that YETT_DATA names.
func toolOutputs(b *testing.B) []string {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		b.Skip("YETT_DATA names no folder with benign_outputs.jsonl.gz")
	}
	f, err := os.Open(filepath.Join(dir, "benign_outputs.jsonl.gz"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	var texts []string
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			b.Fatal(err)
		}
		texts = append(texts, row.Text)
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return texts
}

// ofSize joins texts and cuts what comes of it into texts of so many bytes, the last of them shorter.
func ofSize(texts []string, n int) []string {
	var out []string
	for piece := range slices.Chunk([]byte(strings.Join(texts, "\n")), n) {
		out = append(out, string(piece))
	}
	return out
}

// BenchmarkBuiltins scans with every built-in scanner at once, on one processor with -cpu 1: real outputs of tools one
// by one and as texts of 64 KiB and 1 MiB, text that trips nothing, and text with a secret in each KiB. It gives the
// share of texts in which nothing is found, and the time of a text at the 99th percentile.
func BenchmarkBuiltins(b *testing.B) {
	ctx := context.Background()
	c, stop, err := builtins(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := stop(ctx); err != nil {
			b.Error(err)
		}
	}()
	outputs := toolOutputs(b)
	for _, load := range []struct {
		name  string
		texts []string
	}{
		{"outputs", outputs},
		{"outputs/64KiB", ofSize(outputs, textBytes)},
		{"outputs/1MiB", ofSize(slices.Repeat(outputs, 8), 1<<20)},
		{"clean/64KiB", benchTexts(false)},
		{"clean/1MiB", ofSize(slices.Repeat(benchTexts(false), 4), 1<<20)},
		{"dirty/64KiB", benchTexts(true)},
		{"dirty/1MiB", ofSize(slices.Repeat(benchTexts(true), 4), 1<<20)},
	} {
		b.Run(load.name, func(b *testing.B) {
			bytes := 0
			for _, text := range load.texts {
				bytes += len(text)
			}
			b.SetBytes(int64(bytes))
			var took []time.Duration
			results := map[string]int{}
			for b.Loop() {
				for _, text := range load.texts {
					start := time.Now()
					res := c.Run(ctx, &chain.Input{Text: text})
					took = append(took, time.Since(start))
					results[res.Outcome]++
					if res.Outcome == chain.Denied {
						b.Fatal(fmt.Errorf("%s: %s", res.Outcome, res.Reason))
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(100*float64(results[chain.Pass])/float64(len(took)), "%pass")
		})
	}
}
