package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
	w "github.com/yett-dev/yett/core/testkit/wasmgen"
)

// compileEnv makes the test binary a process that compiles the module on its standard input, and ends.
const compileEnv = "WASMCHECK_COMPILE"

func TestMain(m *testing.M) {
	if os.Getenv(compileEnv) == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	wasm, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = newRuntime(ctx).CompileModule(ctx, wasm)
	}
	if err == nil {
		var status []byte
		if status, err = os.ReadFile("/proc/self/status"); err == nil {
			_, err = os.Stdout.Write(status)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compiled compiles the metered form in a process of its own and says what that took: processor time, and the most
// bytes that were resident. The process says the latter itself, for what its parent sees begins with the parent's own.
func compiled(t testing.TB, m *Module) (cpu time.Duration, memory int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), compileEnv+"=1")
	cmd.Stdin = bytes.NewReader(m.Metered())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.500s", err, out)
	}
	if _, rest, ok := strings.Cut(string(out), "VmHWM:"); ok {
		if memory, err = strconv.ParseInt(strings.TrimSpace(rest[:strings.Index(rest, "kB")]), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), memory << 10
}

var toInt = w.Sig{Params: "i", Results: "i"}

// filled is a guest with n equal functions of its own.
func filled(n int, f w.Func, edit func(*w.Module)) []byte {
	if f.Sig == (w.Sig{}) {
		f.Sig = toInt
	}
	g := w.Finder()
	for range n {
		g.Extra = append(g.Extra, f)
	}
	g.Edit = edit
	return g.Encode()
}

// body repeats a piece and leaves a number.
func body(n int, piece ...[]byte) w.Func {
	return w.Func{Body: w.Cat(w.Repeat(n, w.Cat(piece...)), w.I32(0))}
}

func meshed(locals, blocks int) w.Func {
	code := make([][]byte, 0, blocks)
	for i := range blocks {
		code = append(code, w.Cat(w.Block, w.Get(0), w.BrIf(0), w.Get(1+(i*7+3)%locals), w.Set(1+i%locals), w.End))
	}
	return w.Func{Locals: locals, Body: w.Cat(w.Cat(code...), w.Get(1))}
}

func labels(n, tables int) w.Func {
	to := make([]int, n)
	for i := range to {
		to[i] = i % 4
	}
	inner := w.Repeat(tables, w.Cat(w.Block, w.Get(0), w.BrTable(to...), w.End))
	return w.Func{Body: w.Cat(w.Repeat(3, w.Block), inner, w.Repeat(3, w.End), w.I32(0))}
}

// otherTypes adds n types that nothing uses.
func otherTypes(n int) func(*w.Module) {
	return func(m *w.Module) {
		for i := range n {
			s := make([]byte, 15)
			for b := range s {
				s[b] = "il"[i>>b&1]
			}
			m.Types = append(m.Types, w.Sig{Params: string(s)})
		}
	}
}

