//go:build !linux

package host

// arena is one instance's linear memory: as large as it may ever be, so that it never moves.
type arena struct{ buf []byte }

func newArena(most uint64) (*arena, error) { return &arena{buf: make([]byte, most)}, nil }

// Reallocate makes size bytes accessible; nil when that is more than was reserved.
func (a *arena) Reallocate(size uint64) []byte {
	if size > uint64(len(a.buf)) {
		return nil
	}
	return a.buf[:size:size]
}

// Free gives the memory back. It may be called again.
func (a *arena) Free() { a.buf = nil }

// image is what a memory is reset to. It never changes, and instances share it.
type image struct{ bytes []byte }

func newImage(b []byte) (*image, error) { return &image{append([]byte{}, b...)}, nil }

// adopt makes the memory's first bytes those of the image.
func (m *image) adopt(a *arena) error { return m.restore(a) }

// restore undoes every write since adopt.
func (m *image) restore(a *arena) error {
	copy(a.buf, m.bytes)
	return nil
}

func (m *image) close() { m.bytes = nil }
