package log

import "fmt"

// Fault is the error of a log that was changed or cut. Every other error of a verifier says that it could not look.
type Fault struct {
	Seq  uint64 // the first record that is wrong or missing; 0: it is the header
	Last uint64 // the last record that may be the first wrong one, when only a range is known; else 0
	Line uint64 // where Seq is, or should be, in the export; the header is in line 1. 0: it is no fault of an export
	Why  string
}

func (f *Fault) Error() string {
	switch {
	case f.Seq == 0:
		return "the header: " + f.Why
	case f.Last > f.Seq:
		return fmt.Sprintf("one of the records %d to %d: %s", f.Seq, f.Last, f.Why)
	}
	return fmt.Sprintf("record %d: %s", f.Seq, f.Why)
}

func fault(seq uint64, format string, args ...any) *Fault {
	return &Fault{Seq: seq, Why: fmt.Sprintf(format, args...)}
}
