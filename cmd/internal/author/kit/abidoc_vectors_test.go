package kit

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
)

// abiBlock is a block of the ABI's document.
func abiBlock(t *testing.T, doc []byte, kind string) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```" + kind + "\n(.*?)^```$").FindSubmatch(doc)
	if m == nil {
		t.Fatalf("the document has no block %q", kind)
	}
	return string(m[1])
}

// TestABIDocumentVectors runs the vectors that the document gives on the module that it gives.
func TestABIDocumentVectors(t *testing.T) {
	doc, err := os.ReadFile("../../../../sdk/abi/README.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := hex.DecodeString(strings.Join(strings.Fields(abiBlock(t, doc, "hex-module")), ""))
	if err != nil {
		t.Fatal(err)
	}
	v, err := ParseVectors("README.md", []byte(abiBlock(t, doc, "vectors")))
	if err != nil || len(v.List) < 4 {
		t.Fatalf("%+v %v", v, err)
	}
	settings := Settings{CheckConfig: config.CheckModule}
	rep, err := settings.Test(t.Context(), Module{Name: "bang", Path: "bang.wasm", Code: code}, []*Vectors{v})
	if err != nil || !rep.OK {
		t.Errorf("%+v %v", rep, err)
	}
}
