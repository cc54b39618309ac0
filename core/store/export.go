package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// errTrimmed says that retention has removed records while an export was about to begin with them.
var errTrimmed = errors.New("retention has removed its first records meanwhile")

// Export writes the whole log as of now: a header line with a checkpoint of exactly these records, then one line per
// record. Where retention has removed the oldest records, the header says with which it begins, and holds the hashes
// that stand for those in front of it (log.Signer.Header): the checkpoint's root can be worked out from them and the
// records.
func (s *Store) Export(w io.Writer, signer *log.Signer) error {
	for range 10 { // retention does not run that often
		err := s.export(w, signer)
		if !errors.Is(err, errTrimmed) {
			return err
		}
	}
	return fmt.Errorf("export: %w", errTrimmed)
}

// export fails with errTrimmed only while it has written nothing.
func (s *Store) export(w io.Writer, signer *log.Signer) error {
	from, size := s.First(), s.Seq()
	root, err := tlog.TreeHash(int64(size), hashReader{s})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	front, err := log.Resume(from-1, hashReader{s})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	names, err := s.leafNames(from, size)
	if err != nil {
		return err
	}
	header, err := signer.Header(from, size, root, names, front.Peaks()...)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	bw := bufio.NewWriterSize(w, 1<<16)
	next := from
	err = s.Records(from, func(seq uint64, rec []byte) error {
		if seq > size {
			return io.EOF
		}
		if seq != next {
			return errTrimmed
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
	case size == 0:
		bw.Write(header)
		bw.WriteByte('\n')
	}
	return bw.Flush()
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
