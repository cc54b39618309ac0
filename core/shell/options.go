package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// option says what follows an option.
type option int

const (
	bare         option = iota // nothing
	textArg                    // : a text
	textBehind                 // = a text behind =
	textMaybe                  // ? a text behind =, or nothing
	pathArg                    // / a path
	pathBehind                 // =/ a path behind =
	number                     // # a number
	numberBehind               // =# a number behind =
	numberMaybe                // ?# a number, or nothing
	target                     // ! a target
)

// kinds are the marks of options in the table, the longest first.
var kinds = []struct {
	mark string
	kind option
}{{"?#", numberMaybe}, {"=#", numberBehind}, {"=/", pathBehind}, {":", textArg}, {"=", textBehind}, {"?", textMaybe},
	{"/", pathArg}, {"#", number}, {"!", target}}

// addOption reads an option of the table.
func (e *entry) addOption(opt string) error {
	mark := opt
	opt, must := strings.CutPrefix(opt, "+")
	switch {
	case mark == "getopt":
		e.getopt = true
		return nil
	case mark == "-#":
		e.digits = true
		return nil
	case mark == "--":
		e.dashes = true
		return nil
	case strings.HasPrefix(mark, "--:"):
		e.behind = append(e.behind, mark[3:])
		return nil
	case mark[0] == '@':
		e.allowed[mark[1:]] = true
		return nil
	}
	kind := bare
	for _, k := range kinds {
		if name, ok := strings.CutSuffix(opt, k.mark); ok {
			opt, kind = name, k.kind
			break
		}
	}
	long := strings.HasPrefix(opt, "--") || e.isLongDash()
	names := []string{opt}
	switch {
	case len(opt) < 2 || opt[0] != '-' || strings.ContainsAny(opt[2:], "=:/#?!"):
		return fmt.Errorf("%q is no option", mark)
	case !long && len(opt) > 2 && kind != bare:
		return fmt.Errorf("%q: several options share a value", mark)
	case !long && (kind == textBehind || kind == textMaybe || kind == pathBehind || kind == numberBehind):
		return fmt.Errorf("%q: a short option has no =", mark)
	case !long:
		names = nil
		for _, letter := range opt[1:] {
			names = append(names, "-"+string(letter))
		}
	}
	for _, name := range names {
		if _, twice := e.options[name]; twice {
			return fmt.Errorf("%q: %s is there twice", mark, name)
		}
		e.options[name] = kind
		if must {
			e.must = append(e.must, name)
		}
	}
	return nil
}

// isLongDash reports whether the program has long options behind one dash: go test -run X, find . -name X.
func (e *entry) isLongDash() bool { return slices.Contains([]string{"go", "find", "has"}, e.mode) }

// arguments are the words after a command, as its entry reads them.
type arguments struct {
	e        *entry
	words    []string
	paths    []operand // that options name
	plain    []string  // what is no option
	given    []string  // the options
	allPaths bool      // no operand is a pattern, or it is not known which
}

// read takes the words apart. It gives false if one is an option that the entry does not have, or has no value that is
// certain to be its value.
func (a *arguments) read() bool {
	for len(a.words) > 0 {
		w := a.words[0]
		a.words = a.words[1:]
		switch {
		case w == "--":
			return a.rest() && a.complete()
		case len(w) < 2 || w[0] != '-':
			a.plain = append(a.plain, w)
		case a.e.digits && isNumber(w[1:]):
		case strings.HasPrefix(w, "--") || a.e.isLongDash():
			name, value, attached := strings.Cut(w, "=")
			if !a.option(name, value, attached) {
				return false
			}
		case !a.short(w):
			return false
		}
	}
	return a.complete()
}

// complete reports whether an option that has to be there is.
func (a *arguments) complete() bool {
	return len(a.e.must) == 0 || slices.ContainsFunc(a.given, func(o string) bool { return slices.Contains(a.e.must, o) })
}

// short reads -a, -n5 and, where the program reads options as getopt does, -abc and -xVALUE.
func (a *arguments) short(w string) bool {
	for i := 1; i < len(w); i++ {
		name, value := "-"+w[i:i+1], w[i+1:]
		kind, known := a.e.options[name]
		switch {
		case !known, value != "" && !a.e.getopt && kind != number && kind != numberMaybe:
			return false
		case kind != bare:
			return a.option(name, value, value != "")
		case !a.option(name, "", false):
			return false
		}
	}
	return true
}

// option reads one option. A value in a word of its own must not look like an option: a program to which the value is
// optional would take it for one.
func (a *arguments) option(name, value string, attached bool) bool {
	kind, known := a.e.options[name]
	if !known {
		return false
	}
	a.given = append(a.given, name)
	a.allPaths = a.allPaths || name == "-e" || name == "--regexp" || name == "--files"
	switch kind {
	case bare:
		return !attached
	case textMaybe:
		return true
	case textBehind:
		return attached
	case numberBehind:
		return attached && isNumber(value)
	case pathBehind:
		a.paths = append(a.paths, operand{value, true})
		return attached
	case numberMaybe:
		if !attached && len(a.words) > 0 && isNumber(a.words[0]) {
			a.words, a.allPaths = a.words[1:], true // if the program takes no number here, all others are operands
			return true
		}
		return !attached || isNumber(value)
	}
	if attached && a.e.mode == "find" {
		return false
	}
	if !attached {
		if len(a.words) == 0 {
			return false
		}
		value, a.words = a.words[0], a.words[1:]
		if strings.HasPrefix(value, "-") && !(a.e.mode == "find" && kind == number) {
			return false
		}
	}
	switch kind {
	case number:
		return isNumber(value) || a.e.mode == "find" && findNumber.MatchString(value)
	case target:
		return !slices.ContainsFunc(strings.Split(value, ","), func(v string) bool {
			return !isTarget(v) && !environment.MatchString(v)
		})
	case textArg:
		if !attached && len(a.plain) > 0 && !a.e.isLongDash() {
			a.paths = append(a.paths, operand{value, true}) // some programs read no options after the first operand
		}
		return true
	}
	a.paths = append(a.paths, operand{value, true})
	return true
}

// rest reads what follows --.
func (a *arguments) rest() bool {
	if a.e.dashes {
		a.plain = append(a.plain, a.words...)
		return true
	}
	for _, w := range a.words {
		switch {
		case slices.Contains(a.e.behind, w):
		case slices.Contains(a.e.behind, "/") && w[:min(1, len(w))] != "-" && strings.Contains(w, "/"):
			a.paths = append(a.paths, operand{w, true})
		default:
			return false
		}
	}
	return len(a.e.behind) > 0
}

var (
	findNumber = regexp.MustCompile(`^[+-]?[0-9]{1,9}[cwbkMG]?$`)
	// environments of tox and nox
	environment = regexp.MustCompile(`^(py|python)[0-9.]{0,5}$`)
)

// isNumber reports whether a text is a number, or +N as tail has it.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "+")
	return len(s) > 0 && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}