// heavy are the ways to make the compiler work, larger with n. most is the largest n that another limit leaves.
var heavy = []struct {
	name string
	most int
	make func(n int) []byte
}{
	{"functions of 200 locals in 400 blocks", 3000, func(n int) []byte { return filled(n, meshed(200, 400), nil) }},
	{"one function of 200 locals in n blocks", 20_000, func(n int) []byte { return filled(1, meshed(200, n), nil) }},
	{"n locals in 1000 blocks", 9_000, func(n int) []byte { return filled(1, meshed(n, 1000), nil) }},
	{"a table of labels, read three times", 85_000, func(n int) []byte { return filled(1, labels(n, 3), nil) }},
	{"functions with a table of 2000 labels", 7_000, func(n int) []byte { return filled(n, labels(2000, 1), nil) }},
	{"functions of 20 loads", 130_000, func(n int) []byte {
		return filled(n, w.Func{Body: w.Cat(w.Repeat(20, w.Cat(w.Get(0), w.Load32)), w.Repeat(19, w.Add))}, nil)
	}},
	{"empty functions", 199_000, func(n int) []byte { return filled(n, body(0), nil) }},
	{"types for as many functions", 19_900, func(n int) []byte { return filled(n, body(0), otherTypes(n)) }},
	{"20 000 types for n functions", 199_000, func(n int) []byte { return filled(n, body(0), otherTypes(19_900)) }},
	{"empty blocks", 85_000, func(n int) []byte { return filled(1, body(n, w.Block, w.End), nil) }},
	{"ifs", 40_000, func(n int) []byte { return filled(1, body(n, w.Get(0), w.If, w.Nop, w.End), nil) }},
	{"functions of 1000 ifs", 2_600, func(n int) []byte { return filled(n, body(1000, w.Get(0), w.If, w.Nop, w.End), nil) }},
	{"loops", 30_000, func(n int) []byte { return filled(1, body(n, w.Loop, w.Get(0), w.BrIf(0), w.End), nil) }},
	{"loops in loops", 9_990, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Repeat(n, w.Loop), w.Repeat(n, w.Cat(w.Get(0), w.BrIf(0), w.End)), w.I32(0))},
			nil)
	}},
	{"branches to one place", 65_000, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Block, w.Repeat(n, w.Cat(w.Get(0), w.BrIf(0))), w.End, w.I32(0))}, nil)
	}},
	{"loads behind each other", 80_000, func(n int) []byte { return filled(1, w.Func{Body: w.Cat(w.Get(0), w.Repeat(n, w.Load32))}, nil) }},
	{"functions of 30 000 loads behind each other", 180, func(n int) []byte { return filled(n, w.Func{Body: w.Cat(w.Get(0), w.Repeat(30_000, w.Load32))}, nil) }},
	{"a load before each branch", 28_000, func(n int) []byte { return filled(1, body(n, w.Block, w.I32(0), w.Load32, w.BrIf(0), w.End), nil) }},
	{"divisions", 80_000, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Get(0), w.Repeat(n, w.Cat(w.Get(0), w.DivS)))}, nil)
	}},
	{"truncations", 120_000, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Get(0), w.Repeat(n, []byte{0xb7, 0xaa}))}, nil)
	}},
	{"fills", 20_000, func(n int) []byte { return filled(1, body(n, w.Get(0), w.Get(0), w.Get(0), w.MemFill), nil) }},
	{"functions of 200 fills", 1_000, func(n int) []byte { return filled(n, body(200, w.Get(0), w.Get(0), w.Get(0), w.MemFill), nil) }},
	{"reads of a table", 40_000, func(n int) []byte {
		return filled(1, body(n, w.Get(0), w.TableGet, w.Drop), func(m *w.Module) { m.Tables = [][]byte{w.Table(1, 1)} })
	}},
	{"calls in a module of 100 globals", 60_000, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Get(0), w.Repeat(n, w.CallTo(w.FirstExtra)))}, func(m *w.Module) {
			for range 100 {
				m.Globals = append(m.Globals, w.Global(w.I32Type, w.I32(0)))
			}
		})
	}},
	{"calls whose results live on", 40_000, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Repeat(n, w.Cat(w.Get(0), w.CallTo(w.FirstExtra))), w.Repeat(n-1, w.Add))}, nil)
	}},
	{"200 values across n branches", 40_000, func(n int) []byte {
		return filled(1, w.Func{Body: w.Cat(w.Repeat(200, w.Cat(w.Get(0), w.Load32)),
			w.Repeat(n, w.Cat(w.Block, w.Get(0), w.BrIf(0), w.End)), w.Repeat(199, w.Add))}, nil)
	}},
	{"functions of 10 000 locals", 190_000, func(n int) []byte { return filled(n, w.Func{Locals: 9_999, Body: w.I32(0)}, nil) }},
	{"functions of 40 000 additions", 65, func(n int) []byte { return filled(n, body(40_000, w.Get(0), w.Get(0), w.Add, w.Drop), nil) }},
}

// atTheBound finds the largest n that is let in; limited says that n+1 is refused for what it would cost.
func atTheBound(t testing.TB, most int, make func(int) []byte) (n int, m *Module, limited bool) {
	t.Helper()
	cost := "would cost the compiler"
	refused := func(n int) bool {
		got, err := Check(make(n), Limits{Pages: 1024})
		if err == nil {
			m = got
			return false
		}
		if !strings.Contains(err.Error(), cost) {
			t.Fatalf("%d: %v", n, err)
		}
		return true
	}
	n = sort.Search(most, func(i int) bool { return refused(i + 1) })
	if refused(n) {
		t.Fatalf("%d is refused and let in", n)
	}
	return n, m, n < most
}

// What compiling a module that is let in may take. The bounds of cost.go aim at less; a machine that is busy needs
// more.
const (
	compileTime   = 12 * time.Second
	compileMemory = 450 << 20
)

// TestCompileBound has, for each way to make the compiler work, the largest module that is let in; one more is refused.
// The shapes that once took longest are compiled too; BenchmarkCompileAtTheBound compiles all.
func TestCompileBound(t *testing.T) {
	measured := map[string]bool{"a table of labels, read three times": true, "ifs": true, "branches to one place": true,
		"functions of 10 000 locals": true}
	for i, h := range heavy {
		if !testkit.Every(i, 5) {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			n, m, limited := atTheBound(t, h.most, h.make)
			t.Logf("%d; one more is refused: %v", n, limited)
			if m.Cost > maxModuleTime {
				t.Errorf("let in with a cost of %d", m.Cost)
			}
			if !measured[h.name] || testing.Short() {
				return
			}
			testkit.Slow(t, "compiles what is as slow to compile as may be")
			if cpu, memory := compiled(t, m); cpu > compileTime || memory > compileMemory {
				t.Errorf("%v and %d MiB", cpu, memory>>20)
			}
		})
	}
}

