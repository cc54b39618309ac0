package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Rows of keys and grants are binary, because a start reads all of them. A row is rowVersion and then its fields, by
// ascending number: a byte that is the number, the length of the value as a uvarint, and the value. A field that is
// zero is left out. So each row has one encoding only: what is read from a row gives the same bytes again, and all
// others are refused. Numbers are never given out twice, and an unknown one is refused: whoever wrote it meant
// something by it.
//
// The values: text as it is; a flag has none; a list is the length of each text as a uvarint and then the text; a
// number is a uvarint; a time is the seconds since 1970 as a varint, the nanoseconds as a uvarint, and the seconds that
// its zone is east of UTC as a varint, of which zeros at the end are left out. Each varint is as short as it can be.
//
// Earlier versions wrote rows in JSON. Those are read too, and become binary when they change.
const rowVersion = 1

// jsonRow is the first byte of a row in JSON.
const jsonRow = '{'

// rowOpen reports which kind of row it is, and gives what follows the version.
func rowOpen(row []byte) (fields []byte, isJSON bool, err error) {
	switch {
	case len(row) == 0:
		return nil, false, errors.New("its row is empty")
	case row[0] == jsonRow:
		return row, true, nil
	case row[0] != rowVersion:
		return nil, false, fmt.Errorf("its row has version %d, this program knows %d: use the program that wrote it, or put "+
			"the directory back from where it was saved", row[0], rowVersion)
	}
	return row[1:], false, nil
}

// rowValues are the values of a row's fields by number, nil where there is none. They are parts of the row.
type rowValues [lastField + 1][]byte

// lastField is the highest number of a field of any row.
const lastField = max(keyExplicit, grantRevokedBy)

// split finds the fields of a row. last is the highest number that such a row has.
func (v *rowValues) split(fields []byte, last byte) error {
	before := byte(0)
	clear(v[:])
	for len(fields) > 0 {
		number := fields[0]
		switch {
		case number <= before:
			return fmt.Errorf("field %d of its row follows field %d: they must ascend", number, before)
		case number > last:
			return fmt.Errorf("field %d of its row is unknown: a newer program wrote it, or the row is damaged", number)
		}
		size, n := shortUvarint(fields[1:])
		if n == 0 || size > uint64(len(fields)-1-n) {
			return fmt.Errorf("field %d of its row is cut off, or has no valid length", number)
		}
		end := 1 + n + int(size)
		v[number], fields, before = fields[1+n:end:end], fields[end:], number
	}
	return nil
}

var (
	errZeroField = errors.New("it is there without a value")
	errNoID      = errors.New("its row has no id")
	errList      = errors.New("not a list of texts")
	errNumber    = errors.New("not a number")
	errFlag      = errors.New("a flag has no value")
	errTime      = errors.New("not a time of the years 0 to 9999")
)

// shortUvarint reads a uvarint that is as short as it can be. n is 0 where there is none.
func shortUvarint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, n = binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

func appendBytes(to []byte, number byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(to, number), uint64(len(value))), value...)
}

func appendText(to []byte, number byte, text string) []byte {
	if text == "" {
		return to
	}
	return append(binary.AppendUvarint(append(to, number), uint64(len(text))), text...)
}

func appendFlag(to []byte, number byte, set bool) []byte {
	if !set {
		return to
	}
	return append(to, number, 0)
}

func appendNumber(to []byte, number byte, n uint64) []byte {
	if n == 0 {
		return to
	}
	var buf [binary.MaxVarintLen64]byte
	return appendBytes(to, number, binary.AppendUvarint(buf[:0], n))
}

// appendTexts writes a list, an empty one too. One that is nil is left out.
func appendTexts(to []byte, number byte, list []string) []byte {
	if list == nil {
		return to
	}
	size := 0
	for _, s := range list {
		size += uvarintLen(uint64(len(s))) + len(s)
	}
	to = binary.AppendUvarint(append(to, number), uint64(size))
	for _, s := range list {
		to = append(binary.AppendUvarint(to, uint64(len(s))), s...)
	}
	return to
}

// appendSome writes a list unless it is empty.
func appendSome(to []byte, number byte, list []string) []byte {
	if len(list) == 0 {
		return to
	}
	return appendTexts(to, number, list)
}

func uvarintLen(v uint64) (n int) {
	for n = 1; v >= 0x80; n++ {
		v >>= 7
	}
	return n
}

var (
	firstTime = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	zeroTime  = time.Time{}.Unix()
)

const day = 24 * 60 * 60

// appendTime writes a time unless it is zero. Rows hold years of four digits only: others cannot be shown in JSON.
func appendTime(to []byte, number byte, t time.Time) ([]byte, error) {
	if t.IsZero() {
		return to, nil
	}
	sec, nsec := t.Unix(), t.Nanosecond()
	_, zone := t.Zone()
	if sec < firstTime || sec > lastTime || zone <= -day || zone >= day {
		return to, fmt.Errorf("field %d: %w", number, errTime)
	}
	var buf [3 * binary.MaxVarintLen64]byte
	value := binary.AppendVarint(buf[:0], sec)
	if nsec != 0 || zone != 0 {
		value = binary.AppendUvarint(value, uint64(nsec))
	}
	if zone != 0 {
		value = binary.AppendVarint(value, int64(zone))
	}
	return appendBytes(to, number, value), nil
}

// inYears is a time of a row in JSON as appendTime takes it: in a zone behind UTC, what is in the year 9999 there may
// lie in 10000.
func inYears(t time.Time) time.Time {
	if t.Unix() > lastTime {
		return time.Unix(lastTime, 0).UTC()
	}
	return t
}

// readTime reads what appendTime has written.
func readTime(value []byte) (time.Time, error) {
	var parts [3]uint64
	count := 0
	for ; len(value) > 0; count++ {
		v, n := shortUvarint(value)
		if n == 0 || count == len(parts) {
			return time.Time{}, errTime
		}
		parts[count], value = v, value[n:]
	}
	sec, nsec, zone := zigzag(parts[0]), parts[1], zigzag(parts[2])
	if count == 0 || count > 1 && parts[count-1] == 0 || sec < firstTime || sec > lastTime || nsec >= 1e9 ||
		zone <= -day || zone >= day || sec == zeroTime && nsec == 0 {
		return time.Time{}, errTime
	}
	t := time.Unix(sec, int64(nsec))
	if zone == 0 {
		return t.UTC(), nil
	}
	return t.In(time.FixedZone("", int(zone))), nil
}

// zigzag is the number that binary.AppendVarint wrote as that uvarint.
func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func readNumber(value []byte) (uint64, error) {
	v, n := shortUvarint(value)
	if n == 0 || n != len(value) || v == 0 {
		return 0, errNumber
	}
	return v, nil
}

func readFlag(value []byte) (bool, error) {
	if len(value) > 0 {
		return false, errFlag
	}
	return true, nil
}
