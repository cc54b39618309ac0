package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// field is what the tags of one struct field say. The structs are the only place where a key is described: reading,
// checking, printing, the reference file and the schema all work from here.
type field struct {
	key, doc, def, example string
	min, max, format       string
	enum, later            []string
	hasDef, required       bool
	emptyOK, restart       bool
	idle                   bool   // the zero value says that the key means nothing here: it is not shown
	one                    bool   // a list may be written as its only entry
	short                  string // a section may be written as the value of this key of it
	maxLen, most           int    // bytes of a text, entries of a list (0: any number)
	index                  int
	typ                    reflect.Type
}

// maxText is the longest text a key may hold, in bytes, unless its tag says otherwise.
const maxText = 4096

var (
	portType     = reflect.TypeFor[Port]()
	sizeType     = reflect.TypeFor[Size]()
	durationType = reflect.TypeFor[Duration]()
	pathType     = reflect.TypeFor[Path]()
	valuesType   = reflect.TypeFor[Values]()
	decimalType  = reflect.TypeFor[Decimal]()
	documentType = reflect.TypeFor[Document]()
)

// reserver is a section that knows the keys of later versions, so that it can tell them from slips of the pen.
type reserver interface{ reserved() []string }

// specs keeps what fieldsOf found, by type: every key that is read asks for it.
var specs sync.Map

func fieldsOf(t reflect.Type) []field {
	if known, ok := specs.Load(t); ok {
		return known.([]field)
	}
	list := readTags(t)
	specs.Store(t, list)
	return list
}

func readTags(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag
		if key := tag.Get("koanf"); key != "" && key != "-" {
			f := field{key: key, index: i, typ: sf.Type, doc: tag.Get("doc"), example: tag.Get("example"),
				min: tag.Get("min"), max: tag.Get("max"), format: tag.Get("format"), enum: split(tag.Get("enum")),
				later: split(tag.Get("later")), required: tag.Get("req") == "true", emptyOK: tag.Get("empty") == "ok",
				restart: tag.Get("restart") == "true", maxLen: maxText}
			f.def, f.hasDef = tag.Lookup("default")
			if n, err := strconv.Atoi(tag.Get("maxlen")); err == nil {
				f.maxLen = n
			}
			f.idle = tag.Get("idle") == "ok"
			f.one, f.short = tag.Get("one") == "ok", tag.Get("short")
			if n, err := strconv.Atoi(tag.Get("most")); err == nil {
				f.most = n
			}
			if f.restart {
				f.doc += " Takes effect after a restart."
			}
			out = append(out, f)
		}
	}
	return out
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

func fieldOf(t reflect.Type, key string) (field, bool) {
	for _, f := range fieldsOf(t) {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

func keysOf(t reflect.Type) []string {
	var out []string
	for _, f := range fieldsOf(t) {
		out = append(out, f.key)
	}
	return out
}

// isSection says whether t is read as keys and values of its own.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct && t != valuesType }

// allKeys lists every key below t by its full name; members of lists and maps have no fixed name and are left out.
func allKeys(t reflect.Type, key string) []string {
	var out []string
	for _, f := range fieldsOf(t) {
		out = append(out, join(key, f.key))
		if isSection(f.typ) {
			out = append(out, allKeys(f.typ, join(key, f.key))...)
		}
	}
	return out
}

func reservedIn(t reflect.Type, key string) bool {
	if s, ok := reflect.Zero(t).Interface().(reserver); ok {
		return contains(s.reserved(), key)
	}
	return false
}

// unknownKey says what is wrong with a key that no field has.
func unknownKey(root, t reflect.Type, key string) string {
	if reservedIn(t, key) {
		return "not in this version"
	}
	if hint := meant(key, keysOf(t)); hint != "" {
		return "unknown key" + hint
	}
	for _, full := range allKeys(root, "") {
		if strings.HasSuffix(full, "."+key) {
			return fmt.Sprintf("unknown key; did you mean %q?", full)
		}
	}
	return "unknown key"
}

func wantf(want, got string) error { return fmt.Errorf("wants %s, not %s", want, literal(got)) }

var (
	nameForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	idForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	codeForm   = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	publicForm = regexp.MustCompile(`^RW[A-Za-z0-9+/]{54}$`)
	signerForm = regexp.MustCompile(`^(key:.+|role:(approver|operator))$`)
)

// checkFormat checks a text against a field's format tag.
func checkFormat(format, s string) error {
	switch format {
	case "addr":
		return checkAddr(s)
	case "name":
		return checkName(s)
	case "glob":
		return checkGlob(s)
	case "id":
		return match(idForm, s, "an id of at most 128 letters, digits and . _ / -")
	case "code":
		return match(codeForm, s, "a code of at most 64 capitals, digits and _")
	case "digest":
		return match(digestForm, s, `"sha256:" and 64 hex digits in lower case`)
	case "minisign":
		return match(publicForm, s, "a minisign public key: the 56 characters that begin with RW")
	case "socket":
		if path, ok := strings.CutPrefix(s, "unix://"); !ok || !strings.HasPrefix(path, "/") || len(path) > 107 ||
			strings.ContainsAny(path, "?#%") {
			return wantf("unix:// and an absolute path of at most 107 bytes without ? # and %", s)
		}
		return checkText(s, "")
	case "signer":
		return errors.Join(match(signerForm, s, "key:NAME, role:approver or role:operator"), checkText(s, ""))
	case "time":
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return wantf("a time such as 2026-03-04T05:06:07Z", s)
		}
		return nil
	case "text":
		return checkText(s, "\n\t")
	}
	return checkText(s, "")
}

func match(form *regexp.Regexp, s, want string) error {
	if !form.MatchString(s) {
		return wantf(want, s)
	}
	return nil
}

// checkName refuses "__" because the environment nests with it.
func checkName(s string) error {
	if !nameForm.MatchString(s) || strings.Contains(s, "__") {
		return wantf("a name of at most 63 lower-case letters, digits, - and single _, beginning with a letter", s)
	}
	return nil
}

// checkGlob refuses what other glob languages give a meaning and this one does not: nothing may look like a pattern and
// not be one.
func checkGlob(s string) error {
	switch {
	case s == "" || len(s) > 256:
		return wantf("a pattern of 1 to 256 bytes", s)
	case strings.ContainsAny(s, `?[]{}\`):
		return wantf(`a pattern in which only * and ** are special; ? [ ] { } \ are refused`, s)
	case strings.TrimSpace(s) != s:
		return wantf("a pattern without white space at its ends, as names have none there", s)
	case strings.Contains(s, "***"):
		return wantf("a pattern with * (within one / segment) or ** (across)", s)
	}
	return checkText(s, "")
}

func checkText(s, allowed string) error {
	for _, c := range s {
		if !unicode.IsPrint(c) && !strings.ContainsRune(allowed, c) {
			return fmt.Errorf("has the character %U, which cannot be printed", c)
		}
	}
	return nil
}
