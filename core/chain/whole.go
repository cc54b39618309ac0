package chain

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
)

// A whole JSON value comes from a strict reader and goes to one. Redaction puts the operator's words and offsets into
// names, so it could make a name that is there already: a strict reader would then refuse the whole value, any other
// would lose a member. So the value is parsed once more before it is released. This finds all else too that redaction
// must not do to it.

// parted is a JSON text with a line break for each quote around its strings. All places are the same in both.
func parted(text string) string {
	b := []byte(text)
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			b[i] = '\n'
		}
	}
	return string(b)
}

// unescaped is a text with its escapes decoded and nothing else.
func unescaped(text string) string {
	var b strings.Builder
	u := units{text: text, final: true, plain: true}
	for {
		n, as := u.next()
		switch {
		case n == 0:
			return b.String()
		case as == nil:
			b.WriteString(text[u.at-n : u.at])
		default:
			b.Write(as)
		}
	}
}

// readApart adds the readings of a JSON value string by string, if they are others. First the escapes of JSON are
// decoded, and then control sequences are read, which end with their string: one that the string breaks off goes on
// behind the quote otherwise, and takes the beginning of the next string with it. What a sequence takes makes a reading
// shorter, so readings of the same lengths are the same.
func (c *ScanChain) readApart(rs *readings) {
	if len(rs.all) == 1 {
		return
	}
	text := parted(rs.all[0].text)
	next := unescaped(text)
	if rs.readsAs(next) {
		return
	}
	rs.apart = &readings{all: []reading{{text: text}, {next, c.triggered(next)}}, plain: true}
	c.readOn(rs.apart, next)
}

// readsAs reports whether the readings behind the first have the lengths of a text and of what that reads as.
func (rs *readings) readsAs(text string) bool {
	for k, ok := 1, true; ; k++ {
		if !ok || k > maxDecoded {
			return k == len(rs.all)
		}
		if k == len(rs.all) || len(rs.all[k].text) != len(text) {
			return false
		}
		text, ok = decoded(text)
	}
}

// each are the readings that a scanner gets, by their numbers among those that they belong to.
func (rs *readings) each() iter.Seq2[int, *readings] {
	return func(yield func(int, *readings) bool) {
		for k := range rs.all {
			if !yield(k, rs) {
				return
			}
		}
		if rs.apart == nil {
			return
		}
		for k := 1; k < len(rs.apart.all); k++ {
			if !yield(k, rs.apart) {
				return
			}
		}
	}
}

// shapeLimits bound nothing: the request's limits have bounded the value, and redaction adds no value to it.
var shapeLimits = exact.Limits{Depth: math.MaxInt16, Tokens: math.MaxInt32}

// sameShape says what a redacted value has not kept of the one that came: the same lists, and the same number of
// members in the same order. What is not as it was must be a string.
func sameShape(came, redacted string) error {
	var was, is exact.Doc
	if err := was.Parse(came, shapeLimits); err != nil {
		return fmt.Errorf("it is no strict JSON: %w", err)
	}
	if err := is.Parse(redacted, shapeLimits); err != nil {
		return fmt.Errorf("its JSON would break, or two of its names would become one: %w", err)
	}
	return sameValue(was.Root(), is.Root())
}

var errShape = errors.New("its JSON would have another shape")

func sameValue(was, is exact.Value) error {
	switch {
	case is.Kind() != was.Kind():
		if is.Kind() != exact.String || was.Len() > 0 {
			return errShape
		}
	case was.Kind() == exact.Object, was.Kind() == exact.Array:
		before, after := inside(was), inside(is)
		if len(before) != len(after) {
			return errShape
		}
		for i := range before {
			if err := sameValue(before[i], after[i]); err != nil {
				return err
			}
		}
	case was.Kind() != exact.String && was.Raw() != is.Raw():
		return errShape
	}
	return nil
}

// inside are the elements of an array, or the members of an object without their names.
func inside(v exact.Value) []exact.Value {
	all := slices.AppendSeq(make([]exact.Value, 0, v.Len()), v.Elements())
	for _, m := range v.Members() {
		all = append(all, m)
	}
	return all
}
