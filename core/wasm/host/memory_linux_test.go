package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestImageIsSealed has nobody write to what all instances of a module start from.
func TestImageIsSealed(t *testing.T) {
	img, err := newImageAbove(make([]byte, 1<<20), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer img.close()
	if _, err := unix.Pwrite(img.fd, []byte("x"), 0); err == nil {
		t.Error("it can be written to")
	}
	if err := unix.Ftruncate(img.fd, 0); err == nil {
		t.Error("it can be cut")
	}
	if _, err := unix.Mmap(img.fd, 0, 1<<20, unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("it can be mapped for writing")
	}
}

// TestArenas share an image and see nothing of each other.
func TestArenas(t *testing.T) {
	content := []byte(strings.Repeat("abc\x00", 64<<10))
	clear(content[4096:20000])
	for _, most := range []int{0, 1 << 30} {
		img, err := newImageAbove(content, most)
		if err != nil {
			t.Fatal(err)
		}
		defer img.close()
		var mems [2][]byte
		for i := range mems {
			a, err := newArena(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Free()
			if a.Reallocate(1<<20+1) != nil {
				t.Error("more than was reserved")
			}
			mems[i] = a.Reallocate(uint64(len(content)))
			if err := img.adopt(a); err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(mems[i]); at += 1000 {
				mems[i][at] = byte('0' + i)
			}
			defer func() {
				if err := img.restore(a); err != nil || !bytes.Equal(mems[i], content) {
					t.Errorf("after the restore: %v, %v", err, bytes.Equal(mems[i], content))
				}
			}()
			if n := uint64(len(content)) + pageSize; len(a.Reallocate(n)) != int(n) || a.Reallocate(n)[n-1] != 0 {
				t.Error("growth")
			}
		}
		if mems[0][1000] != '0' || mems[1][1000] != '1' {
			t.Error("one arena sees the other")
		}
	}
}

// BenchmarkResetBorder puts copying a memory of a size against mapping it, for calls that write 4 pages of 4 KiB each.
func BenchmarkResetBorder(b *testing.B) {
	for _, size := range []int{64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20} {
		for name, most := range map[string]int{"copy": 1 << 30, "map": 0} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, name), func(b *testing.B) {
				content := []byte(strings.Repeat("x", size))
				img, err := newImageAbove(content, most)
				if err != nil {
					b.Fatal(err)
				}
				defer img.close()
				a, err := newArena(uint64(size))
				if err != nil {
					b.Fatal(err)
				}
				defer a.Free()
				mem := a.Reallocate(uint64(size))
				if err := img.adopt(a); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					for i := range 4 {
						mem[i*size/4] = 'y'
					}
					if err := img.restore(a); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
