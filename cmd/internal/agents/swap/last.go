package swap

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// putBack undoes a swap: under the name of ours lies what another program has written, or is about to write into. What
// others overwrite meanwhile is gone, as it would be without us.
func (f *File) putBack(ours *os.File, old *hold) error {
	tmp := ours.Name()
	if !leadsTo(f.Target, ours) { // somebody has replaced or removed ours, and with it what had been there
		return errors.Join(os.Remove(tmp), ours.Close(), old.release(), ErrChanged)
	}
	f.at("ours")
	theirs, err := pin(tmp)
	if err != nil {
		return errors.Join(kept(tmp, err), ours.Close(), old.release())
	}
	defer theirs.Close()
	err = exchange(tmp, f.Target)
	f.at("back")
	replaced := err == nil && !leadsTo(tmp, ours)
	if replaced { // somebody has replaced ours, and was last: at once, before anybody reads what we have put back
		err = f.yield(tmp, theirs)
	}
	// Who opened ours in the meantime waits, and reads what the file holds in truth.
	var now []byte
	if err == nil || errors.Is(err, ErrChanged) {
		var read error
		if now, read = os.ReadFile(f.Target); read == nil {
			read = errors.Join(ours.Truncate(0), writeAt(ours, now))
		}
		err = errors.Join(err, read)
	}
	if errors.Is(err, fs.ErrNotExist) { // they have removed it in the meantime
		if !replaced {
			err = os.Remove(tmp)
		}
		return errors.Join(err, ours.Close(), old.release(), ErrChanged)
	}
	if err := errors.Join(err, ours.Close(), old.release()); err != nil {
		if errors.Is(err, ErrChanged) {
			return err
		}
		return fmt.Errorf("what another program wrote is in %s or %s: %w", tmp, f.Target, err)
	}
	f.at("released")
	if left, _, err := settled(tmp); err != nil || !bytes.Equal(left, now) {
		return errors.Join(err, f.yield(tmp, theirs)) // somebody has written into ours, and was last
	}
	return errors.Join(os.Remove(tmp), ErrChanged)
}

func writeAt(f *os.File, text []byte) error {
	_, err := f.WriteAt(text, 0)
	return err
}

// yields is how often a program may replace the file while the name is given to what it wrote before.
const yields = 100

// yield gives the name to what another program wrote, which lies under tmp, unless the name does not lead to what we
// have put there any more: then somebody has written since, and what lies under tmp is gone, as it would be without us.
// Each exchange is looked at in the same way: what it takes away that we have not put there is newer and gets the name.
func (f *File) yield(tmp string, placed *os.File) error {
	if !leadsTo(f.Target, placed) {
		return errors.Join(os.Remove(tmp), ErrChanged)
	}
	for range yields {
		last, err := pin(tmp)
		if err != nil {
			return kept(tmp, err)
		}
		defer last.Close()
		f.at("yields")
		switch err := exchange(tmp, f.Target); {
		case errors.Is(err, fs.ErrNotExist): // they have removed it
			return errors.Join(os.Remove(tmp), ErrChanged)
		case err != nil:
			return kept(tmp, err)
		case leadsTo(tmp, placed):
			return errors.Join(os.Remove(tmp), ErrChanged)
		}
		placed = last
	}
	return kept(tmp, errors.New("it replaces "+f.Target+" all the time"))
}

// kept is the error when the name could not be given to what another program wrote.
func kept(tmp string, err error) error {
	return fmt.Errorf("what another program wrote is in %s: %w", tmp, err)
}

// leadsTo says whether a name leads to an open file.
func leadsTo(path string, f *os.File) bool {
	named, err := os.Lstat(path)
	if err != nil {
		return false
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(named, open)
}
