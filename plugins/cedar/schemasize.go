package main

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/ast"
)

// cedar-go writes out every use of a common type, and calls itself for each level of one: a few lines of types that
// double, or a long chain of types, would take all memory there is, and end the process, and with it the policies in
// force.
const (
	maxParts  = 200_000 // of a schema whose common types are written out
	maxLevels = 1_000   // of a type that is written out
)

// extent is what a type comes to, written out. A long name counts as several levels: an error repeats it at each one
// above.
type extent struct{ parts, levels int }

// expansion measures a schema as cedar-go is going to write it out, each common type once.
type expansion struct {
	common map[types.Path]ast.IsType
	known  map[types.Path]extent
	parts  int // of the declarations so far
	depth  int // of the walk
}

// checkSize refuses a schema that is too large, written out, before cedar-go does so. Types that are undefined, or that
// hold themselves, are for cedar-go to refuse.
func checkSize(s *ast.Schema) error {
	x := &expansion{common: map[types.Path]ast.IsType{}, known: map[types.Path]extent{}}
	x.declare("", s.CommonTypes)
	for name, n := range s.Namespaces {
		x.declare(name, n.CommonTypes)
	}
	err := x.namespace("", s.Entities, s.Enums, s.Actions)
	for name, n := range s.Namespaces {
		if err != nil {
			return err
		}
		err = x.namespace(name, n.Entities, n.Enums, n.Actions)
	}
	return err
}

func (x *expansion) declare(ns types.Path, common ast.CommonTypes) {
	for name, c := range common {
		x.common[within(ns, string(name))] = c.Type
	}
}

// namespace adds what is declared in a namespace.
func (x *expansion) namespace(ns types.Path, entities ast.Entities, enums ast.Enums, actions ast.Actions) error {
	for _, e := range entities {
		if err := x.declaration(ns, 1+len(e.ParentTypes), e.Shape, e.Tags); err != nil {
			return err
		}
	}
	for _, e := range enums {
		if err := x.declaration(ns, 1+len(e.Values)); err != nil {
			return err
		}
	}
	for _, a := range actions {
		own, to := 1+len(a.Parents), a.AppliesTo
		if to == nil {
			to = &ast.AppliesTo{}
		}
		// policies are checked for each pair
		own += len(to.Principals) + len(to.Resources) + len(to.Principals)*len(to.Resources)
		if err := x.declaration(ns, own, to.Context); err != nil {
			return err
		}
	}
	return nil
}

// declaration adds one that has so many parts of its own, and these types.
func (x *expansion) declaration(ns types.Path, own int, all ...ast.IsType) error {
	x.parts += own
	for _, t := range all {
		if t == nil {
			continue
		}
		e, err := x.measure(ns, t)
		if err != nil {
			return err
		}
		x.parts += e.parts
	}
	if x.parts > maxParts {
		return errParts()
	}
	return nil
}

// measure says what a type comes to where it stands.
func (x *expansion) measure(ns types.Path, t ast.IsType) (e extent, err error) {
	if x.depth++; x.depth > maxLevels {
		return e, errLevels()
	}
	defer func() { x.depth-- }()
	own := 1
	switch t := t.(type) {
	case ast.SetType:
		e, err = x.measure(ns, t.Element)
	case ast.TypeRef:
		own = 0 // what it stands for takes its place
		e, err = x.reference(ns, string(t))
	case ast.RecordType:
		for name, a := range t {
			below, err := x.measure(ns, a.Type)
			if err != nil {
				return e, err
			}
			e.levels = max(e.levels, below.levels+len(name)/64)
			if e.parts += below.parts; e.parts > maxParts {
				return e, errParts()
			}
		}
	}
	e.parts, e.levels = max(e.parts+own, 1), e.levels+1
	if err == nil && e.levels > maxLevels {
		err = errLevels()
	}
	return e, err
}

// reference measures what a name stands for: a common type of the namespace, or else of none. All other types have one
// part.
func (x *expansion) reference(ns types.Path, name string) (extent, error) {
	at := types.Path(name)
	if !strings.Contains(name, "::") {
		if _, ok := x.common[within(ns, name)]; ok {
			at = within(ns, name)
		}
	}
	t, ok := x.common[at]
	if !ok {
		return extent{}, nil
	}
	if e, ok := x.known[at]; ok {
		return e, nil
	}
	x.known[at] = extent{} // while it is measured: a type that holds itself ends here
	ns = ""
	if i := strings.LastIndex(string(at), "::"); i >= 0 {
		ns = at[:i]
	}
	e, err := x.measure(ns, t)
	x.known[at] = e
	return e, err
}

func within(ns types.Path, name string) types.Path {
	if ns == "" {
		return types.Path(name)
	}
	return ns + "::" + types.Path(name)
}

func errParts() error {
	return fmt.Errorf("more than %d parts with all common types written out: declarations, attributes, and pairs of a "+
		"principal and a resource", maxParts)
}

func errLevels() error {
	return fmt.Errorf("a type of more than %d levels with all common types written out", maxLevels)
}
