// Package formats owns how a record of the audit log looks in the formats of others: CSV, CEF and OCSF. It reads one
// record, as package log writes it, and writes one line. It must never decide, drop a record or change what a record
// says: what a format has no place for is left out as its documentation tells, and every line names the store and the
// seq of its record. Only JSON lines can be verified, so whoever converts verifies in front of it (log.Verify).
package formats

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Names are the formats that New knows.
var Names = []string{"csv", "cef", "ocsf"}

// Writer writes records in one format. One goroutine's.
type Writer struct {
	out     io.Writer
	line    func(dst []byte, r *record) []byte
	record  record
	buf     []byte
	unknown []string
}

// New makes a writer, and writes what the format has in front of the first record. Each record is one Write of out.
func New(name string, out io.Writer) (*Writer, error) {
	w := &Writer{out: out}
	switch name {
	case "csv":
		w.line, w.buf = csvLine, csvHead(nil)
	case "cef":
		w.line = cefLine
	case "ocsf":
		w.line = ocsfLine
	default:
		return nil, fmt.Errorf("unknown format %q: expected one of %s", name, strings.Join(Names, ", "))
	}
	if len(w.buf) == 0 {
		return w, nil
	}
	_, err := out.Write(w.buf)
	return w, err
}

// Record writes one record, given without its newline. A line that is none is refused with an *Invalid, and nothing is
// written.
func (w *Writer) Record(line []byte) error {
	if err := w.record.read(line); err != nil {
		return &Invalid{err}
	}
	if _, known := kinds[w.record.typ]; !known && !slices.Contains(w.unknown, w.record.typ) {
		w.unknown = append(w.unknown, w.record.typ)
	}
	w.buf = append(w.line(w.buf[:0], &w.record), '\n')
	_, err := w.out.Write(w.buf)
	return err
}

// Unknown are the types of records that were written without knowing what they mean, as those of a newer version are:
// with what every record has, and no severity.
func (w *Writer) Unknown() []string { return w.unknown }
