package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/scanner"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{``, ""}, {`{}`, ""}, {`{"disable":["SECRET_JWT"],"min_entropy":4}`, ""},
		{`{"disabled":[]}`, "disabled: unknown key; known are disable and min_entropy"},
		{`{"disable":["SECRET_NOPE"]}`, "disable: unknown kind SECRET_NOPE"},
		{`{"disable":"SECRET_JWT"}`, "disable: must be an array of strings"},
		{`{"min_entropy":"4"}`, "min_entropy: must be a number"},
		{`{"min_entropy":9}`, "min_entropy: must be between 0 and 8"},
		{`{"min_entropy":4,"min_entropy":5}`, "min_entropy: given twice"},
		{`[]`, "not a JSON object"}, {`{"min_entropy":4} x`, "data after the JSON object"},
	} {
		_, err := scanner.New(spec, []byte(c.config))
		if got := strings.TrimPrefix(fmt.Sprint(err), "config: "); c.want == "" && err != nil ||
			c.want != "" && got != c.want {
			t.Errorf("%s: got %v, want %q", c.config, err, c.want)
		}
	}
	config = settings{minEntropy: defaultEntropy}
}

func TestDisabledKindStaysAway(t *testing.T) {
	text := "token = \"" + sampleOf("ghp_<w:36>", 1) + "\""
	if found := scanFor(t, runner(t, ""), text); len(found) != 1 || found[0].Kind != "SECRET_GITHUB_PAT" {
		t.Fatalf("found %+v", found)
	}
	if found := scanFor(t, runner(t, `{"disable":["SECRET_GITHUB_PAT"]}`), text); len(found) != 0 {
		t.Errorf("a disabled kind came back as %+v", found)
	}
	runner(t, "")
}

// More findings than a call may have: the last one covers the rest, whole.
func TestManyFindingsLoseNothing(t *testing.T) {
	r := runner(t, "")
	var text strings.Builder
	var ends []int
	for i := range 400 {
		text.WriteString("see " + sampleOf("ghp"+"_<w:36>", int64(i)))
		ends = append(ends, text.Len())
		text.WriteString("\n")
	}
	found := scanFor(t, r, text.String())
	if len(found) != scanner.MaxFindings {
		t.Fatalf("%d findings, want %d", len(found), scanner.MaxFindings)
	}
	for i, end := range ends {
		if !hasSpan(found, end-40, end) {
			t.Fatalf("secret %d is not covered", i)
		}
	}
}

