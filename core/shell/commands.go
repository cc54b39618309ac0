package shell

import (
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed commands.txt
var commandsText string

// entry is what a line of commands.txt says of a command.
type entry struct {
	class   Class
	mode    string
	options map[string]option
	getopt  bool            // short options may share a word, and a value may stand in the word of its option
	digits  bool            // -5 is an option
	dashes  bool            // operands may follow --
	behind  []string        // what may follow -- instead
	must    []string        // one of these options has to be there
	allowed map[string]bool // the operands, in mode words
}

const maxKey = 3 // words of the longest command in the table

// table are the entries by the words of their command.
var table = sync.OnceValue(func() map[string][]entry {
	entries, err := readTable(commandsText)
	if err != nil { // TestEveryCommand reads it too
		return nil // nothing is known, so nothing is proven
	}
	return entries
})

// modes say how the operands of a command are read.
var modes = []string{"paths", "files", "text", "any", "pattern", "none", "names", "urls", "packages", "targets",
	"script", "words", "numbers", "revs", "go", "find", "sed", "awk", "jq", "printf", "test", "chmod", "date", "name",
	"has"}

// readTable reads lines of the form `class mode command… | option…`.
func readTable(text string) (map[string][]entry, error) {
	out := map[string][]entry{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		head, options, _ := strings.Cut(line, "|")
		fields := strings.Fields(head)
		if len(fields) < 3 || !slices.Contains(modes, fields[1]) {
			return nil, fmt.Errorf("%q: expected CLASS MODE COMMAND… | OPTION…", line)
		}
		e := entry{class: Class(fields[0]), mode: fields[1], options: map[string]option{}, allowed: map[string]bool{}}
		for _, opt := range strings.Fields(options) {
			if err := e.addOption(opt); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		}
		keys := strings.Split(strings.Join(fields[2:], " "), " , ")
		for _, key := range keys {
			if !e.mayShare(keys[0], key) {
				return nil, fmt.Errorf("%q: %q and %q are two programs: give each its own options", line, keys[0], key)
			}
			for _, name := range strings.Split(key, " = ") {
				if strings.Count(name, " ") >= maxKey {
					return nil, fmt.Errorf("%q: a command of more than %d words", line, maxKey)
				}
				out[name] = append(out[name], e)
			}
		}
	}
	return out, nil
}

// mayShare reports whether two commands may have one entry: they are of one program, or the entry has no options.
func (e *entry) mayShare(a, b string) bool {
	first, _, _ := strings.Cut(a, " ")
	second, _, _ := strings.Cut(b, " ")
	return first == second || len(e.options) == 0 && !e.digits && !e.getopt
}

// lookup gives the entries of the longest known command that words begin with, and how many words that is.
func lookup(words []string) ([]entry, int) {
	words = slices.Concat([]string{programName(words[0])}, words[1:min(len(words), maxKey)])
	for n := len(words); n > 0; n-- {
		if strings.Contains(words[n-1], " ") { // 'git log' is a program of that name
			continue
		}
		if found := table()[strings.Join(words[:n], " ")]; found != nil {
			return found, n
		}
	}
	return nil, 0
}

var programDirs = []string{"/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/opt/homebrew/bin/"}

// programName is the name of a program that lies where the system has its programs, or of one that the shell will find.
// Any other path keeps its directory, so that no entry has it.
func programName(word string) string {
	if dir, name := path.Split(word); slices.Contains(programDirs, dir) {
		return name
	}
	return word
}

// operand is a word of a command that says what it works on.
type operand struct {
	text   string
	isPath bool
}

// classify gives the class of a command that runs at a place.
func (c *command) classify(at place) Class {
	words, at, ok := withoutTimeout(c.words), at, true
	isGit := programName(words[0]) == "git"
	if isGit {
		words, at, ok = gitPrefix(words, at)
	}
	class, operands := Unknown, []operand(nil)
	if ok {
		class, operands = known(words)
	}
	var worst Class
	for _, o := range operands {
		if class == Write && programName(words[0]) == "cp" && (o.text == "." || strings.HasSuffix(o.text, "/.")) {
			class = Unknown // all that is in a directory, hidden files too, goes where no name tells
		}
		if o.isPath {
			worst = worse(worst, at.named(o.text, class))
		}
	}
	if isGit && at.rel != "" && at.rel != "." {
		class = belowRoot(class)
	}
	for _, name := range c.reads {
		worst = worse(worst, at.named(name, Read))
	}
	for _, name := range c.writes {
		worst = worse(worst, at.named(name, Write))
		class = join(class, Write)
	}
	switch {
	case worst == Config, class == Unknown && worst == Secrets:
		return worst
	case class == Unknown, class == Destroy, class == Privilege, class == Secrets, class == Config, worst == "":
		return class
	}
	return worst
}

// belowRoot is the class of a git command in a directory below the project's: a repository may lie there whose
// configuration names programs that git runs.
func belowRoot(class Class) Class {
	switch class {
	case Read, Write, Test:
		return Test
	case Network, Push, Install:
		return Unknown
	}
	return class
}

// known gives the class of a command by its words, and its operands. Of a command that is not known, all words count.
func known(words []string) (Class, []operand) {
	all := make([]operand, 0, len(words))
	for _, w := range words[1:] {
		all = append(all, operand{w, true})
	}
	entries, n := lookup(words)
	for _, e := range entries {
		rest := words[n:]
		switch e.mode {
		case "name":
			return e.class, all
		case "has":
			if slices.ContainsFunc(rest, e.has) {
				return e.class, all
			}
			continue
		}
		if operands, ok := e.operands(rest); ok {
			return e.class, operands
		}
	}
	return Unknown, all
}

// has reports whether a word is one of the entry's options, with or without a value.
func (e *entry) has(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	_, ok := e.options[name]
	return ok
}

// strictness orders the classes that files give to commands.
var strictness = []Class{"", Unknown, Outside, Secrets, Config}

func worse(a, b Class) Class {
	if slices.Index(strictness, a) >= slices.Index(strictness, b) {
		return a
	}
	return b
}

// maxValues is how many = and : a word may have.
const maxValues = 8

// named is the class that a path gives to a command. What follows = or : may be a path of its own: dd's of=, git's
// HEAD:file.
func (at place) named(text string, class Class) Class {
	worst := at.word(text, class == Read)
	for range maxValues {
		i := strings.IndexAny(text, "=:")
		if i < 0 {
			return worst
		}
		if text = text[i+1:]; text != "" {
			worst = worse(worst, at.word(text, class == Read))
		}
	}
	return worse(worst, Unknown)
}

var timeoutForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?[smh]?$`)

// withoutTimeout takes `timeout 60s` away that stands before a command.
func withoutTimeout(words []string) []string {
	if programName(words[0]) == "timeout" && len(words) > 2 && timeoutForm.MatchString(words[1]) {
		return words[2:]
	}
	return words
}

// gitPrefix takes git's own options away that stand before the subcommand. -C says where it works.
func gitPrefix(words []string, at place) ([]string, place, bool) {
	moved := false
	for len(words) > 1 {
		switch {
		case words[1] == "--no-pager", words[1] == "-P":
			words = slices.Concat(words[:1], words[2:])
		case words[1] == "-C" && len(words) > 2:
			rel, class := at.resolve(words[2])
			if class != Project || moved || strings.Contains(words[2], "..") { // behind a link, .. is elsewhere
				return words, at, false
			}
			at.rel, moved = rel, true
			words = slices.Concat(words[:1], words[3:])
		default:
			return words, at, true
		}
	}
	return words, at, true
}
