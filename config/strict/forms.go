package strict

import (
	"fmt"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Form is what a text must look like.
type Form struct {
	Check   func(s string) error
	Pattern string // for the schema, "" for none
}

// former is a section with forms of its own, by the names that its format tags give.
type former interface{ Forms() map[string]Form }

// forms are those that any section may name.
var forms = map[string]Form{
	"":       {Check: func(s string) error { return Printable(s, "") }},
	"addr":   {Check: CheckAddr},
	"glob":   {Check: checkGlob},
	"name":   {Check: checkName, Pattern: nameForm.String()},
	"id":     formed(idForm, "an id of at most 128 letters, digits and . _ / -"),
	"code":   formed(codeForm, "a code of at most 64 capitals, digits and _"),
	"digest": formed(digestForm, `"sha256:" and 64 hex digits in lower case`),
	"text":   {Check: func(s string) error { return Printable(s, "\n\t") }},
	"time":   {Check: checkTime},
}

var (
	nameForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	idForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	codeForm   = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// formOf finds the form that a tag of section t names. A name that is none is a mistake in the section, and every test
// would meet it.
func formOf(t reflect.Type, name string) Form {
	if s, ok := reflect.Zero(t).Interface().(former); ok {
		if f, own := s.Forms()[name]; own {
			return f
		}
	}
	f, ok := forms[name]
	if !ok {
		panic("strict: " + t.String() + " has no form " + name)
	}
	return f
}

// formed is a form that is one pattern; what says in words what it takes.
func formed(form *regexp.Regexp, what string) Form {
	return Form{Check: func(s string) error { return Matches(form, s, what) }, Pattern: form.String()}
}

// Matches refuses a text that does not match a pattern; what says in words what it takes.
func Matches(form *regexp.Regexp, s, what string) error {
	if !form.MatchString(s) {
		return Wants(what, s)
	}
	return nil
}

// Wants is the error of a text that is not what is wanted.
func Wants(what, got string) error { return fmt.Errorf("wants %s, not %s", what, Literal(got)) }

func checkTime(s string) error {
	if _, err := time.Parse(time.RFC3339, s); err != nil {
		return Wants("a time such as 2026-03-04T05:06:07Z", s)
	}
	return nil
}

// checkName refuses "__" because the environment nests with it.
func checkName(s string) error {
	if !nameForm.MatchString(s) || strings.Contains(s, "__") {
		return Wants("a name of at most 63 lower-case letters, digits, - and single _, beginning with a letter", s)
	}
	return nil
}

// checkGlob refuses what other glob languages give a meaning and this one does not: nothing may look like a pattern and
// not be one.
func checkGlob(s string) error {
	switch {
	case s == "" || len(s) > 256:
		return Wants("a pattern of 1 to 256 bytes", s)
	case strings.ContainsAny(s, `?[]{}\`):
		return Wants(`a pattern in which only * and ** are special; ? [ ] { } \ are refused`, s)
	case strings.TrimSpace(s) != s:
		return Wants("a pattern without white space at its ends, as names have none there", s)
	case strings.Contains(s, "***"):
		return Wants("a pattern with * (within one / segment) or ** (across)", s)
	}
	return Printable(s, "")
}

// CheckAddr wants host:port with a host that is an IP address, localhost, a name or empty, and a port from 0 to 65535.
func CheckAddr(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Wants("an address and port such as 127.0.0.1:8420", s)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 || strconv.Itoa(n) != port {
		return Wants("a port from 0 to 65535", s)
	}
	for _, c := range host {
		if c <= ' ' || c > '~' || c == '/' || c == '@' {
			return Wants("an address and port such as 127.0.0.1:8420", s)
		}
	}
	return nil
}

// Printable refuses characters that cannot be printed, but those that are allowed.
func Printable(s, allowed string) error {
	for _, c := range s {
		if !unicode.IsPrint(c) && !strings.ContainsRune(allowed, c) {
			return fmt.Errorf("has the character %U, which cannot be printed", c)
		}
	}
	return nil
}
