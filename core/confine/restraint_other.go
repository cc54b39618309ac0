//go:build !linux

package confine

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrNeedsLinux is what everything that needs the kernel of Linux fails with elsewhere.
var ErrNeedsLinux = fmt.Errorf("needs Linux, and this is %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Mark does nothing here: nobody looks for it.
func Mark() error { return nil }

// Origin says which gateway has started a process.
type Origin struct {
	Pid  int
	Born uint64
}

// Leave fails: nobody looks for it here.
func (Origin) Leave() error { return ErrNeedsLinux }

// Peer is a process at the other end of a socket. On this system nobody can know it.
type Peer struct {
	Pid int
	UID uint32
}

// PeerOf fails: whatever depends on who is at the other end is refused.
func PeerOf(uintptr) (*Peer, error) { return nil, ErrNeedsLinux }

// Close does nothing here.
func (*Peer) Close() {}

// Lives fails, as PeerOf does.
func (*Peer) Lives() error { return ErrNeedsLinux }

// Unmarked fails, as PeerOf does.
func (*Peer) Unmarked() error { return ErrNeedsLinux }

// Restraint fails, as PeerOf does.
func (*Peer) Restraint() (Restraint, error) { return Restraint{}, ErrNeedsLinux }

// RestraintOf fails: there is no /proc here.
func RestraintOf(int) (Restraint, error) { return Restraint{}, ErrNeedsLinux }
