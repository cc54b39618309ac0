//go:build !linux

package confine

import "errors"

// Mark does nothing here: nobody looks for it.
func Mark() error { return nil }

// Origin says which gateway has started a process.
type Origin struct {
	Pid  int
	Born uint64
}

// Leave fails: nobody looks for it here.
func (Origin) Leave() error { return errors.ErrUnsupported }
