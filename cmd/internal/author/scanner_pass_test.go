package author

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/scanners"
)

// What the built-ins find behind the pass for their triggers is what they find without it, on every line of every
// labelled set.
func TestThePassHidesNothing(t *testing.T) {
	data := os.Getenv("YETT_DATA")
	if data == "" {
		t.Skip("YETT_DATA names no directory with labelled sets")
	}
	for _, name := range scanners.Names() {
		code, _ := scanners.Builtin(name)
		pair, err := loadPair(context.Background(), name, code, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if pair.pass == nil {
			t.Errorf("%s declares no triggers", name)
		}
		lines := 0
		for _, set := range []string{"secrets", "secrets_misc", "secrets_creddata", "pii", "pii_sentences", "injection",
			"benign_outputs"} {
			rows, err := readSet(t.Context(), filepath.Join(data, set+".jsonl.gz"))
			if err != nil {
				t.Fatal(err)
			}
			_, errs := pair.scan(context.Background(), rows)
			for i, err := range errs {
				if err != nil {
					t.Errorf("%s on row %d of %s: %v", name, i, set, err)
				}
			}
			lines += len(rows)
		}
		if lines < 10_000 {
			t.Errorf("only %d lines", lines)
		}
		if err := pair.close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
