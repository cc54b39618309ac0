package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/yett-dev/yett/sdk/exact"
)

// replaced maps CEL's operators and conversions to ours. CEL picks an implementation by the left operand, so an
// integer literal on the left would never know about decimals; with functions of our own both sides are equal.
var replaced = map[string]string{
	operators.Less:              "@lt",
	operators.LessEquals:        "@le",
	operators.Greater:           "@gt",
	operators.GreaterEquals:     "@ge",
	operators.Equals:            "@eq",
	operators.NotEquals:         "@ne",
	operators.In:                "@within",
	operators.Add:               "@add",
	operators.Subtract:          "@sub",
	operators.Multiply:          "@mul",
	operators.Divide:            "@div",
	operators.Modulo:            "@mod",
	operators.Negate:            "@neg",
	overloads.TypeConvertInt:    "@int",
	overloads.TypeConvertUint:   "@uint",
	overloads.TypeConvertDouble: "@double",
	overloads.TypeConvertString: "@string",
	overloads.TypeConvertBytes:  "@bytes",
	overloads.TypeConvertType:   "@type",
}

// growing are those of ours that can make a value which grows; they are handed the meter.
var growing = map[string]bool{"@add": true, "@sub": true, "@mul": true, "@div": true, "@neg": true, "@double": true,
	"@string": true, "@bytes": true}

// fault is a reason to refuse a condition, at a node of its tree.
type fault struct {
	id  int64
	msg string
}

// rewriter turns a checked tree into one whose numbers are exact: literals with a point or an exponent become the
// decimals that were written, operators and conversions become ours. It also refuses what the checker lets pass.
type rewriter struct {
	tree   *ast.AST
	source []rune
	fac    ast.ExprFactory
	nextID int64
	turns  map[int64]bool // lists and maps that are made at every turn of a loop
	faults []fault
}

// rewrite changes tree in place. The tree must not be run if there are faults.
func rewrite(tree *ast.AST, source string) []fault {
	r := &rewriter{tree: tree, source: []rune(source), fac: ast.NewExprFactory(), nextID: ast.MaxID(tree) + 1,
		turns: loops(tree)}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(r.visit))
	return r.faults
}

func (r *rewriter) refuse(e ast.Expr, format string, args ...any) {
	r.faults = append(r.faults, fault{e.ID(), fmt.Sprintf(format, args...)})
}

// numberTypes are CEL's types of numbers. A comparison with one of them would never hold.
var numberTypes = []string{"int", "uint", "double"}

func (r *rewriter) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.LiteralKind:
		r.literal(e)
	case ast.CallKind:
		r.call(e)
	case ast.MapKind:
		r.mapKeys(e)
	case ast.StructKind:
		if name := e.AsStruct().TypeName(); name == lineType.TypeName() {
			r.refuse(e, "a %s comes from shell() only", name)
		}
	case ast.SelectKind:
		sel := e.AsSelect()
		if op := sel.Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == "key" &&
			!slices.Contains(keyFields, sel.FieldName()) {
			r.refuse(e, "key has no field %q, it has %s", sel.FieldName(), strings.Join(keyFields, " and "))
		}
	case ast.IdentKind:
		if t := r.tree.GetType(e.ID()); t.Kind() == types.TypeKind && slices.Contains(numberTypes, e.AsIdent()) {
			r.refuse(e, "no number of a call is of type %s; their type is type(1.5)", e.AsIdent())
		}
	case ast.ListKind:
		r.inLoop(e, e.AsList().Size(), func(id int64) ast.Expr {
			return r.fac.NewList(id, e.AsList().Elements(), e.AsList().OptionalIndices())
		})
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, name := range []string{c.IterVar(), c.IterVar2()} {
			if isVariable(name) {
				r.refuse(e, "%q is a variable of every condition and cannot be a loop's", name)
			}
		}
	}
}

