package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// buildGuest builds testdata/goguest. The sources are read first, so that the test cache knows them.
func buildGuest(t *testing.T) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a Go module, which -short leaves out")
	}
	for _, pattern := range []string{"testdata/goguest/*.go", "../../../sdk/scanner/*.go", "../../../sdk/abi/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out,
		"./testdata/goguest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestGoGuest(t *testing.T) {
	wasm := buildGuest(t)
	var s sink
	var mu sync.Mutex
	h := newHost(t, Options{Log: func(module string, level int, line string) {
		mu.Lock()
		defer mu.Unlock()
		s.log(module, level, line)
	}})
	ctx := context.Background()
	_, err := h.Load(ctx, Spec{Name: "tickets", Code: wasm, Config: []byte(`{"x":1}`), Start: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "status 1 (bad config): no configuration is known") {
		t.Errorf("a bad config: %v", err)
	}
	m, err := h.Load(ctx, Spec{Name: "tickets", Code: wasm, Start: time.Minute, Timeout: time.Minute, Instances: 2})
	if err != nil {
		t.Fatal(err)
	}
	if meta := m.Metadata(); meta.Name != "goguest" || meta.Version != "0.1.0" || !m.Scans() || !m.Checks() {
		t.Errorf("metadata %+v", meta)
	}
	want := []sdk.Finding{{Kind: "TICKET", Scanner: "tickets", Start: 4, End: 12, Confidence: 1, Severity: sdk.Low,
		Suggested: sdk.Redact}}
	for range 3 {
		if got, err := scan(m, "see TICKET42 and more"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for op, effect := range map[string]sdk.Effect{"read": sdk.Permit, "write": sdk.Deny} {
		if v, err := m.Check(ctx, &chain.Call{Operation: op}); err != nil || v.Effect != effect {
			t.Errorf("%s: %+v, %v", op, v, err)
		}
	}
	_, err = scan(m, "PANIC")
	if !errors.Is(err, ErrExit) && !errors.Is(err, ErrTrap) {
		t.Errorf("a panic: %v", err)
	}
	if all := strings.Join(s.lines, "\n"); !strings.Contains(all, `tickets 2 "about to panic"`) ||
		!strings.Contains(all, "asked for") {
		t.Errorf("printed: %s", all)
	}
	if got, err := scan(m, "TICKET1 TICKET22"); err != nil || len(got) != 2 {
		t.Errorf("after the panic: %v, %v", got, err)
	}
	big := strings.Repeat("x", 8<<20) + "TICKET7"
	if got, err := scan(m, big); err != nil || len(got) != 1 || got[0].Start != 8<<20 {
		t.Errorf("8 MiB: %v, %v", got, err)
	}
	if st := m.Stats(); st.Errors != 1 || st.Live > 2 {
		t.Errorf("stats %+v", st)
	}
}

// hitsOf finds a module's triggers the slow way.
func hitsOf(triggers []abi.Trigger, text string) (hits []prefilter.Hit) {
	lower := strings.ToLower(text)
	for i, tr := range triggers {
		if tr.Literal == "" {
			hits = append(hits, runs(uint32(i), tr, text)...)
			continue
		}
		in, lit := text, tr.Literal
		if tr.Fold {
			in, lit = lower, strings.ToLower(lit)
		}
		for at := 0; ; at++ {
			j := strings.Index(in[at:], lit)
			if j < 0 {
				break
			}
			at += j
			hits = append(hits, prefilter.Hit{Trigger: uint32(i), Offset: uint32(at)})
		}
	}
	return hits
}

var classBytes = map[string]string{"digits": "0123456789", "hex": "0123456789abcdefABCDEF", "at": "@",
	"base64": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"}

func runs(i uint32, tr abi.Trigger, text string) (hits []prefilter.Hit) {
	for at := 0; at < len(text); at++ {
		n := 0
		for at+n < len(text) && strings.IndexByte(classBytes[tr.Class], text[at+n]) >= 0 {
			n++
		}
		if n > 0 && n >= tr.Min {
			hits = append(hits, prefilter.Hit{Trigger: i, Offset: uint32(at)})
		}
		at += n
	}
	return hits
}

// TestSecretsModule runs the built-in scanner as it is shipped: two instances and hints of any kind give the same
// findings.
func TestSecretsModule(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a large module, which -short leaves out")
	}
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, Options{})
	ctx := context.Background()
	m, err := h.Load(ctx, Spec{Name: "secrets", Code: wasm, Start: time.Minute, Timeout: time.Minute, Instances: 2})
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	defer b.close()
	if !bytes.Equal(memoryOf(t, a), memoryOf(t, b)) {
		t.Error("two instances differ after their start")
	}
	token := "gh" + "p_" + "q8Zr2LmV5tXc7NpK3sWd9YfB1hJg6RaT4uEe"
	for i, text := range []string{
		"nothing to see here",
		"token: " + token + "\n",
		strings.Repeat("clean line of log output 12345\n", 200) + "auth=" + token + " and AK" + "IA" + "Q3EGRTPLWXK7MZ5V\n",
		"postgres://app:" + "s3cr" + "Et-Pq91x" + "@db.internal:5432/main",
		"\xff\xfe" + token,
		strings.Repeat(token+"\n", 300),
	} {
		want, err := m.scanOn(ctx, a, Window{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		if (i > 0) != (len(want) > 0) {
			t.Errorf("text %d: %d findings", i, len(want))
		}
		hits := hitsOf(m.Metadata().Triggers, text)
		for name, w := range map[string]Window{"the other instance": {Text: text},
			"complete hits": {Text: text, Hits: hits, Complete: true}} {
			got, err := m.scanOn(ctx, b, w)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("text %d, %s: %d findings, want %d (%v)", i, name, len(got), len(want), err)
			}
		}
	}
}

func memoryOf(t *testing.T, in *instance) []byte {
	t.Helper()
	b, ok := in.mem.Read(0, in.mem.Size())
	if !ok {
		t.Fatal("memory cannot be read")
	}
	return b
}

// scanOn scans on an instance that the pool does not know.
func (m *Module) scanOn(ctx context.Context, in *instance, w Window) ([]sdk.Finding, error) {
	w.Flags = abi.FlagFirst | abi.FlagFinal
	c := in.newCall(scanning)
	c.begin(ctx, m.spec.Timeout, m.spec.Fuel)
	defer c.leave()
	_, _, err := in.scanWindow(c, &w)
	return c.findings, err
}
