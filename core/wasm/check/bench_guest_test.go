package check

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/yett-dev/yett/sdk/abi"
)

// deaf takes what a guest says and answers 0.
func deaf(ctx context.Context, rt wazero.Runtime) error {
	b := rt.NewHostModuleBuilder(abi.ImportModule)
	for _, im := range Imports() {
		if im.Module == abi.ImportModule {
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, a []uint64) {
				if len(a) > 0 {
					a[0] = 0
				}
			}), []api.ValueType(im.Params), []api.ValueType(im.Results)).Export(im.Name)
		}
	}
	_, err := b.Instantiate(ctx)
	return err
}

// startSecrets instantiates a form of the built-in scanner and gives a function that scans.
func startSecrets(ctx context.Context, b *testing.B, wasm []byte, closing bool) func(text string) {
	rt := wazero.NewRuntimeWithConfig(ctx,
		wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithCloseOnContextDone(closing))
	b.Cleanup(func() { _ = rt.Close(ctx) })
	if err := (&meter{slice: 200_000, limit: 1 << 62}).provide(ctx, rt); err != nil {
		b.Fatal(err)
	}
	if err := deaf(ctx, rt); err != nil {
		b.Fatal(err)
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, rt); err != nil {
		b.Fatal(err)
	}
	inst, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions(abi.ExportInitialize))
	if err != nil {
		b.Fatal(err)
	}
	buffer, scan := inst.ExportedFunction(abi.ExportBuffer), inst.ExportedFunction(abi.ExportScan)
	call := func(f api.Function, args ...uint64) uint64 {
		res, err := f.Call(ctx, args...)
		if err != nil {
			b.Fatal(err)
		}
		return res[0]
	}
	hand := func(s string) {
		if at := call(buffer, uint64(len(s))); at == 0 || !inst.Memory().WriteString(uint32(at), s) {
			b.Fatal("no buffer")
		}
	}
	settings := `{"abi":1,"name":"secrets","config":{}}`
	hand(settings)
	if status := call(inst.ExportedFunction(abi.ExportInit), uint64(len(settings))); status != 0 {
		b.Fatalf("yett_init: status %d", status)
	}
	return func(text string) {
		hand(text)
		if status := call(scan, 0, uint64(len(text)), uint64(abi.FlagFirst|abi.FlagFinal|abi.FlagUTF8)); status != 0 {
			b.Fatalf("yett_scan: status %d", status)
		}
	}
}

// BenchmarkMeteringSecrets scans 64 KiB in which every tenth line looks like a credential, reading all of it.
func BenchmarkMeteringSecrets(b *testing.B) {
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		b.Fatal(err)
	}
	m, err := Check(wasm, Limits{Pages: 1024})
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Repeat("an ordinary line of a log with 12 numbers\n", 9) + "token: gh" + "p_" +
		"q8Zr2LmV5tXc7NpK3sWd9YfB1hJg6RaT4uEe\n"
	text := strings.Repeat(lines, 64<<10/len(lines)+1)[:64<<10]
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	names := []string{"original", "metered", "closing"}
	scans := []func(string){startSecrets(ctx, b, m.Original(), false), startSecrets(ctx, b, m.Metered(), false),
		startSecrets(ctx, b, m.Original(), true)}
	best := make([]time.Duration, len(scans))
	for b.Loop() {
		for i, scan := range scans {
			from := time.Now()
			scan(text)
			if d := time.Since(from); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	for i, name := range names {
		b.ReportMetric(float64(len(text))/best[i].Seconds()/1e6, name+"_MB/s")
	}
	b.ReportMetric(float64(best[0])/float64(best[1]), "of_original")
	b.ReportMetric(float64(best[2])/float64(best[1]), "of_closing")
}

// BenchmarkRecursionWithoutLoops runs 2^28 calls without a loop under a deadline of 20 ms, while another goroutine
// collects garbage over and over: how late the guest stops, and the longest collection. The original is the control:
// nothing stops it or lets the collector in before its end, about a second later.
func BenchmarkRecursionWithoutLoops(b *testing.B) {
	self := one(fn{params: "i", code: cat(op(opLocalGet, 0), []byte{opIf, 0x40},
		op(opLocalGet, 0), i32(1), []byte{opI32Sub}, op(opCall, 0), op(opLocalGet, 0), i32(1), []byte{opI32Sub},
		op(opCall, 0), []byte{opEnd})})
	m, err := checkCore(self.encode())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		wasm []byte
	}{{"metered", m.Metered()}, {"original", m.Original()}} {
		b.Run(c.name, func(b *testing.B) {
			h := &meter{slice: 200_000, limit: 1 << 62}
			f := instance(b, c.wasm, h).ExportedFunction("f")
			var late, pause time.Duration
			for b.Loop() {
				var over atomic.Bool
				longest := make(chan time.Duration)
				begun := make(chan struct{})
				go func() {
					var most time.Duration
					close(begun)
					for !over.Load() {
						from := time.Now()
						runtime.GC()
						most = max(most, time.Since(from))
					}
					longest <- most
				}()
				<-begun
				deadline := time.Now().Add(20 * time.Millisecond)
				h.until = deadline
				_, _ = f.Call(context.Background(), 28)
				late = max(late, time.Since(deadline))
				over.Store(true)
				pause = max(pause, <-longest)
			}
			b.ReportMetric(float64(late.Microseconds())/1000, "ms-late")
			b.ReportMetric(float64(pause.Microseconds())/1000, "ms-gc")
		})
	}
}
