// Package exact reads strict JSON and keeps every number as it was written. It owns the parser, the lazily read
// document tree, exact decimals and the canonical form that digests are made of. It refuses what lenient parsers
// disagree about (duplicate names, bad UTF-8, lone surrogates, NUL, trailing data, over-deep input), because two
// programs that read one request differently are a way around a gate. It must never round a number, guess an encoding
// or import anything but the standard library. Text comes from sdk/wire and core's transports; values go to rules,
// scanners and digests.
package exact

import (
	"fmt"
	"iter"
	"strings"
)

// Kind is the JSON type of a Value.
type Kind uint8

// The kinds. Absent is the zero Value: a member that is not there.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}

// String names the kind as error messages do: "a string", "an object".
func (k Kind) String() string { return kindNames[k] }

// Limits bound what one document may cost.
type Limits struct {
	Depth  int // nesting of arrays and objects
	Tokens int // values and member names together
}

// DefaultLimits are those of the wire contract.
var DefaultLimits = Limits{Depth: 64, Tokens: 100_000}

// SyntaxError says where and why a text is not acceptable JSON.
type SyntaxError struct {
	Offset int    // byte offset into the text
	Reason string // one clause, no secrets: never quotes the text
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Reason)
}

// node is one value or member name on the tape. The members of an object follow it as name, value, name, value…
type node struct {
	kind       Kind
	esc        bool  // a string with escapes
	val        bool  // of a Bool
	start, end int32 // span in src, quotes included
	next       int32 // index of the first node behind this subtree
	n          int32 // members or elements
}

// Doc is one parsed document. Its memory is reused by the next Parse, which invalidates all Values of the one before.
// Strings handed out stay valid for ever: they are parts of the parsed string. A Doc is one goroutine's while parsing,
// and safe for concurrent reading afterwards.
type Doc struct {
	src   string
	nodes []node
	grows int // bytes that numbers with an exponent may take more in canonical form
}

// nodeBytes is the size of a node. A tape that has grown beside the one that it grew from takes up to twice that for
// each.
const nodeBytes = 20

// Size is how many bytes the Doc holds beside its text.
func (d *Doc) Size() int { return len(d.nodes) * nodeBytes }

// Grows is how many bytes longer than its text the canonical form is at most: 1e308 has 309 digits there.
func (d *Doc) Grows() int { return d.grows }

// closeLook is from how many tokens on MostSize looks what is inside strings.
const closeLook = 4 << 10

// MostSize is how many bytes Parse needs at most for this text, beside the text. Of many short values that is some
// twenty times their text. It is never too low. Of a text with few tokens it may be too high.
func MostSize(src string, lim Limits) int {
	tokens := 1
	for _, c := range [...]string{",", ":", "[", "{"} { // each brings one token at most
		tokens += strings.Count(src, c)
	}
	if tokens > closeLook {
		tokens = outsideStrings(src)
	}
	return 2 * nodeBytes * min(tokens, lim.Tokens)
}

// outsideStrings is how many tokens the text has at most when what is inside its strings does not count. Where the text
// is no JSON, Parse ends before it could see a string otherwise.
func outsideStrings(src string) int {
	tokens := 1
	for {
		begin := strings.IndexByte(src, '"')
		if begin < 0 {
			begin = len(src)
		}
		for i := range begin {
			switch src[i] {
			case ',', ':', '[', '{':
				tokens++
			}
		}
		if begin == len(src) {
			return tokens
		}
		if src = behindString(src[begin+1:]); src == "" {
			return tokens
		}
	}
}

// behindString is what stands behind the string that src goes on with, "" if it does not end.
func behindString(src string) string {
	for {
		end := strings.IndexByte(src, '"')
		if end < 0 {
			return ""
		}
		slashes := 0
		for end > slashes && src[end-1-slashes] == '\\' {
			slashes++
		}
		src = src[end+1:]
		if slashes%2 == 0 {
			return src
		}
	}
}

// Root is the whole document. It is Absent before a successful Parse.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{d, 0}
}

// Value is one node of a Doc. The zero Value is Absent.
type Value struct {
	d *Doc
	i int32
}

func (v Value) node() *node { return &v.d.nodes[v.i] }

// Exists is false for the zero Value only; a JSON null exists.
func (v Value) Exists() bool { return v.d != nil }

// Kind gives the JSON type.
func (v Value) Kind() Kind {
	if v.d == nil {
		return Absent
	}
	return v.node().kind
}

// Raw is the text of the value as it was sent.
func (v Value) Raw() string {
	if v.d == nil {
		return ""
	}
	n := v.node()
	return v.d.src[n.start:n.end]
}

// Span is where Raw stands in the parsed text, in bytes; 0, 0 for the zero Value.
func (v Value) Span() (start, end int) {
	if v.d == nil {
		return 0, 0
	}
	n := v.node()
	return int(n.start), int(n.end)
}

// Bool is the value of a Bool, false for all other kinds.
func (v Value) Bool() bool { return v.d != nil && v.node().val }

// Str is the decoded text of a String, "" for all other kinds. It allocates only when the text has escapes.
func (v Value) Str() string {
	if v.Kind() != String {
		return ""
	}
	return v.d.text(v.node())
}

// keptBytes is up to how long a text may be for its parts to be kept instead of it.
const keptBytes = 4 << 10

// Own is Str for who may keep it: a short string of a long text is copied, so that keeping it does not keep the text.
func (v Value) Own() string {
	s := v.Str()
	if v.d != nil && len(v.d.src) > keptBytes && len(s) <= keptBytes {
		return strings.Clone(s)
	}
	return s
}

func (d *Doc) text(n *node) string {
	raw := d.src[n.start+1 : n.end-1]
	if !n.esc {
		return raw
	}
	return unescape(raw)
}

// Len is the number of members or elements, 0 for scalars.
func (v Value) Len() int {
	if v.d == nil {
		return 0
	}
	return int(v.node().n)
}

// Get is the member of that name, or Absent.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	i := v.i + 1
	for range v.node().n {
		key := &v.d.nodes[i]
		if v.d.text(key) == name {
			return Value{v.d, i + 1}
		}
		i = v.d.nodes[i+1].next
	}
	return Value{}
}

// Index is the i-th element of an array, or Absent. It walks: O(i).
func (v Value) Index(i int) Value {
	if v.Kind() != Array || i < 0 || i >= v.Len() {
		return Value{}
	}
	at := v.i + 1
	for range i {
		at = v.d.nodes[at].next
	}
	return Value{v.d, at}
}

// Members ranges over an object in the order sent.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != Object {
			return
		}
		i := v.i + 1
		for range v.node().n {
			if !yield(v.d.text(&v.d.nodes[i]), Value{v.d, i + 1}) {
				return
			}
			i = v.d.nodes[i+1].next
		}
	}
}

// Elements ranges over an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		i := v.i + 1
		for range v.node().n {
			if !yield(Value{v.d, i}) {
				return
			}
			i = v.d.nodes[i].next
		}
	}
}

// Decimal is the exact value of a Number, zero for all other kinds.
func (v Value) Decimal() Decimal {
	if v.Kind() != Number {
		return Decimal{}
	}
	d, _ := ParseDecimal(v.Raw()) // Parse has checked it
	return d
}
