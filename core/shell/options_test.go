package shell

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// nasty are words that write, run, reach out or are not what they look like, in one program or another.
var nasty = []string{
	"-U", "--output=F", "--output=../F", "--output", "../F", "-o", "-oF", "-o../F", "--eval=x", "-f", "-f../x.mk",
	"@file", "@../file", "--", "-", "-exec", "touch", "F", ";", "-delete", "-fprint", "--config=x", "--pre=touch",
	"-j", "--format", "--abbrev", "--unified", "-C", "-C3", "3", "-e", "-eF", "-n", "-nF", "-t", "-tr", "-k",
	"-S", "-L", "-L1,2:.env", "--ext-diff", "--textconv", "--no-index", "-O", "--contains", "-D", "--sort",
	"--delete", "-rf", "-ie", "-ne", "-xec", "--files0-from=x", "--rcfile=x", "-c", "-p", "-s", "-i", "-w", "-x",
	"-X", "--exec", "--file=../x", "deploy", "release", "install", "SHELL=x", "npm:evil", "https://x.y", "../x",
	"/etc/passwd", ".env", "a.go", "src", "HEAD", "HEAD~1", "test", ":(top)", ":/", "%n", "%d", "x[$(id)]",
	"--color", "--color=always", "--stat", "-la", "-1", "-99", "+5", "+x",
}

// declared are the options that lines of the table name for a command, read without readTable.
type declared struct {
	mode   string
	words  []string // as they are written, without marks
	getopt bool
}

// declaredOptions are those of each command with a class that rules permit.
func declaredOptions(t testing.TB) map[string][]declared {
	t.Helper()
	out := map[string][]declared{}
	for line := range strings.Lines(commandsText) {
		head, opts, _ := strings.Cut(strings.TrimSpace(line), "|")
		class, head, ok := strings.Cut(head, " ")
		mode, head, _ := strings.Cut(head, " ")
		if !ok || class == "#" || !Class(class).isProven() || mode == "name" || mode == "has" {
			continue
		}
		d := declared{mode: mode}
		for _, w := range strings.Fields(opts) {
			d.getopt = d.getopt || w == "getopt"
			if w != "-#" && !strings.HasPrefix(w, "--:") {
				w = strings.TrimRight(strings.TrimPrefix(w, "+"), ":=/#?!")
			}
			if w[0] == '-' {
				d.words = append(d.words, w)
			}
		}
		for _, key := range strings.FieldsFunc(strings.TrimSpace(head), func(r rune) bool { return r == ',' || r == '=' }) {
			out[strings.TrimSpace(key)] = append(out[strings.TrimSpace(key)], d)
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d commands", len(out))
	}
	return out
}

// names reports whether a line of the table names the option that a word is.
func (d *declared) names(w string) bool {
	long, _, _ := strings.Cut(w, "=")
	switch {
	case slices.Contains(d.words, long), strings.Trim(w[1:], "0123456789") == "" && slices.Contains(d.words, "-#"):
		return true
	case strings.HasPrefix(w, "--"), d.mode == "go", d.mode == "find":
		return d.mode == "find" && findNumber.MatchString(w)
	}
	letters := ""
	for _, o := range d.words {
		if !strings.HasPrefix(o, "--") && strings.HasPrefix(o, "-") {
			letters += o[1:]
		}
	}
	if !strings.Contains(letters, w[1:2]) {
		return false
	}
	// What follows the first letter is a number, or letters and values as getopt has them.
	return len(w) == 2 || d.getopt || strings.Trim(w[2:], "+0123456789") == ""
}

// accounts reports whether each word of a command is one that a line of the table has a place for.
func (d *declared) accounts(words []string) bool {
	for i, w := range words {
		if w == "--" {
			if slices.Contains(d.words, "--") {
				return true
			}
			return !slices.ContainsFunc(words[i+1:], func(w string) bool {
				return !slices.Contains(d.words, "--:"+w) && !(slices.Contains(d.words, "--:/") && strings.Contains(w, "/"))
			})
		}
		if len(w) > 1 && w[0] == '-' && !d.names(w) {
			return false
		}
	}
	return true
}

// quoted is a word as every shell reads it.
func quoted(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'"'"'`) + "'"
}

func wordsLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quoted(w)
	}
	return strings.Join(out, " ")
}

// checkOptions fails if a command of the table has a class that rules permit, and a word that its own line of the
// table does not name.
func checkOptions(t *testing.T, entries []declared, key string, words []string) bool {
	t.Helper()
	line := wordsLine(append(strings.Fields(key), words...))
	got := ReadLine(line, home)
	if !got.Class.isProven() {
		return false
	}
	// A longer command of the table may begin with the key.
	all := slices.Clone(entries)
	known := declaredCommands(t)
	for n := 1; n <= 2 && n <= len(words); n++ {
		all = append(all, known[key+" "+strings.Join(words[:n], " ")]...)
	}
	for _, d := range all {
		if d.mode == "any" || d.mode == "printf" || d.accounts(words) {
			return true
		}
	}
	t.Errorf("%s\nis %s, and no line of the table names all of its options", line, got.Class)
	return true
}

var knownCommands map[string][]declared

func declaredCommands(t testing.TB) map[string][]declared {
	if knownCommands == nil {
		knownCommands = declaredOptions(t)
	}
	return knownCommands
}

// TestOptionsAreNamed: a command with random options of its own, of others and of no one has a class only if its own
// line of the table names them all. A word that begins with a dash is never taken for a value.
func TestOptionsAreNamed(t *testing.T) {
	known := declaredCommands(t)
	var keys []string
	for key := range known {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	rnd := rand.New(rand.NewPCG(3, 4))
	rounds, proven := 200, 0
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		for _, key := range keys {
			if checkOptions(t, known[key], key, randomWords(rnd, known[key], known[keys[rnd.IntN(len(keys))]])) {
				proven++
			}
		}
	}
	if proven < rounds*len(keys)/20 {
		t.Errorf("of %d lines only %d have a class: they are too nasty", rounds*len(keys), proven)
	}
}

// randomWords are options of a command and of another, with and without values, and nasty words.
func randomWords(rnd *rand.Rand, own, other []declared) []string {
	var words []string
	for range rnd.IntN(4) {
		from := own[rnd.IntN(len(own))].words
		if rnd.IntN(8) == 0 {
			from = other[rnd.IntN(len(other))].words
		}
		w := nasty[rnd.IntN(len(nasty))]
		if rnd.IntN(3) > 0 && len(from) > 0 {
			w = from[rnd.IntN(len(from))]
		}
		switch n := nasty[rnd.IntN(len(nasty))]; rnd.IntN(6) {
		case 0:
			w += "=" + n
		case 1:
			w += n
		case 2:
			words = append(words, w)
			w = n
		}
		words = append(words, w)
	}
	return words
}

// FuzzOptions is TestOptionsAreNamed for any words, parted by spaces.
func FuzzOptions(f *testing.F) {
	for _, w := range nasty {
		f.Add("git diff", "-U "+w)
		f.Add("make", "-j "+w)
		f.Add("grep", w+" foo a.go")
		f.Add("pytest", "-k "+w)
	}
	known := declaredCommands(f)
	f.Fuzz(func(t *testing.T, key, words string) {
		if entries := known[key]; entries != nil {
			checkOptions(t, entries, key, strings.Fields(words))
		}
	})
}
