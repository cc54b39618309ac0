package rules

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/yett-dev/yett/core/shell"
	"github.com/yett-dev/yett/sdk/exact"
)

// readerName is the variable that rewrite hands to the functions that read commands and paths. No source can spell it.
const readerName = "@reader"

const (
	// A line and a path cost readSteps a byte, and a patch one step for every patchBytes.
	readSteps  = 64
	patchBytes = 4
	// readCost is what CEL's estimate counts for a text of any length: no more is read of it.
	readCost = 20_000
	// maxLines is how many lines a check keeps, so that several rules that ask for the same line read it once.
	maxLines = 16
)

var errPatch = errors.New("not a patch")

var lineType = types.NewObjectType("yett.Line")

// lineFields are what a condition may ask of a line, with their types.
var lineFields = map[string]*types.FieldType{
	"simple": field(types.BoolType, func(l *shell.Line) any { return l.Simple }),
	"class":  field(types.StringType, func(l *shell.Line) any { return string(l.Class) }),
	"words":  field(types.NewListType(types.StringType), func(l *shell.Line) any { return l.Words }),
	"mentions": field(types.NewListType(types.StringType), func(l *shell.Line) any {
		out := make([]string, len(l.Mentions))
		for i, m := range l.Mentions {
			out[i] = string(m)
		}
		return out
	}),
}

func field(t *types.Type, get func(*shell.Line) any) *types.FieldType {
	return &types.FieldType{Type: t,
		IsSet: func(any) bool { return true },
		GetFrom: func(v any) (any, error) {
			l, ok := v.(*shell.Line)
			if !ok {
				return nil, errOverload
			}
			return get(l), nil
		}}
}

// withLine are CEL's types and ours.
type withLine struct{ types.Provider }

// FindStructType knows the type of a line.
func (p withLine) FindStructType(name string) (*types.Type, bool) {
	if name == lineType.TypeName() {
		return types.NewTypeTypeWithParam(lineType), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames gives the fields of a line.
func (p withLine) FindStructFieldNames(name string) ([]string, bool) {
	if name == lineType.TypeName() {
		return []string{"class", "mentions", "simple", "words"}, true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType gives the type of a field of a line.
func (p withLine) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	if name == lineType.TypeName() {
		f, ok := lineFields[fieldName]
		return f, ok
	}
	return p.Provider.FindStructFieldType(name, fieldName)
}

// reading are the functions that read commands and paths, and what rewrite makes of them.
var reading = map[string]string{"shell": "@shell", "file": "@file", "patch": "@patch"}

// shellFunctions declare them for the checker, and bind what rewrite puts in.
func shellFunctions() ([]cel.EnvOption, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("building the types of conditions: %w", err)
	}
	opts := []cel.EnvOption{cel.CustomTypeProvider(withLine{registry})}
	for name, result := range map[string]*cel.Type{"shell": lineType, "file": cel.StringType,
		"patch": cel.ListType(cel.StringType)} {
		opts = append(opts, cel.Function(name, cel.Overload(name+"_string", []*cel.Type{cel.StringType}, result)))
	}
	for name, read := range map[string]func(r *reader, text string) ref.Val{"@shell": (*reader).line,
		"@file": (*reader).file, "@patch": (*reader).patch} {
		opts = append(opts, cel.Function(name, decls.DisableTypeGuards(true),
			cel.Overload(name, []*cel.Type{cel.DynType, cel.DynType}, cel.DynType, cel.BinaryBinding(
				func(v, by ref.Val) ref.Val {
					text, isText := v.(types.String)
					r, ok := by.(*reader)
					if !isText || !ok {
						return fail(errOverload)
					}
					return read(r, string(text))
				}))))
	}
	return opts, nil
}

// readingCost is the estimate for one of them, nil for other functions.
func readingCost(function string) *cost.CallEstimate {
	if reading[function] == "" {
		return nil
	}
	return &cost.CallEstimate{CostEstimate: cost.Estimate{Min: 1, Max: readCost}}
}

// reader reads the commands and the paths of one call, which are of its context's cwd.
type reader struct {
	sc    *scope
	lines map[string]*shell.Line
}

// dir is where the call's agent works, "" if its context does not say: cwd, OpenCode's directory, or the one directory
// of Cline's workspaceRoots or Cursor's workspace_roots.
func (r *reader) dir() string {
	dir := r.sc.context.v.Get("cwd")
	if !dir.Exists() {
		dir = r.sc.context.v.Get("directory")
	}
	for _, name := range []string{"workspaceRoots", "workspace_roots"} {
		if roots := r.sc.context.v.Get(name); !dir.Exists() && roots.Exists() {
			if dir = roots.Index(0); roots.Len() != 1 {
				return ""
			}
		}
	}
	if dir.Kind() == exact.String {
		return r.sc.text(dir)
	}
	return ""
}

func (r *reader) line(text string) ref.Val {
	if l, known := r.lines[text]; known {
		r.sc.charge(len(text) / bytesPerStep)
		return line{l}
	}
	if !r.sc.charge(min(len(text), shell.MaxLine) * readSteps) {
		return fail(errBudget)
	}
	l := shell.ReadLine(text, r.dir())
	if len(r.lines) < maxLines {
		if r.lines == nil {
			r.lines = map[string]*shell.Line{}
		}
		r.lines[text] = &l
	}
	return line{&l}
}

func (r *reader) file(path string) ref.Val {
	if !r.sc.charge(min(len(path), shell.MaxPath) * readSteps) {
		return fail(errBudget)
	}
	return types.String(shell.File(path, r.dir()))
}

func (r *reader) patch(text string) ref.Val {
	if !r.sc.charge(len(text)/patchBytes) || !r.sc.made.takes(len(text)) {
		return fail(errBudget)
	}
	files, err := shell.PatchFiles(text)
	if err != nil {
		return fail(errPatch)
	}
	return types.NewStringList(types.DefaultTypeAdapter, files)
}

// ConvertToNative refuses.
func (r *reader) ConvertToNative(reflect.Type) (any, error) { return nil, errOverload }

// ConvertToType refuses.
func (r *reader) ConvertToType(ref.Type) ref.Val { return fail(errOverload) }

// Equal is true for the same reader.
func (r *reader) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(r)) }

// Type is that of no other value.
func (r *reader) Type() ref.Type { return readerType }

// Value is the reader.
func (r *reader) Value() any { return r }

var readerType = types.NewOpaqueType(readerName)

// line is a command line that was read.
type line struct{ *shell.Line }

// ConvertToNative refuses.
func (l line) ConvertToNative(reflect.Type) (any, error) { return nil, errOverload }

// ConvertToType answers type(x) only.
func (l line) ConvertToType(t ref.Type) ref.Val { return typeOnly(t, lineType) }

// Equal compares what is known of two lines.
func (l line) Equal(other ref.Val) ref.Val {
	o, ok := other.(line)
	return types.Bool(ok && l.Simple == o.Simple && l.Class == o.Class && slices.Equal(l.Words, o.Words) &&
		slices.Equal(l.Mentions, o.Mentions))
}

// Type is the type of lines.
func (l line) Type() ref.Type { return lineType }

// Value is the shell.Line.
func (l line) Value() any { return l.Line }
