package chain

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/yett-dev/yett/sdk/exact"
)

// A whole JSON value comes from a strict reader and goes to one. Redaction puts the operator's words and offsets into
// names, so it could make a name that is there already: a strict reader would then refuse the whole value, any other
// would lose a member. So the value is parsed once more before it is released. This finds all else too that redaction
// must not do to it.

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
