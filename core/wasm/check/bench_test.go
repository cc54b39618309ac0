package check

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// BenchmarkMetering runs the same automaton as it is, metered, and under WithCloseOnContextDone, by turns.
func BenchmarkMetering(b *testing.B) {
	wasm, err := os.ReadFile("testdata/automaton.wasm")
	if err != nil {
		b.Fatal(err)
	}
	m, err := checkCore(wasm)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	kinds := []struct {
		name string
		wasm []byte
		stop bool
	}{{"original", m.Original(), false}, {"metered", m.Metered(), false}, {"closing", m.Original(), true}}
	var fs []api.Function
	for _, k := range kinds {
		rt := wazero.NewRuntimeWithConfig(ctx,
			wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithCloseOnContextDone(k.stop))
		defer rt.Close(ctx)
		if err := (&meter{slice: 200_000, limit: 1 << 62}).provide(ctx, rt); err != nil {
			b.Fatal(err)
		}
		inst, err := rt.InstantiateWithConfig(ctx, k.wasm, wazero.NewModuleConfig().WithStartFunctions())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := inst.ExportedFunction("prepare").Call(ctx, 42); err != nil {
			b.Fatal(err)
		}
		fs = append(fs, inst.ExportedFunction("run"))
	}
	best := make([]time.Duration, len(kinds))
	for b.Loop() {
		for i, f := range fs {
			from := time.Now()
			if _, err := f.Call(ctx, 1<<16); err != nil {
				b.Fatal(err)
			}
			if d := time.Since(from); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	for i, k := range kinds {
		b.ReportMetric(float64(1<<16)/best[i].Seconds()/1e6, k.name+"_MB/s")
	}
	b.ReportMetric(float64(best[0])/float64(best[1]), "of_original")
	b.ReportMetric(float64(best[2])/float64(best[1]), "of_closing")
}
