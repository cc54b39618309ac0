package wasmgen

import "fmt"

// burdened is an honest guest with functions of its own that nothing calls: they cost whoever compiles them.
func burdened(extra ...Func) []byte {
	g := Finder()
	g.Extra = extra
	return g.Encode()
}

func copies(n int, f Func) []Func {
	out := make([]Func, n)
	for i := range out {
		out[i] = f
	}
	return out
}

// mesh writes locals in blocks that may or may not be left: every local lives in every block.
func mesh(locals, blocks int) Func {
	body := make([][]byte, 0, blocks)
	for i := range blocks {
		body = append(body, Cat(Block, Get(0), BrIf(0), Get(1+(i*7+3)%locals), Set(1+i%locals), End))
	}
	return Func{Sig: Sig{"i", "i"}, Locals: locals, Body: Cat(Cat(body...), Get(1))}
}

// ladder is blocks in blocks; in the innermost one a table of labels is read several times.
func ladder(depth, labels, tables int) Func {
	to := make([]int, labels)
	for i := range to {
		to[i] = i % (depth + 1)
	}
	inner := Repeat(tables, Cat(Block, Get(0), BrTable(to...), End))
	return Func{Sig: Sig{"i", "i"}, Body: Cat(Repeat(depth, Block), inner, Repeat(depth, End), I32(0))}
}

// living pushes n loaded values before it uses the first.
func living(n int) Func {
	return Func{Sig: Sig{"i", "i"}, Body: Cat(Repeat(n, Cat(Get(0), Load32)), Repeat(n-1, Add))}
}

// wide is a function of n parameters that calls itself so many times.
func wide(n, calls int) Func {
	params := make([]byte, n)
	for i := range params {
		params[i] = 'i'
	}
	one := Cat(Repeat(n, Get(0)), CallTo(FirstExtra), Set(0))
	return Func{Sig: Sig{string(params), "i"}, Body: Cat(Get(0), If, Repeat(calls, one), End, Get(0))}
}

// many is an honest guest with n items of a section, and with a few.
func many(name string, n int, add func(m *Module, i int)) Hostile {
	with := func(n int) []byte {
		return edited(func(m *Module) {
			for i := range n {
				add(m, i)
			}
		})
	}
	return Hostile{Name: name, Want: Refused, Static: true, Module: with(n), Twin: with(50)}
}

// burden is a module whose functions cost too much, and the same with fewer of them.
func burden(name string, heavy, light Func) Hostile {
	return Hostile{Name: name, Want: Refused, Static: true, Module: burdened(heavy), Twin: burdened(light)}
}

// costly are modules whose bytes are few beside what it takes to compile or to lay them out.
func costly() []Hostile {
	nops := func(n int) Func { return Func{Sig: Sig{"i", "i"}, Body: Cat(Repeat(n, Nop), I32(0))} }
	locals := func(n int) Func { return Func{Sig: Sig{"i", "i"}, Locals: n, Body: I32(0)} }
	bounded := func(h Hostile) Hostile {
		h.Want, h.Static = Bounded, false
		return h
	}
	return []Hostile{
		burden("compile-10-001-locals", locals(10_001), locals(1_000)),
		burden("compile-body-of-512-kib", nops(512<<10), nops(100<<10)),
		burden("compile-locals-in-blocks", mesh(10_000, 20_000), mesh(40, 60)),
		burden("compile-nesting", Func{Sig: Sig{"i", "i"}, Body: Cat(Repeat(80_000, Block), Repeat(80_000, End), I32(0))},
			ladder(20, 4, 1)), burden("compile-tables-of-labels", ladder(1000, 2_000, 80), ladder(20, 20, 2)),
		bounded(burden("compile-table-of-60-000-labels", ladder(3, 60_000, 3), ladder(3, 20, 2))),
		bounded(burden("compile-living-values", living(40_000), living(40))),
		bounded(burden("compile-calls-of-900-arguments", wide(900, 100), wide(10, 3))),
		burden("compile-2-000-parameters", wide(2_000, 1), wide(10, 3)),
		bounded(Hostile{Name: "compile-many-meshes", Module: burdened(copies(100, mesh(200, 400))...),
			Twin: burdened(copies(3, mesh(20, 40))...)}),
		{Name: "compile-300-000-functions", Want: Refused, Static: true, Module: burdened(copies(300_000, locals(1))...), Twin: burdened(copies(500, locals(1))...)},
		bounded(Hostile{Name: "compile-50-000-functions", Module: burdened(copies(50_000, living(20))...),
			Twin: burdened(copies(50, living(20))...)}),
		many("count-of-50-000-types", 50_000, func(m *Module, i int) {
			s := make([]byte, 0, 16)
			for b := range 16 {
				s = append(s, "il"[i>>b&1])
			}
			m.Types = append(m.Types, Sig{string(s), ""})
		}),
		many("count-of-500-000-globals", 500_000, func(m *Module, _ int) {
			m.Globals = append(m.Globals, Global(I32Type, I32(0)))
		}),
		many("count-of-100-000-exports", 100_000, func(m *Module, i int) {
			m.Exports = append(m.Exports, Export{fmt.Sprint("e", i), ExternFunc, len(Imports)})
		}),
		many("count-of-10-000-custom-sections", 10_000, func(m *Module, _ int) {
			m.Customs = append(m.Customs, Custom{"pad", ""})
		}),
		many("count-of-200-000-data-segments", 200_000, func(m *Module, _ int) { m.Passive = append(m.Passive, "") }),
		many("count-of-200-000-element-segments", 200_000, func(m *Module, _ int) {
			m.Elements = append(m.Elements, PassiveElements())
		}),
	}
}
