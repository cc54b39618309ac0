package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

// errTrimmed says that retention has removed records while an export was about to begin with them.
var errTrimmed = errors.New("retention has removed its first records meanwhile")

// Export writes the records of a range, as of now: a header line with a checkpoint of the log up to the last of exactly
// these records, then one line per record. Where the range does not begin with record 1, the header holds the hashes
// that stand for those in front of it (log.Signer.Header): the checkpoint's root can be worked out from them and the
// records. A range that has other records than the log is refused before anything is written; one that begins behind
// the newest record is empty.
func (s *Store) Export(w io.Writer, signer *log.Signer, r log.Range) error {
	for range 10 { // retention does not run that often
		err := s.export(w, signer, r)
		if !errors.Is(err, errTrimmed) {
			return err
		}
	}
	return fmt.Errorf("export: %w", errTrimmed)
}

// bounds gives the first and last seq of a range, the open ends filled in.
func (s *Store) bounds(r log.Range) (from, to uint64, err error) {
	first, size := s.First(), s.Seq()
	from, to = r.From, r.To
	if from == 0 {
		from = first
	}
	if to == 0 {
		to = max(size, from-1)
	}
	switch {
	case from < first:
		return 0, 0, sdk.FieldErrf(sdk.CodeNotFound, "from",
			"retention has removed record %d; the first record that is there is %d", from, first)
	case from > size+1:
		return 0, 0, sdk.FieldErrf(sdk.CodeNotFound, "from",
			"there is no record %d; the log ends with record %d, and the next one will be %d", from, size, size+1)
	case to > size:
		return 0, 0, sdk.FieldErrf(sdk.CodeNotFound, "to", "there is no record %d; the log ends with record %d", to, size)
	case to+1 < from:
		return 0, 0, sdk.FieldErrf(sdk.CodeInvalidField, "to", "to must be at least from: got from %d and to %d", from, to)
	}
	return from, to, nil
}

// export fails with errTrimmed only while it has written nothing.
func (s *Store) export(w io.Writer, signer *log.Signer, r log.Range) error {
	from, to, err := s.bounds(r)
	if err != nil {
		return err
	}
	root, err := tlog.TreeHash(int64(to), hashReader{s})
	if err != nil {
		return s.trimmedMeanwhile(from, fmt.Errorf("export: %w", err))
	}
	front, err := log.Resume(from-1, hashReader{s})
	if err != nil {
		return s.trimmedMeanwhile(from, fmt.Errorf("export: %w", err))
	}
	names, err := s.leafNames(from, to)
	if err != nil {
		return err
	}
	header, err := signer.HeaderBehind(s.Earlier(), from, to, root, names, front.Peaks()...)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	bw := bufio.NewWriterSize(w, 1<<16)
	next := from
	err = s.Records(from, func(seq uint64, rec []byte) error {
		if seq > to {
			return io.EOF
		}
		if seq != next && next == from {
			return errTrimmed
		}
		if seq != next { // what is written already cannot be taken back
			return fmt.Errorf("retention has removed record %d while the records in front of it were written; export again, "+
				"from record %d", next, seq)
		}
		if seq == from {
			bw.Write(header)
			bw.WriteByte('\n')
		}
		next++
		bw.Write(rec)
		return bw.WriteByte('\n')
	})
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("export: %w", err)
	case next != to+1:
		return fmt.Errorf("export: the log ends with record %d, and has %d", next-1, to)
	case to+1 == from: // no record has brought the header
		bw.Write(header)
		bw.WriteByte('\n')
	}
	return bw.Flush()
}

// trimmedMeanwhile is errTrimmed if retention has removed record from, else the error that there was.
func (s *Store) trimmedMeanwhile(from uint64, err error) error {
	if s.First() > from {
		return errTrimmed
	}
	return err
}

// leafNames reads the records once for what the header says of them. It fails with errTrimmed when they are not all
// there.
func (s *Store) leafNames(from, to uint64) (*log.Names, error) {
	names, next := log.NewNames(to+1-from), from
	err := s.Records(from, func(seq uint64, rec []byte) error {
		switch {
		case seq > to:
			return io.EOF
		case seq != next:
			return errTrimmed
		}
		next++
		names.Add(tlog.RecordHash(rec))
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("export: %w", err)
	}
	if next != to+1 {
		return nil, fmt.Errorf("export: the log ends with record %d, and has %d", next-1, to)
	}
	return names, nil
}

// Sealed are the ranges of records that are in sealed segments and that retention has left, the oldest first. They have
// no gaps between them.
func (s *Store) Sealed() (out []log.Range) {
	sealed, _ := s.records.now()
	first := s.First()
	for _, r := range sealed {
		if last := r.NextSeq - 1; last >= max(first, r.FirstSeq) {
			out = append(out, log.Range{From: max(first, r.FirstSeq), To: last})
		}
	}
	return out
}
