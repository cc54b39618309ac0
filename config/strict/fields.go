package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// field is what the tags of one struct field say. The structs are the only place where a key is described: reading,
// checking, printing, the reference file and the schema all work from here.
type field struct {
	key, doc, def, example string
	min, max, format       string
	form                   Form // what format names
	enum, later            []string
	hasDef, required       bool
	emptyOK, restart       bool
	inFile                 bool   // the main file must give it, default or not
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
type reserver interface{ Reserved() []string }

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
			f.form = formOf(t, f.format)
			f.inFile, f.idle = tag.Get("infile") == "true", tag.Get("idle") == "ok"
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
		out = append(out, Join(key, f.key))
		if isSection(f.typ) {
			out = append(out, allKeys(f.typ, Join(key, f.key))...)
		}
	}
	return out
}

func reservedIn(t reflect.Type, key string) bool {
	if s, ok := reflect.Zero(t).Interface().(reserver); ok {
		return slices.Contains(s.Reserved(), key)
	}
	return false
}

// unknownKey says what is wrong with a key that no field has.
func unknownKey(root, t reflect.Type, key string) string {
	if reservedIn(t, key) {
		return "not in this version"
	}
	if hint := Meant(key, keysOf(t)); hint != "" {
		return "unknown key" + hint
	}
	for _, full := range allKeys(root, "") {
		if strings.HasSuffix(full, "."+key) {
			return fmt.Sprintf("unknown key; did you mean %q?", full)
		}
	}
	return "unknown key"
}
