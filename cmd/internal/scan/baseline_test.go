package scan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBaseline: what is known stays known when lines and folders of the caller change, and nothing else is known.
func TestBaseline(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": assigned(1) + "\n" + assigned(2) + "\n" + assigned(1) + "\n",
		"sub/b": assigned(1) + "\n"})
	write := []string{"--baseline", "known.json", "--write-baseline", "."}
	run(t, dir, "", write...).want(t, 0, "", "4 in the baseline", "wrote 4 findings to known.json")
	check := []string{"--baseline", "known.json", "."}
	run(t, dir, "", check...).want(t, 0, "", "0 findings, 4 in the baseline")
	run(t, filepath.Join(dir, "sub"), "", "--baseline", "../known.json", ".").want(t, 0, "", "1 in the baseline")
	run(t, t.TempDir(), "", "--baseline", filepath.Join(dir, "known.json"), dir).want(t, 0, "", "4 in the baseline")

	plant(t, dir, map[string]string{"a": "\n\n  " + assigned(2) + "\n" + assigned(1) + "\nx\n" + assigned(1) + "\n"})
	run(t, dir, "", check...).want(t, 0, "", "0 findings, 4 in the baseline")
	plant(t, dir, map[string]string{"a": assigned(1) + "\n" + assigned(1) + "\n" + assigned(1) + "\n" + assigned(3) + "\n",
		"sub/c": assigned(1) + "\n"})
	run(t, dir, "", check...).want(t, 1, found("a", 3, 1)+found("a", 4, 3)+found("sub/c", 1, 1),
		"3 in the baseline, 1 in the baseline and not in the files")

	first, err := os.ReadFile(filepath.Join(dir, "known.json"))
	must(t, err)
	run(t, dir, "", write...).want(t, 0, "", "wrote 6 findings")
	run(t, dir, "", check...).want(t, 0, "", "0 findings")
	second, err := os.ReadFile(filepath.Join(dir, "known.json"))
	must(t, err)
	if string(first[:60]) != string(second[:60]) {
		t.Errorf("the salt has changed, and with it every line:\n%s\n%s", first, second)
	}

	plant(t, dir, map[string]string{"bin": "a\x00"})
	r := run(t, dir, "", append(write, "bin")...)
	r.want(t, 3, "", "NOT SCANNED bin", "known.json was not written")
	third, err := os.ReadFile(filepath.Join(dir, "known.json"))
	must(t, err)
	if string(third) != string(second) {
		t.Error("a baseline of a part was written")
	}
}

// TestBaselineSaysNothing: without a key it keeps 16 bits of a value, whose hash takes long and is another one in every
// baseline; with a key it keeps nothing that can be tried without it.
func TestBaselineSaysNothing(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": assigned(1) + "\n", "b": assigned(1) + "\n", "k1": "one key, which is secret",
		"k2": "another key, secret too"})
	value1 := map[string]bool{}
	for _, args := range [][]string{{"x.json"}, {"y.json"}, {"k.json", "--baseline-key", "k1"},
		{"l.json", "--baseline-key", "k1"}} {
		args = append([]string{"--write-baseline", "a", "b", "--baseline"}, args...)
		run(t, dir, "", args...).want(t, 0, "", "wrote 2 findings")
	}
	for name, size := range map[string]int{"x.json": 4, "y.json": 4, "k.json": 32, "l.json": 32} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		var doc baselineDoc
		must(t, json.Unmarshal(text, &doc))
		for _, f := range doc.Findings {
			if len(f.Value) != size {
				t.Errorf("%s keeps %d digits of a value", name, len(f.Value))
			}
			value1[f.Value] = true
		}
		if strings.Contains(string(text), value(1)) || len(doc.Salt) != 32 || doc.Keyed != (size == 32) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if len(value1) != 4 {
		t.Errorf("one value has the hashes %v in four baselines", value1)
	}
	run(t, dir, "", "--baseline", "k.json", "a").want(t, 2, "", "was written with a key")
	run(t, dir, "", "--baseline", "x.json", "--baseline-key", "k1", "a").want(t, 2, "", "was written without a key")
	run(t, dir, "", "--baseline", "k.json", "--baseline-key", "k2", "a").want(t, 1, found("a", 1, 1))
	run(t, dir, "", "--baseline", "k.json", "--baseline-key", "k1", "a").want(t, 0, "", "1 in the baseline")
}

// TestBaselineSlow: the hash that can be tried is no fast one, whatever the machine.
func TestBaselineSlow(t *testing.T) {
	slow(t)
	b := &baseline{salt: make([]byte, saltSize), tags: map[string]string{}}
	tried := 0
	used := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for range tb.N {
			tried++
			b.tag(fmt.Sprint(tried))
		}
	})
	if least := int64(16 << 20); used.AllocedBytesPerOp() < least {
		t.Errorf("a hash takes %d bytes of memory, want at least %d", used.AllocedBytesPerOp(), least)
	}
}

// TestBaselineStaged: what a whole scan has written is known to a scan of the index.
func TestBaselineStaged(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	plant(t, dir, map[string]string{"sub/a": assigned(1) + "\n"})
	run(t, dir, "", "--baseline", "known.json", "--write-baseline", ".").want(t, 0, "", "wrote 1 finding")
	gitIn(t, dir, "add", ".")
	run(t, filepath.Join(dir, "sub"), "", "--baseline", "../known.json", "--staged").want(t, 0, "", "1 in the baseline")
}

func FuzzBaseline(f *testing.F) {
	f.Add([]byte(`{"version":1,"salt":"00112233445566778899aabbccddeeff","keyed":false,` +
		`"findings":[{"file":"a","kind":"K","value":"00ff","count":2}]}`))
	f.Add([]byte(`{"version":1}{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := &baseline{path: "f", left: map[known]int{}, kinds: map[known]bool{}}
		if err := b.read(text, false); err != nil {
			if !strings.Contains(err.Error(), "f ") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		for k, n := range b.left {
			if n < 1 || len(k.Value) != 2*shortTag || !b.kinds[known{File: k.File, Kind: k.Kind}] || len(b.salt) != saltSize {
				t.Errorf("%q: %+v %d", text, k, n)
			}
		}
	})
}
