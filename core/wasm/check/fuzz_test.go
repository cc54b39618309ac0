package check

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
)

// FuzzCheck holds what is let in against the compiler: it accepts the rewritten module exactly when it accepts the
// original, and both behave alike.
func FuzzCheck(f *testing.F) {
	f.Add(guest().encode())
	for _, c := range deep() {
		f.Add(one(c).encode())
	}
	f.Add(one(fn{params: "i", locals: 2, code: counting(blk(i32(0), []byte{opBrTable, 1, 0, 1}),
		length(9, 0xfc, 11, 0))}).encode())
	f.Add(one(fn{code: cat(i32(0), []byte{opIf, 0x40}, op(opBr, 0), []byte{opElse}, loop(i32(0), op(opBrIf, 1)),
		[]byte{opEnd})}).encode())
	if b, err := os.ReadFile("testdata/automaton.wasm"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return // large ones only make the search slow
		}
		m, err := checkCore(wasm)
		if err != nil {
			if !errors.As(err, new(*Refusal)) {
				t.Fatalf("error of another type: %v", err)
			}
			return
		}
		original := m.Original()
		again, err := checkCore(original)
		if err != nil || string(again.Original()) != string(original) {
			t.Fatalf("what is compiled is another module: %v", err)
		}
		ctx := context.Background()
		rt := newRuntime(ctx)
		defer rt.Close(ctx)
		_, oerr := rt.CompileModule(ctx, original)
		_, merr := rt.CompileModule(ctx, m.Metered())
		if (oerr == nil) != (merr == nil) {
			t.Fatalf("original %v, metered %v", oerr, merr)
		}
		if _, err := Check(wasm, Limits{Pages: 16}); err == nil && !m.shape.has[secExport] {
			t.Fatal("let in without an export")
		}
		if oerr != nil || m.shape.hasStart || len(m.shape.imports) > 0 {
			return
		}
		spare := map[string]bool{}
		got := outcomes(t, m.Metered(), true, spare)
		want := outcomes(t, original, false, spare)
		if !slices.Equal(got, want) {
			t.Fatalf("metered %q\noriginal %q", got, want)
		}
	})
}
