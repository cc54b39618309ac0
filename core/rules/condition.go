package rules

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Limits on one condition. None is configurable: they are far above what a rule needs and below what could hurt.
const (
	maxWhen       = 16 << 10 // characters of source
	maxNodes      = 5_000    // nodes of the tree, macros expanded
	maxDepth      = 100      // nesting of the source
	maxLoops      = 3        // nesting of all, exists, exists_one, map and filter
	maxExpression = 500      // size of a compiled matches() expression, in RE2 instructions

	// CEL compiles an expression to learn its size. What all of them in one source have by estimate is bounded before.
	maxExpressions = 100_000

	// costLimit bounds one evaluation in CEL's units, about one operation each: between 0.1 and 0.2 s all in all.
	costLimit = 1_000_000

	// quickCost is the worst case, by CEL's estimate when rules are loaded, up to which a condition runs without the meter
	// and without looking at its context: some ten milliseconds on the largest call there can be.
	quickCost = 150_000

	// What a call can carry at most, for that estimate; the wire's limits.
	maxTextBytes = 1 << 20
	maxListItems = 100_000

	// interruptEvery is how many loop steps pass between two looks at the context.
	interruptEvery = 64

	// conditionSteps is what a condition counts that reads nothing of the call.
	conditionSteps = 16
)

var (
	variables = []string{"agent", "session", "tool", "operation", "args", "context", "key", "now"}
	keyFields = []string{"id", "name"}
)

func isVariable(name string) bool { return slices.Contains(variables, name) }

// condition is one compiled expression: a `when`, the amount of a budget. It is immutable and safe for concurrent use.
type condition struct {
	program cel.Program
	source  string
	metered bool
}

// eval answers the condition for the call in sc. An error has one of the classes of classify and carries no values.
func (c *condition) eval(sc *scope) (bool, error) {
	v, err := c.value(sc)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, errNotBool
	}
	return bool(b), nil
}

// value evaluates for the call in sc under a budget of its own. The error is as eval's.
func (c *condition) value(sc *scope) (ref.Val, error) {
	sc.steps, sc.made.left = maxSteps, maxMade
	sc.charge(conditionSteps)
	v, err := c.run(sc)
	if sc.raw != nil {
		*sc.raw = err
	}
	switch {
	case sc.late != nil:
		return nil, errInterrupted
	case sc.made.left < 0:
		return nil, errLarge
	case sc.spent():
		return nil, errBudget
	}
	if err != nil {
		return nil, classify(err)
	}
	return v, nil
}

func (c *condition) run(sc *scope) (ref.Val, error) {
	if c.metered {
		sc.begin()
	}
	if sc.late != nil {
		return nil, errInterrupted
	}
	if c.metered {
		v, _, err := c.program.ContextEval(sc.ctx, sc)
		return v, err
	}
	v, _, err := c.program.Eval(sc)
	return v, err
}

// The classes of evaluation errors beside those of number.go.
var (
	errNoKey       = errors.New("no such key")
	errBounds      = errors.New("index out of bounds")
	errZero        = errors.New("division by zero")
	errInterrupted = errors.New("interrupted")
	errOther       = errors.New("evaluation failed")
)

// classify reduces an error to its class, because CEL's texts quote keys and values of the call.
func classify(err error) error {
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled):
		return errBudget
	case errors.Is(err, interpreter.InterruptError{}):
		return errInterrupted
	}
	for _, known := range []error{errRange, errDigits, errLarge, errBudget, errTooLong, errShape, errNoKey, errBounds,
		errOverload, errInexact, errPatch} {
		if errors.Is(err, known) || strings.HasPrefix(err.Error(), known.Error()) {
			return known
		}
	}
	text := err.Error()
	switch {
	case text == "division by zero", text == "modulus by zero":
		return errZero
	case strings.HasSuffix(text, "overflow"), strings.HasPrefix(text, "range error"):
		return errRange
	}
	return errOther
}

// environment is built once, when the first rules are loaded, and shared by all conditions.
var environment = sync.OnceValues(newEnvironment)

func newEnvironment() (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.Variable("agent", cel.StringType),
		cel.Variable("session", cel.StringType),
		cel.Variable("tool", cel.StringType),
		cel.Variable("operation", cel.StringType),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("context", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("key", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("now", cel.TimestampType),
		cel.Constant("decimal", types.NewTypeTypeWithParam(decimalType), decimalType),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableErrorOnBadPresenceTest(true),
		cel.EnableHiddenAccumulatorName(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxWhen),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxExpression),
		cel.ASTValidators(
			cel.ValidateRegexLiterals(),
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateComprehensionNestingLimit(maxLoops),
		),
	}
	opts = append(opts, ourOperators()...)
	shells, err := shellFunctions()
	if err != nil {
		return nil, err
	}
	opts = append(opts, shells...)
	return cel.NewEnv(append(opts, mixedArithmetic()...)...)
}

