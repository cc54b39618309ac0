package shell

import (
	"regexp"
	"slices"
	"strings"
)

// operands reads the words after the command. ok is false if there is an option or an operand that the entry does not
// have.
func (e *entry) operands(words []string) (out []operand, ok bool) {
	switch e.mode {
	case "any":
		return nil, true
	case "go", "find":
		return e.longDash(words)
	}
	var plain []string
	patternGiven := false
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "--" {
			plain = append(plain, words[i+1:]...)
			break
		}
		if len(w) < 2 || w[0] != '-' {
			plain = append(plain, w)
			continue
		}
		name, kind, value, has, known := e.option(w)
		if !known {
			return nil, false
		}
		if !has && (kind == textArg || kind == pathArg) {
			if i++; i == len(words) {
				return nil, false
			}
			value = words[i]
		}
		if kind == pathArg {
			out = append(out, operand{value, true})
		}
		patternGiven = patternGiven || name == "e" || name == "--regexp" || name == "--files"
	}
	for i, w := range plain {
		o, ok := e.operand(i, w, patternGiven)
		if !ok {
			return nil, false
		}
		out = append(out, o)
	}
	return out, true
}

// option reads -abc, -n5, --name and --name=value, and gives the name of the last one. has says whether the value is in
// the word.
func (e *entry) option(w string) (name string, kind option, value string, has, known bool) {
	if strings.HasPrefix(w, "--") {
		name, value, has = strings.Cut(w, "=")
		kind, known = e.options[name]
		return name, kind, value, has, known && !(has && kind == bare)
	}
	if e.digits && strings.Trim(w[1:], "0123456789") == "" {
		return "", bare, "", false, true
	}
	for i := 1; i < len(w); i++ {
		kind, known = e.short[w[i]]
		switch {
		case !known, kind == optional:
			return "", 0, "", false, false
		case kind != bare:
			return w[i : i+1], kind, w[i+1:], i+1 < len(w), true
		}
	}
	return "", bare, "", false, true
}

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	packageForm = regexp.MustCompile(`^[@A-Za-z0-9._][@A-Za-z0-9._/=<>~^,+\[\]-]*$`)
	urlForm     = regexp.MustCompile(`^https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[!-~]*)?$`)
	targetForm  = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9._/:-]*$`)
	// targets that do more than build and test
	publishes = regexp.MustCompile(`(?i)install|deploy|publish|release|push|upload|clean|destroy|delete|exec|migrat`)
	// scripts of sed that print, leave lines out or replace, and neither write nor run anything
	sedForm = regexp.MustCompile(`^([0-9]+(,([0-9]+|\$))?[pd]|s/([^/\\\n]|\\[^\n])*/([^/\\\n]|\\[^\n])*/[gIp0-9]*)$`)
)

// passedOn are options behind -- that are known whatever they are passed on to.
var passedOn = []string{"--check", "--nocapture", "--coverage", "--fix", "--ci", "--verbose", "--watch", "-D"}

// reaches are parts of programs that read more than their input, or write, or run something.
var reaches = map[string][]string{
	"jq":  {"env", "input", "include", "import", "module", "$__"},
	"awk": {"system", "getline", "environ", "procinfo", "arg", "|", ">", "@", "close", "fflush", "symtab"},
}

// operand reads the i-th word that is no option.
func (e *entry) operand(i int, w string, patternGiven bool) (operand, bool) {
	text, isPath := operand{text: w}, operand{w, true}
	switch e.mode {
	case "paths", "revs":
		return isPath, true
	case "text":
		return text, true
	case "pattern":
		if i == 0 && !patternGiven {
			return text, true
		}
		return isPath, true
	case "names":
		return isPath, nameForm.MatchString(w)
	case "urls":
		return text, urlForm.MatchString(w)
	case "packages":
		return text, packageForm.MatchString(w) && !strings.Contains(w, "..")
	case "targets":
		if slices.Contains(passedOn, w) {
			return text, true
		}
		return isPath, targetForm.MatchString(w) && !publishes.MatchString(w)
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

// longDash reads the options of programs that have them behind one dash: go test -run X, find . -name X.
func (e *entry) longDash(words []string) (out []operand, ok bool) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if len(w) < 2 || w[0] != '-' {
			if e.mode == "go" && strings.ContainsAny(w, "@=") {
				return nil, false
			}
			out = append(out, operand{w, true})
			continue
		}
		name, value, has := strings.Cut(w, "=")
		kind, known := e.options[name]
		if !known || has && (kind == bare || e.mode == "find") {
			return nil, false
		}
		if !has && (kind == textArg || kind == pathArg) {
			if i++; i == len(words) {
				return nil, false
			}
			value = words[i]
		}
		if kind == pathArg {
			out = append(out, operand{value, true})
		}
	}
	return out, true
}
