package wasmgen

import "strings"

// Locals of a turning function: its parameter counts the turns, the next chooses a label and stays 0.
const (
	turnLocal   = 0
	chosenLocal = 1
	firstLocal  = 2
)

// turning is a function that runs something as often as its parameter says.
func turning(locals int, body []byte) Func {
	return Func{Sig: Sig{"i", "i"}, Locals: firstLocal - 1 + locals,
		Body: Cat(Loop, body, Get(turnLocal), I32(1), Sub, Tee(turnLocal), BrIf(0), End, I32(1))}
}

// nested is n blocks in one another, each begun by opening, and in the innermost a table of all their labels. It is
// left by the innermost label; first runs behind that, and apart behind each.
func nested(n int, opening, first, apart []byte) []byte {
	return Cat(Repeat(n, opening), Get(chosenLocal), BrTable(indexesTo(n)...), End, first, apart,
		Repeat(n-1, Cat(End, apart)))
}

// raised adds one to each of n locals.
func raised(n int) []byte {
	var out []byte
	for i := range n {
		out = Cat(out, Get(firstLocal+i), I32(1), Add, Set(firstLocal+i))
	}
	return out
}

// typed begins a block, or a loop, of a type of the module.
func typed(op []byte, typ int) []byte { return Cat(op[:1], Sleb(int64(typ))) }

// crowded are modules whose instructions are few beside what the machine does: it jumps from label to label and moves
// values from place to place.
func crowded() []Hostile {
	const values = 64
	many := strings.Repeat("i", values)
	types := func(m *Module) { m.Types = []Sig{{"", many}, {many, many}} }
	turns := func(n int) []byte { return Cat(I32(n), CallTo(FirstExtra), Drop) }
	hostile := func(name string, locals int, body []byte, edit func(*Module), extra ...Func) Hostile {
		return calling(name, append([]Func{turning(locals, body)}, extra...), turns(1<<30), turns(3), edit)
	}
	plain := func(name string, locals int, body []byte) Hostile { return hostile(name, locals, body, nil) }
	never := func(body []byte) []byte { return Cat(Get(chosenLocal), If, body, End) }
	var branches []byte
	for i := range 1000 {
		branches = Cat(branches, Get(chosenLocal), BrIf(i))
	}
	push, drop := Repeat(values, Get(turnLocal)), Repeat(values, Drop)
	var through []byte
	for i := range values {
		through = Cat(through, Get(i))
	}
	return []Hostile{
		plain("labels-30-in-a-row", 0, nested(30, Block, nil, nil)),
		plain("labels-2-000-in-a-row", 0, nested(2_000, Block, nil, nil)),
		plain("labels-9-900-in-a-row", 0, nested(9_900, Block, nil, nil)),
		plain("labels-9-900-apart", 0, nested(9_900, Block, nil, Nop)),
		plain("labels-of-branches-that-never-run", 0, Cat(Repeat(1000, Block), never(branches), Repeat(1000, End))),
		plain("labels-of-ifs", 0, nested(1_000, Cat(I32(1), If), nil, nil)),
		plain("labels-with-16-locals", 16, nested(2_000, Block, raised(16), nil)),
		plain("labels-with-64-locals", 64, nested(2_000, Block, raised(64), nil)),
		plain("labels-with-16-locals-apart", 16, nested(1_000, Block, raised(16), Nop)),
		plain("labels-with-600-locals", 600, nested(100, Block, raised(600), nil)),
		plain("arms-that-never-run-with-64-locals", 64, Repeat(100, never(raised(64)))),
		hostile("blocks-that-hand-on-values", 0, Cat(Repeat(200, typed(Block, 0)), push, Get(chosenLocal),
			BrTable(indexesTo(200)...), Repeat(200, End), drop), types),
		hostile("loops-that-hand-on-values", 0, Cat(push,
			Repeat(200, Cat(typed(Loop, 1), Get(chosenLocal), BrIf(0), End)), drop), types),
		hostile("calls-that-hand-on-values", 0, Cat(push, Repeat(100, CallTo(FirstExtra+1)), drop), nil,
			Func{Sig: Sig{many, many}, Body: through}),
		hostile("results-that-pass-through-calls", 0, Cat(CallTo(FirstExtra+1), drop), nil, passing(30, many)...),
		hostile("references-to-functions", 0, Repeat(8, Cat(RefFunc(FirstExtra), Drop)), func(m *Module) {
			m.Elements = [][]byte{DeclaredElements(FirstExtra)}
		}),
	}
}

// indexesTo are the numbers below n.
func indexesTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// passing are functions that give what the next one gives, as the second extra function and on.
func passing(n int, results string) []Func {
	out := make([]Func, 0, n+1)
	for i := range n {
		out = append(out, Func{Sig: Sig{"", results}, Body: CallTo(FirstExtra + 2 + i)})
	}
	return append(out, Func{Sig: Sig{"", results}, Body: Repeat(len(results), I32(7))})
}
