package shell

import (
	"regexp"
	"slices"
	"strings"
)

// operands reads the words after the command. ok is false if there is an option or an operand that the entry does not
// have.
func (e *entry) operands(words []string) (out []operand, ok bool) {
	if e.mode == "any" {
		return nil, true
	}
	a := arguments{e: e, words: words}
	if e.mode == "printf" { // a format that begins with a dash is an option in some shells
		a.words, a.plain = nil, words
	}
	if !a.read() || !e.takes(a.given, a.plain) {
		return nil, false
	}
	out = a.paths
	for i, w := range a.plain {
		o, ok := e.operand(i, w, a.allPaths)
		if !ok {
			return nil, false
		}
		out = append(out, o)
	}
	// Programs take @FILE for the words in a file, and git takes a path behind : for one from the root.
	for _, o := range out {
		if o.isPath && o.text != "" && (o.text[0] == '@' || o.text[0] == ':') {
			return nil, false
		}
	}
	return out, true
}

// takes reports whether an entry takes options and operands as a whole.
func (e *entry) takes(given, plain []string) bool {
	switch e.mode {
	case "printf":
		return isPrinted(plain)
	case "test":
		return len(given) == 1 && len(plain) == 1 // -ne and the like take expressions in some shells
	case "chmod":
		return len(plain) > 1 && chmodForm.MatchString(plain[0])
	case "script":
		return len(plain) == 1
	}
	return true
}

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	packageForm = regexp.MustCompile(`^[@A-Za-z0-9._][@A-Za-z0-9._/=<>~^,+\[\]-]*$`)
	urlForm     = regexp.MustCompile(`^https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[!-~]*)?$`)
	targetForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_:.-]*$`)
	projectForm = regexp.MustCompile(`^(:[A-Za-z0-9_-]+)*:`)
	chmodForm   = regexp.MustCompile(`^([ugoa]*[+][rwx]+|[0-7]{3})$`)
	goForm      = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)
	// a suffix of a revision: ~2, ^, ^^, @{1}
	backForm = regexp.MustCompile(`(~[0-9]*|\^[0-9]*|@\{[0-9a-z]+\})+(\.\.|:|$)`)
	// scripts of sed that print, leave lines out or replace, and neither write nor run anything
	sedForm = regexp.MustCompile(`^([0-9]+(,([0-9]+|\$))?[pd]|s/([^/\\\n]|\\[^\n])*/([^/\\\n]|\\[^\n])*/[gIp0-9]*)$`)
	// formats of printf that print texts, and those that print numbers too
	printForm  = regexp.MustCompile(`^([^%\\-]|\\[nt]|%%|%-?[0-9]{0,3}[scd])([^%\\]|\\[nt]|%%|%-?[0-9]{0,3}[scd])*$`)
	printsInts = regexp.MustCompile(`%-?[0-9]*d`)
	intForm    = regexp.MustCompile(`^[0-9]{1,9}$`)
)

// targetWords are what targets and scripts are called that build or test, or how their names begin.
var targetWords = []string{"all", "test", "tests", "check", "lint", "build", "compile", "fmt", "format", "vet",
	"typecheck", "type-check", "types", "unit", "cover", "coverage", "bench", "verify", "spec"}

// publishes are targets that do more.
var publishes = regexp.MustCompile(
	`(?i)install|deploy|publish|release|push|upload|clean|destroy|delete|exec|migrat|prod|remote|live|send|reset|drop`)

// isTarget reports whether a target builds or tests, by its name.
func isTarget(name string) bool {
	first := name[:len(name)-len(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz"))]
	return targetForm.MatchString(name) && !publishes.MatchString(name) &&
		(slices.Contains(targetWords, first) || slices.Contains(targetWords, name))
}

// isPrinted reports whether every shell's printf does nothing but print: %d takes an expression in zsh, and an
// expression may run a command; %n sets a variable.
func isPrinted(words []string) bool {
	if len(words) == 0 || !printForm.MatchString(words[0]) {
		return false
	}
	return !printsInts.MatchString(words[0]) ||
		!slices.ContainsFunc(words[1:], func(w string) bool { return !intForm.MatchString(w) })
}

// reaches are parts of programs that read more than their input, or write, or run something.
var reaches = map[string][]string{
	"jq":  {"env", "input", "include", "import", "module", "$__"},
	"awk": {"system", "getline", "environ", "procinfo", "arg", "|", ">", "@", "close", "fflush", "symtab"},
}

// operand reads the i-th word that is no option. With allPaths no operand is a pattern.
func (e *entry) operand(i int, w string, allPaths bool) (operand, bool) {
	text, isPath := operand{text: w}, operand{w, true}
	switch e.mode {
	case "paths", "find", "test":
		return isPath, true
	case "revs":
		return operand{backForm.ReplaceAllString(w, "$2"), true}, true
	case "files": // what has no dot and no slash may be a subcommand, what has a colon an address
		return isPath, strings.ContainsAny(w, "./") && !strings.Contains(w, ":")
	case "go":
		return isPath, goForm.MatchString(w)
	case "text", "printf":
		return text, true
	case "numbers":
		return text, len(w) <= 3 && isNumber(w)
	case "pattern":
		if i == 0 && !allPaths {
			return text, true
		}
		return isPath, true
	case "chmod":
		return operand{w, i > 0}, true
	case "names":
		return isPath, nameForm.MatchString(w)
	case "urls":
		return text, urlForm.MatchString(w)
	case "packages":
		return text, packageForm.MatchString(w) && !strings.Contains(w, "..")
	case "targets", "script":
		return text, isTarget(w)
	case "words":
		if e.allowed[":"] {
			w = projectForm.ReplaceAllString(w, "")
		}
		return text, e.allowed[w]
	case "sed":
		if i == 0 {
			return text, sedForm.MatchString(w)
		}
		return isPath, true
	case "jq", "awk":
		if i == 0 {
			low := strings.ToLower(w)
			return text, !slices.ContainsFunc(reaches[e.mode], func(word string) bool { return strings.Contains(low, word) })
		}
		return isPath, true
	case "date":
		return text, w[0:min(len(w), 1)] == "+"
	}
	return text, false // none
}
