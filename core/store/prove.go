package store

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

// Prove makes a proof that record seq is in the log as of now: see log.Signer.Prove. A record that is not written yet,
// or that retention has removed, is not_found.
func (s *Store) Prove(seq uint64, signer *log.Signer) ([]byte, error) {
	size := s.Seq()
	if seq == 0 || seq > size {
		return nil, sdk.FieldErrf(sdk.CodeNotFound, "seq", "there is no record %d, the log has records 1 to %d", seq, size)
	}
	var record []byte
	err := s.Records(seq, func(is uint64, rec []byte) error {
		if is == seq {
			record = append(record, rec...)
		}
		return io.EOF
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("prove record %d: %w", seq, err)
	}
	if record == nil {
		return nil, sdk.FieldErrf(sdk.CodeNotFound, "seq", "retention has removed record %d, the log begins with %d", seq,
			s.First())
	}
	root, err := tlog.TreeHash(int64(size), hashReader{s})
	if err != nil {
		return nil, fmt.Errorf("prove record %d: %w", seq, err)
	}
	return signer.Prove(seq, size, root, record, hashReader{s})
}
