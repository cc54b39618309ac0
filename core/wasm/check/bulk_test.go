package check

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestBulkInChunks holds long fills and copies against what the instructions mean, whichever way the two places
// overlap, and sees that the host was asked in between.
func TestBulkInChunks(t *testing.T) {
	const pages = 64
	args := cat(op(opLocalGet, 0), op(opLocalGet, 1), op(opLocalGet, 2))
	m := module{memory: true, limits: []byte{0, pages},
		funcs: []fn{{params: "iii", code: cat(args, []byte{prefixMisc, 10, 0, 0})},
			{params: "iii", code: cat(args, []byte{prefixMisc, 11, 0})}},
		exports: [][]byte{exportOf("f", externFunc, 0), exportOf("fill", externFunc, 1), exportOf("memory", externMemory, 0)}}
	h := &meter{slice: 1000, limit: 1 << 20}
	inst := metered(t, m, h)
	size := pages * pageSize
	model := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range model {
		model[i] = byte(r.Uint32())
	}
	inst.Memory().Write(0, model)
	for _, c := range []struct{ to, from, n int }{{0, 0, 0}, {size, size, 0}, {1, 0, size - 1}, {0, 1, size - 1},
		{5, 3, bulkChunk}, {3, 5, bulkChunk + 1},
		{bulkChunk, 0, 3*bulkChunk - 7}, {0, bulkChunk, 3*bulkChunk - 7}, {100, 100, 2*bulkChunk + 1}, {size - bulkChunk - 1, 0, bulkChunk + 1}, {0, size - 3, 3}} {
		copy(model[c.to:c.to+c.n], model[c.from:c.from+c.n])
		if _, err := paid(t, inst, h, uint64(c.to), uint64(c.from), uint64(c.n)); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if got, _ := inst.Memory().Read(0, uint32(size)); !bytes.Equal(got, model) {
			t.Fatalf("%+v: the memory differs", c)
		}
		if want := c.n / bulkChunk; h.ticks < want {
			t.Errorf("%+v: the host was asked %d times, want %d or more", c, h.ticks, want)
		}
	}
	for _, c := range []struct{ to, n int }{{0, 0}, {7, 3*bulkChunk + 5}, {size, 0}, {size - 1, 1}} {
		for i := range model[c.to : c.to+c.n] {
			model[c.to+i] = 0xa5
		}
		if _, err := inst.ExportedFunction("fill").Call(t.Context(), uint64(c.to), 0xa5, uint64(c.n)); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if got, _ := inst.Memory().Read(0, uint32(size)); !bytes.Equal(got, model) {
			t.Fatalf("fill %+v: the memory differs", c)
		}
	}
	for _, c := range [][3]uint64{{uint64(size), 0, 1}, {0, uint64(size), 1}, {1, 0, uint64(size)}, {0, 1, uint64(size)},
		{1 << 31, 0, 1 << 31}, {0xffffffff, 0, 2}, {2, 0xffffffff, 0xffffffff}} {
		if _, err := paid(t, metered(t, m, h), h, c[0], c[1], c[2]); err == nil {
			t.Errorf("a copy of %v is out of bounds and did not trap", c)
		}
	}
}