// ourOperators binds the names that rewrite puts in. No source text can spell them: they begin with @.
func ourOperators() []cel.EnvOption {
	var opts []cel.EnvOption
	for name, fn := range map[string]functions.BinaryOp{
		"@lt": less, "@le": lessEqual, "@gt": greater, "@ge": greaterEqual, "@eq": equal, "@ne": notEqual,
		"@within": contains, "@mod": modulo,
		"@neg": meteredOne(negate), "@double": meteredOne(toDouble), "@string": meteredOne(toString),
		"@bytes": meteredOne(toBytes), "@made": meteredOne(madeInLoop),
	} {
		opts = append(opts, cel.Function(name, decls.DisableTypeGuards(true),
			cel.Overload(name, []*cel.Type{cel.DynType, cel.DynType}, cel.DynType, cel.BinaryBinding(fn))))
	}
	for name, fn := range map[string]func(a, b ref.Val, m *meter) ref.Val{"@add": add, "@sub": subtract,
		"@mul": multiply, "@div": divide} {
		opts = append(opts, cel.Function(name, decls.DisableTypeGuards(true),
			cel.Overload(name, []*cel.Type{cel.DynType, cel.DynType, cel.DynType}, cel.DynType,
				cel.FunctionBinding(metered(fn)))))
	}
	for name, fn := range map[string]functions.UnaryOp{
		"@int": toInt, "@uint": toUint, "@index": toIndex, "@short": shortText, "@type": typeOf,
	} {
		opts = append(opts, cel.Function(name, decls.DisableTypeGuards(true),
			cel.Overload(name, []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(fn))))
	}
	return opts
}

// mixedArithmetic makes the checker see that args.n * 2 may be a decimal. Without it the checker would call the
// product an int and refuse to add 0.5 to it.
func mixedArithmetic() []cel.EnvOption {
	var opts []cel.EnvOption
	for _, op := range []string{operators.Add, operators.Subtract, operators.Multiply, operators.Divide,
		operators.Modulo} {
		for _, t := range []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType} {
			id := "decimal" + op + t.String()
			opts = append(opts, cel.Function(op,
				cel.Overload(id, []*cel.Type{decimalType, t}, cel.DynType),
				cel.Overload(id+"_left", []*cel.Type{t, decimalType}, cel.DynType)))
		}
	}
	return opts
}

// compileCondition checks a `when` and plans it. The faults carry CEL's own line and column.
func compileCondition(source string) (*condition, []Error) {
	return compileExpression(source, func(t *cel.Type) string {
		if t == cel.BoolType {
			return ""
		}
		return "the condition is a " + t.String() + ", not a bool; compare it with something, as in x == true"
	})
}

// compileAmount checks the amount of a budget and plans it. What only the call knows, such as args.amount, is looked at
// when there is one.
func compileAmount(source string) (*condition, []Error) {
	return compileExpression(source, func(t *cel.Type) string {
		switch t.Kind() {
		case types.IntKind, types.UintKind, types.DoubleKind, types.DynKind:
			return ""
		}
		return "the amount is a " + t.String() + ", not a number"
	})
}

// compileExpression checks and plans. misfit says what is wrong with a type, "" if nothing is.
func compileExpression(source string, misfit func(*cel.Type) string) (*condition, []Error) {
	env, err := environment()
	if err != nil {
		return nil, []Error{{Msg: "building the CEL environment: " + err.Error()}}
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, issueErrors(issues)
	}
	if faults := largeExpressions(parsed.NativeRep()); len(faults) > 0 {
		return nil, faults
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, issueErrors(issues)
	}
	tree := checked.NativeRep()
	if msg := misfit(checked.OutputType()); msg != "" {
		return nil, []Error{{Line: 1, Column: 1, Msg: msg}}
	}
	estimate, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, []Error{{Msg: "estimating its cost: " + err.Error()}}
	}
	if estimate.Min > costLimit {
		return nil, []Error{{Line: 1, Column: 1, Msg: "costs more than the limit on every call"}}
	}
	if faults := rewrite(tree, source); len(faults) > 0 {
		var out []Error
		for _, f := range faults {
			at := tree.SourceInfo().GetStartLocation(f.id)
			out = append(out, Error{Line: at.Line(), Column: at.Column() + 1, Msg: f.msg})
		}
		return nil, out
	}
	c := &condition{source: source, metered: estimate.Max > quickCost}
	opts := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if c.metered {
		opts = append(opts, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(interruptEvery))
	}
	if c.program, err = env.Program(checked, opts...); err != nil {
		return nil, []Error{{Line: 1, Column: 1, Msg: err.Error()}}
	}
	return c, nil
}

// issueErrors gives CEL's faults in words that say what to write. Of faults of syntax the first is given alone: what
// follows is mostly its echo.
func issueErrors(issues *cel.Issues) []Error {
	var out []Error
	for _, e := range issues.Errors() {
		msg, syntax := strings.CutPrefix(strings.TrimSuffix(e.Message, " (in container '')"), "Syntax error: ")
		if syntax {
			msg = syntaxWords(msg)
		} else {
			msg = typeWords(msg)
		}
		out = append(out, Error{Line: e.Location.Line(), Column: e.Location.Column() + 1, Msg: msg})
		if syntax {
			return out
		}
	}
	return out
}

// sizes tells CEL's estimate how large a call's documents can be.
type sizes struct{}

// EstimateSize bounds texts and lists by the wire's limits. A size CEL knows better is left to it.
func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if node.ComputedSize() != nil {
		return nil
	}
	switch node.Type().Kind() {
	case types.ListKind, types.MapKind:
		return &cost.SizeEstimate{Max: maxListItems}
	case types.DynKind, types.StringKind, types.BytesKind:
		return &cost.SizeEstimate{Max: maxTextBytes}
	}
	return nil
}

// EstimateCallCost knows the functions that read commands, and leaves the cost of others to CEL.
func (sizes) EstimateCallCost(function, _ string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	return readingCost(function)
}