func TestSpansStayWithinLookbehind(t *testing.T) {
	r := runner(t, "")
	long := strings.Repeat(sampleOf("<w:64>", 3)+"\n", 2000)
	for name, text := range map[string]string{
		"pem":   "-----BEGIN PRIV" + "ATE KEY-----\n" + long,
		"jwt":   "ey" + "J" + strings.ReplaceAll(long, "\n", "") + ".ey" + "J" + strings.ReplaceAll(long, "\n", ""),
		"value": "token = \"" + strings.ReplaceAll(long, "\n", "") + "\"",
		"fly":   "fm2_" + strings.ReplaceAll(long, "\n", ""),
	} {
		found, err := r.Scan([]byte(text))
		if err != nil && !strings.Contains(err.Error(), "its end would be let through") {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range found {
			if f.End-f.Start > maxSpan {
				t.Errorf("%s: a finding of %d bytes", name, f.End-f.Start)
			}
			t.Logf("%s: %d of %d bytes", name, f.End-f.Start, len(text))
		}
	}
	if len(scanFor(t, r, "-----BEGIN PRIV"+"ATE KEY-----\n"+long[:8000])) == 0 {
		t.Error("a key without an end in sight was not found")
	}
}

// hostHits is what a host sends: every occurrence of every trigger, found in the simplest way, in an order of its own.
func hostHits(text []byte) []byte {
	low := bytes.Clone(text)
	for i, c := range low {
		low[i] = lower(c)
	}
	var hits []byte
	for t := len(spec.Triggers) - 1; t >= 0; t-- {
		trigger := spec.Triggers[t]
		hay := text
		if trigger.Fold {
			hay = low
		}
		for at := 0; ; at++ {
			i := bytes.Index(hay[at:], []byte(trigger.Literal))
			if i < 0 {
				break
			}
			at += i
			hits = binary.LittleEndian.AppendUint32(hits, uint32(t))
			hits = binary.LittleEndian.AppendUint32(hits, uint32(at))
		}
	}
	return hits
}

// check runs what must hold for every text.
func check(t *testing.T, r *scanner.Runner, text []byte) []sdk.Finding {
	found, err := r.Scan(text)
	if err != nil {
		t.Fatal(err)
	}
	with, err := r.ScanHits(text, hostHits(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(found, with) {
		t.Fatalf("without hits %+v, with hits %+v", found, with)
	}
	for _, f := range found {
		if f.Start < 0 || f.End > len(text) || f.Start >= f.End {
			t.Fatalf("bad span %+v in %d bytes", f, len(text))
		}
	}
	return found
}

func TestSameWithAndWithoutHits(t *testing.T) {
	r := runner(t, "")
	n := 0
	for _, folder := range []string{"hit", "clean"} {
		for _, line := range cases(t, folder) {
			text, _ := expand(line, 7)
			n += len(check(t, r, []byte(text)))
		}
	}
	if n == 0 {
		t.Error("nothing was found at all")
	}
}

// A text that repeats a trigger must not be read again for each; BenchmarkHostile measures that, this scans them all.
func TestHostileRepetition(t *testing.T) {
	if testing.Short() {
		t.Skip("texts that take long")
	}
	r := runner(t, "")
	for _, unit := range hostile {
		found := scanFor(t, r, strings.Repeat(unit, 1<<20/len(unit)))
		for _, f := range found {
			if f.End-f.Start > maxSpan && len(found) < scanner.MaxFindings {
				t.Errorf("%q: %+v", unit, f)
			}
		}
	}
}

var hostile = []string{
	"-----BEGIN PRIV" + "ATE KEY-----", "-----BEGIN ", "curl -H ", "ey" + "J-", "ey" + "J.", "ZX" + "lK-",
	"kind: Secret\n", "kind: Secret\ndata:\n a: q1w2e3r4t5y6\n",
	"kty", "\"kty\":", "key=", "key=\"", "token:", "://a:", "Basic a", "bearer a", "Private-Lines: 1\n", "glpat-", "ya29.",
	"fm2_", "xoxb-1", "aws_key=", "facebook 1", "token token=",
	"Z2hw" + "X", "Z2hw" + "XzEy", "676870" + "5f", "https%3a%2f%2fa:", "gh" + "p_\\\n", "gl" + "pat-aaaaaaaa\n",
	"wallet ",
	"0xwallet", "MTk4", "AzFu", "token={\"a", "password \"a", "\"a\" == password",
	"ey" + "J0.a.", "key=[(", "sk-proj-\" + \"",
	"sig=", "mysql ", "mysql -p", "login a password b3", "cookie:", "cookie: sid=a;",
}

func BenchmarkHostile(b *testing.B) {
	for _, unit := range hostile {
		b.Run(fmt.Sprintf("%.40q", unit), func(b *testing.B) {
			benchmarkScan(b, []byte(strings.Repeat(unit, 64<<10/len(unit))))
		})
	}
}

func FuzzScan(f *testing.F) {
	for _, line := range []string{"token = \"⟦<a:32>⟧\"", "https://a:⟦<a:12>⟧@h/", "curl -u ⟦a:<a:12>⟧", "kind: Secret\ndata:\n  a: ⟦<a:24>⟧", "-----BEGIN RSA PRIV" + "ATE KEY-----\n⟦<a:80>⟧", "ey⟦J<a:20>.ey<a:30>.<a:40>⟧", "{\"kty\":\"EC\",\"d\":\"⟦<w:43>⟧\"}",
		"a%3A%2F%2Fb:⟦<w:12>⟧%40c", "x = \"gh" + "p_⟦<w:16>⟧\" + \"⟦<w:20>⟧\"", "wallet 0x⟦<x:64>⟧"} {
		text, _ := expand(line, 1)
		f.Add([]byte(text))
	}
	r := runner(f, "")
	f.Fuzz(func(t *testing.T, text []byte) { check(t, r, text) })
}

// A program that names the header of a key is no key, however long it goes on, also where hashes stand in it.
func TestProgramsThatNameKeys(t *testing.T) {
	header := "const begin = \"-----BEGIN RSA " + "PRIVATE KEY-----\"\n"
	line := "func handleRequestV2Name(ctx context.Context) error { return verifySHA256Digest1(ctx, readHeader, length) }\n"
	sum := "\t\"q1mFhXz0TjW8Lr2Kc5Vb\": parse, // a sum, and why it is here: the reader that follows has to know it\n"
	for name, text := range map[string]string{
		"code":            header + strings.Repeat(line, 400),
		"code with sums":  header + strings.Repeat(line+line+line+sum, 100),
		"sums far behind": header + strings.Repeat("words of prose go on and on. ", 30) + strings.Repeat(sum, 300),
	} {
		found, err := scanner.Run(spec, nil, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range found {
			if f.Kind == "SECRET_PRIVATE_KEY" {
				t.Errorf("%s: a key of %d bytes", name, f.End-f.Start)
			}
		}
	}
}
