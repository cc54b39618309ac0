package host

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arena is one instance's linear memory. Its whole range is reserved at once and opened as the guest grows, so it never
// moves, and what was not touched costs nothing. It is one goroutine's, and it is nobody's after Free.
type arena struct {
	base     unsafe.Pointer
	reserved uintptr // bytes of address space
	open     uintptr // bytes that may be accessed
}

// newArena reserves most bytes.
func newArena(most uint64) (*arena, error) {
	n := uintptr(max(most, pageSize))
	p, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", n, err)
	}
	return &arena{base: p, reserved: n}, nil
}

// Reallocate makes size bytes accessible; nil when that is more than was reserved or the system has none left.
func (a *arena) Reallocate(size uint64) []byte {
	n := uintptr(size)
	if a.base == nil || size > uint64(a.reserved) {
		return nil
	}
	if n > a.open {
		if unix.Mprotect(a.bytes(a.open, n), unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		a.open = n
	}
	return a.bytes(0, n)
}

func (a *arena) bytes(from, to uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(a.base, from)), to-from)
}

// Free gives the memory back. It may be called again.
func (a *arena) Free() {
	if a.base == nil {
		return
	}
	// It cannot fail: the range is ours and whole.
	_ = unix.MunmapPtr(a.base, a.reserved)
	a.base, a.reserved, a.open = nil, 0, 0
}

// image is what a memory is reset to. It never changes, and instances share it.
type image struct {
	bytes []byte // nil if it is in a file
	fd    int
	size  uintptr
}

// newImage keeps a copy of b: a small one on the heap, a large one in a sealed file of the kernel's own, which
// instances map and pay for only where they write.
func newImage(b []byte) (*image, error) { return newImageAbove(b, copyMost) }

func newImageAbove(b []byte, most int) (*image, error) {
	m := &image{fd: -1, size: uintptr(len(b))}
	if len(b) <= most {
		m.bytes = append([]byte{}, b...)
		return m, nil
	}
	fd, err := unix.MemfdCreate("yett-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memory image: the system call memfd_create is refused: %w; use Linux 3.17 or newer, and "+
			"allow it in the seccomp profile of the container or service", err)
	}
	m.fd = fd
	if err := m.write(b); err != nil {
		m.close()
		return nil, fmt.Errorf("memory image: %w", err)
	}
	return m, nil
}

// write fills the file, leaves holes for pages of zeros, and seals it.
func (m *image) write(b []byte) error {
	if err := unix.Ftruncate(m.fd, int64(len(b))); err != nil {
		return err
	}
	const page = 4 << 10
	for at := 0; at < len(b); at += page {
		p := b[at:min(at+page, len(b))]
		if allZero(p) {
			continue
		}
		if n, err := unix.Pwrite(m.fd, p, int64(at)); err != nil || n != len(p) {
			return fmt.Errorf("%d of %d bytes written: %w", n, len(p), err)
		}
	}
	_, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	return err
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// adopt makes the memory's first bytes those of the image. The memory must be as large as the image.
func (m *image) adopt(a *arena) error {
	if m.bytes != nil || m.size == 0 {
		return m.restore(a)
	}
	_, err := unix.MmapPtr(m.fd, 0, a.base, m.size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map the memory image: %w", err)
	}
	return nil
}

// restore undoes every write since adopt. The memory must be as large as the image.
func (m *image) restore(a *arena) error {
	if m.bytes != nil || m.size == 0 {
		copy(a.bytes(0, m.size), m.bytes)
		return nil
	}
	if err := unix.Madvise(a.bytes(0, m.size), unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("drop written pages: %w", err)
	}
	return nil
}

// close frees the image; memories that adopted it keep working.
func (m *image) close() {
	if m.fd >= 0 {
		_ = unix.Close(m.fd) // nothing was written through it since it was sealed
		m.fd = -1
	}
	m.bytes = nil
}
