package httpd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/ops"
)

// golden is the document as clients see it in the repository.
var golden = filepath.Join("..", "..", "sdk", "wire", "openapi.json")

func TestOpenAPIIsGolden(t *testing.T) {
	got := OpenAPI("golden")
	if !bytes.Equal(got, OpenAPI("golden")) {
		t.Fatal("two documents of one program differ")
	}
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what this program serves; look at the change, and GOLDEN=write go test ./core/httpd writes it",
			golden)
	}
}

// TestOpenAPIIsWhole checks that every operation is there and that every reference leads somewhere.
func TestOpenAPIIsWhole(t *testing.T) {
	var doc struct {
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]any }
	}
	text := OpenAPI("1")
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for i := range ops.Table {
		op := &ops.Table[i]
		if op.Path != "" && doc.Paths[op.Path][strings.ToLower(op.Method)].OperationID != op.Name {
			t.Errorf("%s %s is not described", op.Method, op.Path)
		}
	}
	refs := 0
	for rest := string(text); ; refs++ {
		var name string
		var ok bool
		if _, rest, ok = strings.Cut(rest, `"#/components/schemas/`); !ok {
			break
		}
		if name, rest, _ = strings.Cut(rest, `"`); doc.Components.Schemas[name] == nil {
			t.Errorf("there is no schema %s", name)
		}
	}
	if refs == 0 {
		t.Error("no references at all")
	}
}