func (r *rewriter) literal(e ast.Expr) {
	d, ok := e.AsLiteral().(types.Double)
	if !ok {
		return
	}
	text, ok := r.numberText(e.ID())
	if !ok {
		r.refuse(e, "cannot read this number as it was written")
		return
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || f != float64(d) {
		r.refuse(e, "cannot read this number as it was written")
		return
	}
	n, err := parseLiteral(text)
	if err != nil {
		r.refuse(e, "number literal: %v", err)
		return
	}
	e.SetKindCase(r.fac.NewLiteral(e.ID(), n))
}

// parseLiteral reads CEL's syntax, which allows ".5" where JSON does not.
func parseLiteral(text string) (*number, error) {
	sign, rest := "", text
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	if strings.HasPrefix(rest, ".") {
		rest = "0" + rest
	}
	mant, exp, _ := strings.Cut(strings.ToLower(rest), "e")
	whole, frac, _ := strings.Cut(mant, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	rest = whole
	if frac != "" {
		rest += "." + frac
	}
	if exp != "" {
		rest += "e" + exp
	}
	d, err := exact.ParseDecimal(sign + rest)
	if err != nil {
		return nil, err
	}
	return numberOf(d), nil
}

// numberText finds the characters of a number literal. The position CEL keeps is the sign's if there is one.
func (r *rewriter) numberText(id int64) (string, bool) {
	at, ok := r.tree.SourceInfo().GetOffsetRange(id)
	if !ok || at.Start < 0 || int(at.Start) >= len(r.source) {
		return "", false
	}
	rest := r.source[at.Start:]
	sign := ""
	if rest[0] == '-' {
		sign, rest = "-", rest[1:]
		for len(rest) > 0 && strings.ContainsRune(" \t\r\n\f", rest[0]) {
			rest = rest[1:]
		}
	}
	n := 0
	for n < len(rest) && (strings.ContainsRune("0123456789.eE", rest[n]) ||
		strings.ContainsRune("+-", rest[n]) && n > 0 && strings.ContainsRune("eE", rest[n-1])) {
		n++
	}
	return sign + string(rest[:n]), n > 0
}

func (r *rewriter) call(e ast.Expr) {
	c := e.AsCall()
	name, args := c.FunctionName(), c.Args()
	switch {
	case name == operators.Index:
		if args[1].Kind() != ast.LiteralKind {
			e.SetKindCase(r.fac.NewCall(e.ID(), name, args[0], r.wrap("@index", args[1])))
		} else if _, ok := args[1].AsLiteral().(*number); ok {
			r.refuse(args[1], "an index or a map key cannot be a decimal")
		}
		return
	case name == overloads.TypeConvertTimestamp:
		e.SetKindCase(r.fac.NewCall(e.ID(), name, r.wrap("@index", args[0])))
		return
	case name == overloads.Matches:
		r.matches(e, c)
		return
	case strings.HasPrefix(name, "get") && c.IsMemberFunction() && len(args) == 1 && args[0].Kind() != ast.LiteralKind:
		r.refuse(args[0], "%s() needs a literal time zone: a call must not choose it", name)
		return
	case name == operators.Divide && !r.isInteger(args[0]) && seldomExact(args[1]):
		r.refuse(e, "a number divided by this one seldom has an exact quotient: multiply the other side instead")
		return
	case name == operators.In && allStrings(args[1]) && r.isText(args[0]):
		return // CEL looks a text up in a constant list by hash
	}
	ours, ok := replaced[name]
	if reading[name] != "" {
		ours, ok = reading[name], true
		args = append(slices.Clone(args), r.hidden(readerName))
	}
	if !ok {
		return
	}
	if len(args) == 2 && reading[name] == "" {
		args = []ast.Expr{r.exactBeside(args[0], args[1]), r.exactBeside(args[1], args[0])}
	}
	if growing[ours] {
		args = append(slices.Clone(args), r.meter())
	}
	e.SetKindCase(r.fac.NewCall(e.ID(), ours, args...))
	r.tree.SetReference(e.ID(), ast.NewFunctionReference(ours))
}

// exactBeside turns an integer literal next to an operand of unknown type into a number once, at load, instead of at
// every comparison.
func (r *rewriter) exactBeside(e, other ast.Expr) ast.Expr {
	if e.Kind() != ast.LiteralKind || r.tree.GetType(other.ID()).Kind() != types.DynKind {
		return e
	}
	if i, ok := e.AsLiteral().(types.Int); ok {
		return r.fac.NewLiteral(e.ID(), literalNumber(int64(i)))
	}
	return e
}

func (r *rewriter) matches(e ast.Expr, c ast.CallExpr) {
	args := c.Args()
	subject, pattern := c.Target(), args[len(args)-1]
	if !c.IsMemberFunction() {
		subject = args[0]
	}
	if pattern.Kind() != ast.LiteralKind {
		r.refuse(pattern, "matches() needs a literal expression, so that it can be checked and bounded when rules are loaded")
		return
	}
	subject = r.wrap("@short", subject)
	if c.IsMemberFunction() {
		e.SetKindCase(r.fac.NewMemberCall(e.ID(), c.FunctionName(), subject, pattern))
		return
	}
	e.SetKindCase(r.fac.NewCall(e.ID(), c.FunctionName(), subject, pattern))
}

func (r *rewriter) mapKeys(e ast.Expr) {
	entries := slices.Clone(e.AsMap().Entries())
	for i, entry := range entries {
		m := entry.AsMapEntry()
		if m.Key().Kind() != ast.LiteralKind {
			entries[i] = r.fac.NewMapEntry(entry.ID(), r.wrap("@index", m.Key()), m.Value(), m.IsOptional())
		} else if _, ok := m.Key().AsLiteral().(*number); ok {
			r.refuse(m.Key(), "an index or a map key cannot be a decimal")
		}
	}
	e.SetKindCase(r.fac.NewMap(e.ID(), entries))
	r.inLoop(e, len(entries), func(id int64) ast.Expr { return r.fac.NewMap(id, entries) })
}

// inLoop charges for a list or a map that is made at every turn of a loop. again makes it under another id.
func (r *rewriter) inLoop(e ast.Expr, size int, again func(id int64) ast.Expr) {
	if size == 0 || !r.turns[e.ID()] {
		return
	}
	inner := again(r.id(types.DynType))
	e.SetKindCase(r.fac.NewCall(e.ID(), "@made", inner, r.meter()))
	r.tree.SetReference(e.ID(), ast.NewFunctionReference("@made"))
}

// id is a new one for an expression of that type.
func (r *rewriter) id(t *types.Type) int64 {
	id := r.nextID
	r.nextID++
	r.tree.SetType(id, t)
	return id
}

// meter is the expression that gives the evaluation's meter.
func (r *rewriter) meter() ast.Expr { return r.hidden(meterName) }

// hidden is the expression that gives a variable which no source can spell.
func (r *rewriter) hidden(name string) ast.Expr {
	id := r.id(types.DynType)
	r.tree.SetReference(id, ast.NewIdentReference(name, nil))
	return r.fac.NewIdent(id, name)
}

// loops finds the lists and maps that are made at every turn of a loop.
func loops(tree *ast.AST) map[int64]bool {
	out := map[int64]bool{}
	mark := ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ListKind, ast.MapKind:
			out[e.ID()] = true
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == operators.Add && isAccumulator(c.Args()[0]) {
				delete(out, c.Args()[1].ID()) // what a macro adds is charged by the addition
			}
		}
	})
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			ast.PostOrderVisit(e.AsComprehension().LoopCondition(), mark)
			ast.PostOrderVisit(e.AsComprehension().LoopStep(), mark)
		}
	}))
	return out
}

