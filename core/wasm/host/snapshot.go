package host

import (
	"math/rand/v2"

	"github.com/tetratelabs/wazero/api"
)

// copyMost is the largest memory that is reset by copying all of it. Beyond, it is cheaper to have the kernel drop the
// pages that were written to: two system calls' worth, and a fault for each page that the next call writes.
const copyMost = 512 << 10

// snapshot is everything that a call of a module can change, as it was after yett_init: the memory, the mutable
// globals, and what the host keeps for a guest. It is made from the module's first instance and serves all of them:
// they start from it instead of running the module's start again, and a reset goes back to it. It never changes.
//
// A module that can change more than that (check.Module.Keeps) has none.
type snapshot struct {
	memory  *image
	size    uint32 // bytes of memory
	globals []uint64
	clock   uint64
	random  rand.ChaCha8
}

// takeSnapshot copies the instance, and puts it on the copy so that it can be reset.
func takeSnapshot(in *instance) (*snapshot, error) {
	size := in.mem.Size()
	b, _ := in.mem.Read(0, size)
	img, err := newImage(b)
	if err != nil {
		return nil, err
	}
	s := &snapshot{memory: img, size: size, clock: in.clock, random: in.random}
	for _, g := range in.globals {
		s.globals = append(s.globals, g.Get())
	}
	if err := img.adopt(in.arena); err != nil {
		img.close()
		return nil, err
	}
	return s, nil
}

// wake makes a new instance, in which no code has run, what the first one was after its start. It is false when the
// memory cannot grow to that size.
func (s *snapshot) wake(in *instance) (bool, error) {
	if more := s.size - in.mem.Size(); more > 0 {
		if _, ok := in.mem.Grow(more / pageSize); !ok {
			return false, nil
		}
	}
	if err := s.memory.adopt(in.arena); err != nil {
		return false, err
	}
	s.restoreRest(in)
	return true, nil
}

// restore undoes what calls did to an instance. It is false when the memory has grown, which cannot be undone.
func (s *snapshot) restore(in *instance) (bool, error) {
	if in.mem.Size() != s.size {
		return false, nil
	}
	if err := s.memory.restore(in.arena); err != nil {
		return false, err
	}
	s.restoreRest(in)
	return true, nil
}

func (s *snapshot) restoreRest(in *instance) {
	for i, g := range in.globals {
		g.Set(s.globals[i])
	}
	in.clock, in.random = s.clock, s.random
}

// mutableGlobals looks the module's own mutable globals up; nil, false if one of them cannot be set from outside.
func (m *Module) mutableGlobals(mod api.Module) ([]api.MutableGlobal, bool) {
	globals := make([]api.MutableGlobal, 0, len(m.checked.Globals))
	for _, g := range m.checked.Globals {
		mg, ok := mod.ExportedGlobal(g.Name).(api.MutableGlobal)
		if !ok {
			return nil, false
		}
		globals = append(globals, mg)
	}
	return globals, true
}
