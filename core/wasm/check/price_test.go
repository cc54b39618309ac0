package check

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// labelsOf is a table that names every label of so many open blocks.
func labelsOf(n int) []byte {
	b := cat([]byte{opBrTable}, leb(n-1))
	for i := range n {
		b = cat(b, leb(i))
	}
	return b
}

// nest is n blocks in one another, in the innermost a table of all their labels, which is left by the label that local
// 1 says, 0; first runs behind the innermost one, between behind each other one.
func nest(n int, first, between []byte) []byte {
	return cat(repeat(n, []byte{opBlock, 0x40}), op(opLocalGet, 1), labelsOf(n), []byte{opEnd}, first,
		repeat(n-1, cat([]byte{opEnd}, between)))
}

// raise adds one to each of n locals, from local 2 on.
func raise(n int) (b []byte) {
	for i := range n {
		b = cat(b, op(opLocalGet, 2+i), i32(1), []byte{opI32Add}, op(opLocalSet, 2+i))
	}
	return b
}

// TestLabelsAreCharged has code that is nothing but labels, and code that moves values from place to place at each of
// them, pay for that: no instruction shows it.
func TestLabelsAreCharged(t *testing.T) {
	testkit.Long(t, "functions of thousands of labels")
	const turns = 100
	never := func(body []byte) []byte { return cat(op(opLocalGet, 1), []byte{opIf, 0x40}, body, []byte{opEnd}) }
	var chain []byte // of branches, none of which is taken
	for i := range 1000 {
		chain = cat(chain, op(opLocalGet, 1), op(opBrIf, i))
	}
	open, end := repeat(1000, []byte{opBlock, 0x40}), repeat(1000, []byte{opEnd})
	for _, c := range []struct {
		name     string
		locals   int
		code     []byte
		min, max int64 // for a turn
	}{
		{"no labels", 1, nil, 5, 10},
		{"blocks that nothing branches to", 1, cat(open, end), 5, 15},
		{"8 labels", 1, nest(8, nil, nil), 10, 30},
		{"1000 labels in a row", 1, nest(1000, nil, nil), 990, 1100},
		{"9900 labels in a row", 1, nest(9900, nil, nil), 40_000, 60_000},
		{"1000 labels in a row, branched to from code that never runs", 1, cat(open, never(chain[:len(chain)-5]), end), 990, 1100},
		{"1000 labels, a unit behind each", 1, nest(1000, nil, []byte{opNop}), 3000, 4100},
		{"1000 labels, 12 locals differ", 13, nest(1000, raise(12), nil), 1000, 1200},
		{"1000 labels, 64 locals differ", 65, nest(1000, raise(64), nil), 26_000, 28_000},
		{"1000 labels, 64 locals that nothing writes", 65, nest(1000, nil, nil), 990, 1100},
		{"100 arms that never run and write 64 locals", 65, repeat(100, never(raise(64))), 2600, 3400},
		{"100 arms that never run, write 64 locals and do not end", 65, repeat(100, never(cat(raise(64), []byte{opReturn}))), 205, 700},
		{"a loop that writes 64 locals, 10 times", 66, cat(i32(10), op(opLocalSet, 66), loop(raise(64), op(opLocalGet, 66), i32(1), []byte{opI32Sub}, op(opLocalTee, 66), op(opBrIf, 0))), 10 * (256 + 31), 10*(256+31) + 100},
	} {
		h := &meter{slice: 10_000, limit: 1 << 20}
		got, err := paid(t, metered(t, one(fn{params: "i", locals: c.locals, code: counting(c.code)}), h), h, turns)
		if err != nil || got < turns*c.min || got > turns*c.max {
			t.Errorf("%s: a turn paid %d, %v; want %d to %d", c.name, got/turns, err, c.min, c.max)
		}
	}
}

// TestValuesAreCharged has blocks and calls hand on values that nothing pushes or uses.
func TestValuesAreCharged(t *testing.T) {
	const values = 100
	many := strings.Repeat("i", values)
	typed := func(o byte, typ int) []byte { return cat([]byte{o}, sleb(int64(typ))) }
	push, drop := repeat(values, op(opLocalGet, 0)), repeat(values, []byte{opDrop})
	for _, c := range []struct {
		name string
		code []byte
		min  int64
	}{
		{"100 blocks with results", cat(repeat(100, typed(opBlock, 2)), push, op(opLocalGet, 1), labelsOf(100), repeat(100, []byte{opEnd}), drop), 100 * 44},
		{"100 loops with parameters", cat(push, repeat(100, cat(typed(opLoop, 3), op(opLocalGet, 1), op(opBrIf, 0), []byte{opEnd})), drop), 100 * 44},
		{"100 calls, each with the results of the one before", cat(push, repeat(100, op(opCall, 1)), drop), 100 * 188},
	} {
		m := one(fn{params: "i", locals: 1, code: c.code})
		through := fn{params: many, results: many}
		for i := range values {
			through.code = cat(through.code, op(opLocalGet, i))
		}
		m.funcs = append(m.funcs, through)
		m.types = [][]byte{funcType("", many), funcType(many, many)}
		h := &meter{slice: 10_000, limit: 1 << 20}
		got, err := paid(t, metered(t, m, h), h, 1)
		if err != nil || got < c.min {
			t.Errorf("%s paid %d, %v; want %d at least", c.name, got, err, c.min)
		}
	}
}

// TestVariables counts what each block writes, once for each variable, against a count that keeps sets.
func TestVariables(t *testing.T) {
	for seed := range uint32(200) {
		next := seed*2654435761 + 1
		random := func(n uint32) uint32 {
			next = next*1664525 + 1013904223
			return next >> 8 % n
		}
		var v variables
		for range 2 { // functions: nothing of the first counts in the second
			v.start(6)
			sets := []map[uint32]bool{{}}
			for range 60 {
				switch random(4) {
				case 0:
					v.begin()
					sets = append(sets, map[uint32]bool{})
				case 1:
					if len(sets) == 1 {
						continue
					}
					last := sets[len(sets)-1]
					if sets = sets[:len(sets)-1]; v.end() != uint32(len(last)) {
						t.Fatalf("seed %d: not %d", seed, len(last))
					}
					for x := range last {
						sets[len(sets)-1][x] = true
					}
				default:
					x := random(6)
					v.write(x)
					sets[len(sets)-1][x] = true
				}
			}
		}
	}
}