func (r *rewriter) wrap(fn string, e ast.Expr) ast.Expr {
	id := r.id(types.DynType)
	r.tree.SetReference(id, ast.NewFunctionReference(fn))
	return r.fac.NewCall(id, fn, e)
}

// isInteger says whether a value is one of CEL's integers, which no number of a call is.
func (r *rewriter) isInteger(e ast.Expr) bool {
	k := r.tree.GetType(e.ID()).Kind()
	return k == types.IntKind || k == types.UintKind
}

// seldomExact reports whether e is a literal by which few numbers can be divided: one with other prime factors than 2
// and 5.
func seldomExact(e ast.Expr) bool {
	if e.Kind() != ast.LiteralKind {
		return false
	}
	n, ok := asNumber(e.AsLiteral())
	if !ok || n.Equal(smallNumber(0)) == types.True {
		return false
	}
	return types.IsError(smallNumber(1).quo(n))
}

func (r *rewriter) isText(e ast.Expr) bool {
	k := r.tree.GetType(e.ID()).Kind()
	return k == types.StringKind || k == types.DynKind
}

func isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.HasPrefix(e.AsIdent(), "@")
}

func allStrings(e ast.Expr) bool {
	if e.Kind() != ast.ListKind || e.AsList().Size() == 0 {
		return false
	}
	for _, el := range e.AsList().Elements() {
		if el.Kind() != ast.LiteralKind {
			return false
		}
		if _, ok := el.AsLiteral().(types.String); !ok {
			return false
		}
	}
	return true
}
