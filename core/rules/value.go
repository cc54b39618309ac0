package rules

import (
	"iter"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/yett-dev/yett/sdk/exact"
)

// adapt gives CEL a view of one node of a document. Nothing below it is read before a condition asks for it.
func adapt(v exact.Value, sc *scope) ref.Val {
	switch v.Kind() {
	case exact.Null:
		return types.NullValue
	case exact.Bool:
		return types.Bool(v.Bool())
	case exact.Number:
		sc.charge(len(v.Raw()) / bytesPerStep)
		if n := len(v.Raw()); n > longNumber && !sc.made.takes(n) {
			return fail(errLarge)
		}
		return adaptNumber(v)
	case exact.String:
		sc.charge(len(v.Raw()) / bytesPerStep)
		return types.String(sc.text(v))
	case exact.Array:
		return &array{v: v, sc: sc}
	case exact.Object:
		return &object{v: v, sc: sc}
	}
	return fail(errOverload)
}

// object is a CEL map over a JSON object, an absent one included, which is empty.
type object struct {
	v  exact.Value
	sc *scope
}

// FindStringKey is the short way that CEL's field selection takes.
func (o *object) FindStringKey(name string) (any, bool) {
	o.sc.charge(o.v.Len())
	if v := o.v.Get(name); v.Exists() {
		return adapt(v, o.sc), true
	}
	return nil, false
}

// Find gives the member of that name. A name that is no string is an error, not an absence.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return fail(errOverload), false
	}
	o.sc.charge(o.v.Len())
	if v := o.v.Get(string(name)); v.Exists() {
		return adapt(v, o.sc), true
	}
	return nil, false
}

// Get is Find with an error for what is not there.
func (o *object) Get(key ref.Val) ref.Val {
	v, ok := o.Find(key)
	if !ok && v == nil {
		if name, is := key.(types.String); is && o.sc.raw != nil && len(name) <= maxNamed {
			return types.NewErr("no such key: %s", string(name))
		}
		return types.NewErr("no such key")
	}
	return v
}

// Contains reports whether there is such a member.
func (o *object) Contains(key ref.Val) ref.Val {
	v, ok := o.Find(key)
	if !ok && v != nil {
		return v
	}
	return types.Bool(ok)
}

// Fold hands out the members in the order sent.
func (o *object) Fold(f traits.Folder) {
	for name, v := range o.v.Members() {
		if !o.name(name) || !o.sc.charge(1) || !f.FoldEntry(types.String(name), adapt(v, o.sc)) {
			return
		}
	}
}

// name charges a member's name, which may have been decoded just now.
func (o *object) name(name string) bool { return len(name) < longText || o.sc.made.takes(len(name)) }

// Iterator walks the names.
func (o *object) Iterator() traits.Iterator {
	o.sc.charge(o.v.Len())
	if !o.sc.made.takes(o.v.Len() * elementBytes) {
		return types.NewRefValList(types.DefaultTypeAdapter, nil).Iterator()
	}
	names := make([]ref.Val, 0, o.v.Len())
	for name := range o.v.Members() {
		if !o.name(name) {
			break
		}
		names = append(names, types.String(name))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

// Size is the number of members.
func (o *object) Size() ref.Val { return types.Int(o.v.Len()) }

// Equal compares member by member.
func (o *object) Equal(other ref.Val) ref.Val { return equal(o, other) }

// Type is map.
func (o *object) Type() ref.Type { return types.MapType }

// Value is the exact.Value.
func (o *object) Value() any { return o.v }

// ConvertToNative is not needed by conditions and refuses.
func (o *object) ConvertToNative(reflect.Type) (any, error) { return nil, errOverload }

// ConvertToType answers type(x) only.
func (o *object) ConvertToType(t ref.Type) ref.Val { return typeOnly(t, types.MapType) }

// array is a CEL list over a JSON array.
type array struct {
	v  exact.Value
	sc *scope
}

// elements are all of them, as many as may be made: the evaluation is an error when it cannot have them all.
func (a *array) elements() []ref.Val {
	a.sc.charge(a.v.Len())
	if !a.sc.made.takes(a.v.Len() * elementBytes) {
		return nil
	}
	out := make([]ref.Val, 0, a.v.Len())
	for v := range a.v.Elements() {
		out = append(out, adapt(v, a.sc))
	}
	return out
}

// Get is the element at an index. Reaching it walks the ones before, which is charged for.
func (a *array) Get(at ref.Val) ref.Val {
	i, ok := at.(types.Int)
	if !ok {
		return fail(errOverload)
	}
	if v, ok := a.GetInt64Index(int64(i)); ok {
		return v.(ref.Val)
	}
	return types.NewErr("index out of bounds")
}

// GetInt64Index is the short way that CEL's index operator takes.
func (a *array) GetInt64Index(i int64) (any, bool) {
	if i < 0 || i >= int64(a.v.Len()) {
		return nil, false
	}
	a.sc.charge(int(i) + 1)
	return adapt(a.v.Index(int(i)), a.sc), true
}

// Add joins two lists.
func (a *array) Add(other ref.Val) ref.Val {
	tail, ok := other.(traits.Lister)
	if !ok {
		return fail(errOverload)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, a.elements()).Add(tail)
}

// Contains reports whether an element equals the value.
func (a *array) Contains(v ref.Val) ref.Val { return contains(v, a) }

// holds is Contains without a list of all elements.
func (a *array) holds(v ref.Val) ref.Val {
	for e := range a.all() {
		if eq := equal(v, e); eq != types.False {
			return eq
		}
	}
	return types.False
}

// all are the elements one by one, as many as may be read.
func (a *array) all() iter.Seq[ref.Val] {
	return func(yield func(ref.Val) bool) {
		for e := range a.v.Elements() {
			if !a.sc.charge(1) || !yield(adapt(e, a.sc)) {
				return
			}
		}
	}
}

// Fold hands out the elements in order.
func (a *array) Fold(f traits.Folder) {
	i := types.Int(0)
	for v := range a.v.Elements() {
		if !a.sc.charge(1) || !f.FoldEntry(i, adapt(v, a.sc)) {
			return
		}
		i++
	}
}

// Iterator walks the elements.
func (a *array) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, a.elements()).Iterator()
}

// Size is the number of elements.
func (a *array) Size() ref.Val { return types.Int(a.v.Len()) }

// Equal compares element by element.
func (a *array) Equal(other ref.Val) ref.Val { return equal(a, other) }

// Type is list.
func (a *array) Type() ref.Type { return types.ListType }

// Value is the exact.Value.
func (a *array) Value() any { return a.v }

// ConvertToNative is not needed by conditions and refuses.
func (a *array) ConvertToNative(reflect.Type) (any, error) { return nil, errOverload }

// ConvertToType answers type(x) only.
func (a *array) ConvertToType(t ref.Type) ref.Val { return typeOnly(t, types.ListType) }

func typeOnly(want ref.Type, is *types.Type) ref.Val {
	if want == types.TypeType {
		return is
	}
	return fail(errOverload)
}
