package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/scanner"
)

func runner(t testing.TB, config string) *scanner.Runner {
	t.Helper()
	r, err := scanner.New(spec, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func scanFor(t testing.TB, r *scanner.Runner, text string) []sdk.Finding {
	t.Helper()
	found, err := r.Scan([]byte(text))
	if err != nil {
		t.Fatalf("%v in %.200q", err, text)
	}
	return found
}

// expand makes the text of one case from its notation and gives the marked spans.
func expand(line string, seed int64) (text string, marks [][2]int) {
	line = strings.NewReplacer(`\n`, "\n", "¶", "").Replace(line)
	for {
		before, rest, marked := strings.Cut(line, "⟦")
		text += before
		if !marked {
			return text, marks
		}
		inside, after, _ := strings.Cut(rest, "⟧")
		start := len(text)
		text += sampleOf(inside, seed)
		marks = append(marks, [2]int{start, len(text)})
		line, seed = after, seed+1
	}
}

// cases reads the lines of a folder of texts, comments left out.
func cases(t *testing.T, folder string) (lines []string) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", folder, err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(f)
		for in.Scan() {
			if line := in.Text(); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if err := f.Close(); err != nil || in.Err() != nil {
			t.Fatal(err, in.Err())
		}
	}
	return lines
}

func TestHits(t *testing.T) {
	r := runner(t, "")
	for _, line := range cases(t, "hit") {
		kind, notation, ok := strings.Cut(line, " | ")
		if !ok {
			t.Fatalf("not KIND | text: %s", line)
		}
		for seed := range int64(20) {
			text, marks := expand(notation, seed*100)
			found := scanFor(t, r, text)
			if len(found) != len(marks) {
				t.Errorf("%s: want %d findings, got %+v\n%s", kind, len(marks), found, text)
				break
			}
			for i, f := range found {
				if f.Kind != "SECRET_"+kind || f.Start != marks[i][0] || f.End != marks[i][1] {
					t.Errorf("%s: want %v, got %s %d…%d\n%s", kind, marks[i], f.Kind, f.Start, f.End, text)
				}
			}
		}
	}
}

func TestClean(t *testing.T) {
	r := runner(t, "")
	for _, line := range cases(t, "clean") {
		for seed := range int64(20) {
			text, _ := expand(line, seed*100)
			if found := scanFor(t, r, text); len(found) > 0 {
				t.Errorf("found %+v in\n%s", found, text)
				break
			}
		}
	}
}

// Every pattern of every token rule finds its own samples, whole, and nothing of the kind in what only resembles them.
func TestTokenRules(t *testing.T) {
	r := runner(t, "")
	for _, rule := range tokenRules {
		for i, src := range rule.patterns {
			misses := 0
			for seed := range int64(50) {
				sample := strings.TrimRight(sampleOf(src, seed), "=-_.")
				if rule.kind == "ANTHROPIC_API_KEY" && len(sample) > 100 {
					sample = sample[:len(sample)-2] + "AA"
				}
				text := "see " + sample + " there"
				if !hasSpan(scanFor(t, r, text), 4, 4+len(sample)) {
					misses++
				}
				for _, no := range lookalikes(src, sample) {
					for _, f := range scanFor(t, r, no) {
						if f.Kind == "SECRET_"+rule.kind {
							t.Errorf("%s %s: found in %q", rule.kind, src, no)
						}
					}
				}
			}
			if misses > 5 { // chance makes a sample too plain now and then
				t.Errorf("%s pattern %d %s: %d of 50 samples missed", rule.kind, i, src, misses)
			}
		}
	}
}

func hasSpan(found []sdk.Finding, start, end int) bool {
	for _, f := range found {
		if f.Start <= start && f.End >= end {
			return true
		}
	}
	return false
}

// lookalikes are texts that no rule may take for the sample: part of a longer word, masked.
func lookalikes(src, sample string) []string {
	p := compile(src)
	no := []string{"Abc" + sample}
	if p.leftLen == 0 && !strings.Contains(src, ":0-") && len(sample) >= len(p.lit)+20 {
		no = append(no, p.lit+strings.Repeat("x", len(sample)-len(p.lit)), p.lit+strings.Repeat("*", 8))
	}
	if strings.HasPrefix(src, "hooks.") || strings.HasPrefix(src, "discord") || strings.HasPrefix(src, "webhook.") ||
		p.leftLen > 0 || p.lit[0] < '0' {
		return no[1:] // a host name may have something in front of it
	}
	return no
}

// Every vendor's value is found under the vendor's name in every syntax, and not under another.
func TestVendorRules(t *testing.T) {
	r := runner(t, "")
	syntaxes := []string{
		"%sToken = \"%s\"", "%s_TOKEN='%s'", "\"%s_token\": \"%s\"", "%sToken := `%s`", "\"%sToken\" => \"%s\"",
		"var %sToken string = \"%s\"", "<%sToken>\n    %s\n</x>", "set(\"%s_TOKEN\", \"%s\")", "%s_token: %s",
		"%s_TOKEN ?= \"%s\"",
	}
	for _, rule := range vendorRules {
		for _, src := range rule.patterns {
			misses, tries := 0, 0
			for i, syntax := range syntaxes {
				value := sampleOf(src, int64(i))
				text := fmt.Sprintf(syntax, rule.names[0], value)
				at := strings.Index(text, value)
				tries++
				if !hasSpan(scanFor(t, r, text), at, at+len(value)) {
					misses++
				}
				for _, f := range scanFor(t, r, fmt.Sprintf(syntax, "colour", strings.Repeat("x", len(value)))) {
					t.Errorf("%s: %+v under another name", rule.kind, f)
				}
			}
			if misses > 2 {
				t.Errorf("%s %s: %d of %d missed", rule.kind, src, misses, tries)
			}
		}
	}
}

func TestThereAreEnoughKinds(t *testing.T) {
	if n := len(kinds()); n < 100 {
		t.Errorf("%d kinds, want at least 100", n)
	}
	for _, k := range kinds() {
		if strings.Trim(k.Name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || !strings.HasPrefix(k.Name, "SECRET_") {
			t.Errorf("kind %q is not SECRET_UPPER_SNAKE", k.Name)
		}
	}
}

// keyLines are the lines of a private key's body.
func keyLines(n int) (lines []string) {
	for i := range n {
		lines = append(lines, sampleOf("<s:64>", int64(i)))
	}
	return append(lines, sampleOf("<s:20>", 99))
}

// A private key is found whole, whatever a log has written before and behind its lines.
func TestKeysInLogs(t *testing.T) {
	r := runner(t, "")
	begin, end := "-----BEGIN RSA PRIV"+"ATE KEY-----", "-----END RSA PRIV"+"ATE KEY-----"
	for name, c := range map[string]struct {
		before, behind, blank string
	}{
		"syslog":       {before: "Nov 26 01:00:00 host sshd[12345]: "},
		"kubectl":      {before: "[pod/web-7d9f8b6c5d-x2abc/web] "},
		"a log driver": {before: `{"log":"`, behind: `\n","stream":"stdout"}`},
		"deep":         {before: strings.Repeat(" ", 80)},
		"far":          {blank: strings.Repeat("\n", 100)},
		"a header":     {blank: "Comment: this is an example of a header that somebody has written here, for whatever it may be good\n"},
	} {
		text := "see\n" + c.before + begin + c.behind + "\n" + c.blank
		for _, l := range keyLines(25) {
			text += c.before + l + c.behind + "\n"
		}
		at := strings.Index(text, begin)
		for ending, rest := range map[string]string{"whole": c.before + end, "cut": ""} {
			found := scanFor(t, r, text+rest)
			last := strings.LastIndex(text, keyLines(25)[24]) + 64
			if rest != "" {
				last = len(text + rest)
			}
			if !hasSpan(found, at, last) {
				t.Errorf("%s, %s: %+v, want %d…%d", name, ending, found, at, last)
			}
		}
	}
	foreign := "[x] " + begin + "\n[y] -----END CERTIFICATE-----\n[y] -----BEGIN CERTIFICATE-----\n"
	for _, l := range keyLines(25) {
		foreign += "[x] " + l + "\n"
	}
	if foreign += "[x] " + end; !hasSpan(scanFor(t, r, foreign), 4, len(foreign)) {
		t.Errorf("a log in which two programs write: %+v", scanFor(t, r, foreign))
	}
	narrow := begin + "\n"
	for i := range 60 {
		narrow += "[x] " + sampleOf("<w:24>", int64(i)) + "\n"
	}
	if narrow += "[x] " + end; !hasSpan(scanFor(t, r, narrow), 0, len(narrow)) {
		t.Errorf("lines of 24 bytes: %+v", scanFor(t, r, narrow))
	}
	prose := strings.Repeat("A gateway must resist each attempt to persuade it, and prove its answers later. ", 300)
	for _, text := range []string{
		"A key file begins with " + begin + " and ends likewise. " + prose,
		"A key file begins with " + begin + " and ends likewise. " + prose[:5000],
		begin + "\n[cut]\n" + end + "\n" + strings.Join(keyLines(5), "\n"),
		`if strings.HasPrefix(s, "` + begin + `") { x509.ParsePKCS1PrivateKeyWithPassword(block); return }` + "\n\n" + `"` + end + `"`,
		begin + "\n{{ .Values.key }}\n" + end,
		"A key begins with " + begin + " [1] and holds base64.\nSee https://example.com/a/long/path/to/the/documentation/of/keys [2]\n",
	} {
		if found := scanFor(t, r, text); len(found) > 0 {
			t.Errorf("%+v in %s", found, text)
		}
	}
}

// What is longer than a finding may be fails the scan: redacted in part, the rest would be let through.
func TestLongValuesFail(t *testing.T) {
	r := runner(t, "")
	begin, end := "-----BEGIN PGP PRIV"+"ATE KEY BLOCK-----\n\n", "\n-----END PGP PRIV"+"ATE KEY BLOCK-----"
	body := strings.Join(keyLines(400), "\n")
	texts := map[string]string{
		"key":          begin + body + end,
		"key in a log": strings.ReplaceAll("\n"+begin+body+end, "\n", "\n[x] "),
		"token":        sampleOf("eyJhbGciOiJIUzI1NiJ9.eyJ<w:20000>.<w:43>", 1),
	}
	for n := range 200 { // wherever the cut falls: in a prefix, a line, between two
		long := strings.ReplaceAll("\n"+begin+strings.Repeat("y", n)+"\n"+body+end, "\n", "\n[pod/web x] ")
		if found, err := r.Scan([]byte(long)); err == nil {
			t.Errorf("a cut %d bytes further: %+v", n, found)
		}
	}
	for name, text := range texts {
		if found, err := r.Scan([]byte(text)); err == nil || !strings.Contains(err.Error(), "more than 16384 bytes") {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	if found := scanFor(t, r, begin+strings.Join(keyLines(240), "\n")+end); len(found) != 1 {
		t.Errorf("a key of 15 KB: %+v", found)
	}
	off := runner(t, `{"disable":["SECRET_PRIVATE_KEY","SECRET_JWT"]}`)
	for name, text := range texts {
		if _, err := off.Scan([]byte(text)); err != nil {
			t.Errorf("%s, disabled: %v", name, err)
		}
	}
}

// Every kind has lines of its own in both folders: of what it is, and of what only looks like it.
func TestEveryKindHasItsLines(t *testing.T) {
	hit := map[string]bool{}
	for _, line := range cases(t, "hit") {
		kind, _, _ := strings.Cut(line, " | ")
		hit[kind] = true
	}
	doc, err := os.ReadFile(filepath.Join("testdata", "clean", "kinds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		name := strings.TrimPrefix(k.Name, "SECRET_")
		if !hit[name] && name != exampleKind { // whose values stand nowhere
			t.Errorf("%s: no line in testdata/hit", name)
		}
		if !strings.Contains(string(doc), "# "+name+"\n") {
			t.Errorf("%s: no lines in testdata/clean/kinds.txt", name)
		}
	}
}

// Of the rules that two other scanners come with, nine in ten have a kind here, and that has its lines.
func TestCoverageOfOthers(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("testdata", "coverage.txt"))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, k := range kinds() {
		have[strings.TrimPrefix(k.Name, "SECRET_")] = true
	}
	rules, covered := 0, 0
	for line := range strings.Lines(string(doc)) {
		if line[0] == '#' {
			continue
		}
		rule, kind, ok := strings.Cut(strings.TrimSpace(line), " | ")
		if !ok || kind != "-" && !have[kind] {
			t.Errorf("%s: no kind %s", rule, kind)
		}
		rules++
		if kind != "-" {
			covered++
		}
	}
	if covered*10 < rules*9 {
		t.Errorf("%d of %d rules have a kind", covered, rules)
	}
	t.Logf("%d of %d rules have a kind", covered, rules)
}
