package prefilter

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// corpus gives the texts of one of the labelled files, in order; nil if YETT_DATA does not say where they are.
func corpus(tb testing.TB, name string) []string {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		return nil
	}
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	var texts []string
	lines := bufio.NewScanner(plain)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row struct{ Text, Context string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		texts = append(texts, row.Text)
		if row.Context != "" {
			texts = append(texts, row.Context)
		}
	}
	if err := lines.Err(); err != nil || len(texts) == 0 {
		tb.Fatalf("%s: %d texts, error %v", name, len(texts), err)
	}
	return texts
}

// benignTexts joins the real tool outputs to texts of about 64 KiB.
func benignTexts(tb testing.TB) []string {
	var texts []string
	var b strings.Builder
	for _, t := range corpus(tb, "benign_outputs.jsonl.gz") {
		b.WriteString(t)
		if b.Len() >= benchText {
			texts = append(texts, b.String())
			b.Reset()
		}
	}
	if b.Len() > 0 {
		texts = append(texts, b.String())
	}
	return texts
}

// secretsTriggers asks the built-in scanner for its triggers.
func secretsTriggers(tb testing.TB) []abi.Trigger {
	describe := exec.Command("go", "run", "./scanners/secrets", "-describe")
	describe.Dir = filepath.Join("..", "..")
	doc, err := describe.Output()
	if err != nil {
		tb.Fatalf("describe scanners/secrets: %v", err)
	}
	var meta abi.Metadata
	if err := json.Unmarshal(doc, &meta); err != nil {
		tb.Fatal(err)
	}
	if len(meta.Triggers) == 0 {
		tb.Fatal("scanners/secrets has no triggers")
	}
	return meta.Triggers
}

// TestCorpora compares with what a guest finds, on every text of the labelled sets and on all of them joined.
func TestCorpora(t *testing.T) {
	if os.Getenv("YETT_DATA") == "" {
		t.Skip("YETT_DATA names no directory with the labelled sets")
	}
	triggers := append(secretsTriggers(t), builtinClasses...)
	guest, a := asScanner(t, triggers), compile(t, triggers)
	var f Found
	for _, name := range []string{
		"secrets.jsonl.gz", "secrets_misc.jsonl.gz", "secrets_creddata.jsonl.gz", "pii.jsonl.gz", "pii_sentences.jsonl.gz",
		"injection.jsonl.gz", "benign_outputs.jsonl.gz",
	} {
		texts := corpus(t, name)
		hits := 0
		for i, text := range append(texts, strings.Join(texts, "\n")) {
			want := guest(text)
			a.Find(text, &f)
			same(t, &f, [][]Hit{want}, fmt.Sprintf("%s, text %d", name, i))
			hits += len(want)
		}
		t.Logf("%s: %d texts, %d hits", name, len(texts), hits)
	}
}