// TestOnceSlow offers the modules that were let in once and took up to 30 seconds to compile.
func TestOnceSlow(t *testing.T) {
	testkit.Long(t, "what once took half a minute to compile")
	for _, c := range []struct {
		name string
		wasm []byte
	}{
		{"300 functions of 200 locals in 4000 blocks", filled(300, meshed(200, 4000), nil)},
		{"a table of 85 000 labels, read three times", filled(1, labels(85_000, 3), nil)},
		{"20 000 types and 60 000 functions", filled(60_000, body(0), otherTypes(19_900))},
		{"20 functions of 20 000 empty blocks", filled(20, body(20_000, w.Block, w.End), nil)},
		{"40 000 ifs", filled(1, body(40_000, w.Get(0), w.If, w.Nop, w.End), nil)},
		{"30 000 loops", filled(1, body(30_000, w.Loop, w.Get(0), w.BrIf(0), w.End), nil)},
		{"60 000 branches to one place", filled(1, body(60_000, w.Get(0), w.BrIf(0)), nil)},
		{"20 functions of 43 000 divisions", filled(20, body(43_000, w.Get(0), w.Get(0), w.DivS, w.Drop), nil)},
		{"100 000 functions of 10 000 locals", filled(100_000, w.Func{Locals: 9_999, Body: w.I32(0)}, nil)},
	} {
		if _, err := Check(c.wasm, Limits{Pages: 1024}); err == nil ||
			!strings.Contains(err.Error(), "would cost the compiler") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestHonestGuestsHaveRoom keeps the built-in scanner below a third of each bound.
func TestHonestGuestsHaveRoom(t *testing.T) {
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Check(wasm, Limits{Pages: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if m.Cost > maxModuleTime/3 || m.dearest > maxFuncMemory/3 {
		t.Errorf("%d ns of %d, %d bytes of %d", m.Cost, int64(maxModuleTime), m.dearest, maxFuncMemory)
	}
	t.Logf("%d ms, %d MiB", m.Cost/1_000_000, m.dearest>>20)
}

// TestLargeGoGuest builds a Go guest of 6 MB with the packages that authors reach for, and finds half of each bound
// left.
func TestLargeGoGuest(t *testing.T) {
	testkit.Slow(t, "compiles a large guest")
	if testing.Short() {
		t.Skip("builds a large Go program, which -short leaves out")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module large\n\ngo 1.26\n", "main.go": largeGuest} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", "large.wasm", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "large.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := checkCore(wasm) // what it imports is another matter
	if err != nil {
		t.Fatal(err)
	}
	if m.Cost > maxModuleTime/2 || m.dearest > maxFuncMemory/2 {
		t.Errorf("%d ns of %d, %d bytes of %d", m.Cost, int64(maxModuleTime), m.dearest, maxFuncMemory)
	}
	cpu, memory := compiled(t, m)
	t.Logf("%d bytes: counted %d ms, %d MiB; compiled in %v with %d MiB", len(wasm), m.Cost/1_000_000, m.dearest>>20, cpu,
		memory>>20)
}

const largeGuest = `package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"text/template"
	"os"
)

func main() {
	var v any
	_ = json.Unmarshal([]byte("{}"), &v)
	u, _ := url.Parse("http://a/b")
	fmt.Println(regexp.MustCompile("a+b").FindString(os.Args[0]), u, v)
	_ = template.Must(template.New("x").Parse("{{.}}")).Execute(os.Stdout, v)
}
`

// BenchmarkCompileAtTheBound compiles the largest module of each shape that is let in, and a good one.
func BenchmarkCompileAtTheBound(b *testing.B) {
	run := func(b *testing.B, m *Module) {
		var cpu time.Duration
		var memory int64
		for b.Loop() {
			took, held := compiled(b, m)
			cpu, memory = cpu+took, max(memory, held)
		}
		b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "ms-cpu")
		b.ReportMetric(float64(m.Cost)/1e6, "ms-counted")
		b.ReportMetric(float64(memory)/(1<<20), "MiB")
	}
	for _, h := range heavy {
		b.Run(strings.ReplaceAll(h.name, " ", "-"), func(b *testing.B) {
			_, m, _ := atTheBound(b, h.most, h.make)
			run(b, m)
		})
	}
	b.Run("secrets", func(b *testing.B) {
		wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
		if err != nil {
			b.Fatal(err)
		}
		m, err := Check(wasm, Limits{Pages: 1024})
		if err != nil {
			b.Fatal(err)
		}
		run(b, m)
	})
}
