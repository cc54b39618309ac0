package store

import "strings"

// rowReader decodes rows of keys and grants. A start keeps most of what it decodes, so the values are made in pieces
// and not one by one, and what many rows have in common is there once. It is one goroutine's. What it gives is never
// changed: several keys may have the same slice.
type rowReader struct {
	text   strings.Builder
	bytes  []byte
	list   []string
	keys   []Key
	grants []Grant
	shared map[string]string   // nil: it keeps nothing for the next row
	lists  map[string][]string // by their bytes in the row
	values rowValues           // of the row being read
}

// oneRow decodes a row of which there are few: each value is made for itself.
func oneRow() *rowReader { return &rowReader{} }

const (
	pieceText   = 16 << 10
	pieceValues = 64   // keys or grants; one of them keeps all of them in memory
	mostShared  = 4096 // texts, and lists: what comes after these is each row's own
	longShared  = 128  // bytes of the longest text that is looked for
)

func newRowReader() *rowReader {
	return &rowReader{shared: map[string]string{}, lists: map[string][]string{}}
}

// own gives a text that only this row is expected to have.
func (r *rowReader) own(value []byte) string {
	if len(value) > pieceText/8 || r.shared == nil {
		return string(value)
	}
	if r.text.Cap()-r.text.Len() < len(value) {
		r.text = strings.Builder{}
		r.text.Grow(pieceText)
	}
	from := r.text.Len()
	r.text.Write(value)
	return r.text.String()[from:]
}

// common gives a text that many rows are expected to have.
func (r *rowReader) common(value []byte) string {
	if len(value) > longShared || r.shared == nil {
		return r.own(value)
	}
	if s, ok := r.shared[string(value)]; ok {
		return s
	}
	s := r.own(value)
	if len(r.shared) < mostShared {
		r.shared[s] = s
	}
	return s
}

// ownBytes gives a copy.
func (r *rowReader) ownBytes(value []byte) []byte {
	if len(value) > pieceText/8 || r.shared == nil {
		return append([]byte{}, value...)
	}
	if r.bytes == nil || cap(r.bytes)-len(r.bytes) < len(value) {
		r.bytes = make([]byte, 0, pieceText)
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, value...)
	return r.bytes[from:len(r.bytes):len(r.bytes)]
}

// texts gives a list whose texts are made by text.
func (r *rowReader) texts(value []byte, text func([]byte) string) ([]string, error) {
	count := 0
	for rest := value; len(rest) > 0; count++ {
		size, n := shortUvarint(rest)
		if n == 0 || size > uint64(len(rest)-n) {
			return nil, errList
		}
		rest = rest[n+int(size):]
	}
	if count == 0 {
		return []string{}, nil
	}
	list := r.strings(count)
	for rest := value; len(rest) > 0; {
		size, n := shortUvarint(rest)
		list = append(list, text(rest[n:n+int(size)]))
		rest = rest[n+int(size):]
	}
	return list, nil
}

// strings gives room for that many texts.
func (r *rowReader) strings(count int) []string {
	if r.shared == nil || count > pieceValues {
		return make([]string, 0, count)
	}
	if len(r.list) < count {
		r.list = make([]string, 8*pieceValues)
	}
	room := r.list[:0:count]
	r.list = r.list[count:]
	return room
}

// commonTexts gives a list that many rows are expected to have.
func (r *rowReader) commonTexts(value []byte) ([]string, error) {
	if list, ok := r.lists[string(value)]; ok {
		return list, nil
	}
	list, err := r.texts(value, r.common)
	if err == nil && len(r.lists) < mostShared && len(value) <= longShared && r.lists != nil {
		r.lists[string(value)] = list
	}
	return list, err
}

// newKey gives a key to decode into.
func (r *rowReader) newKey() *Key {
	if r.shared == nil {
		return &Key{}
	}
	if len(r.keys) == 0 {
		r.keys = make([]Key, pieceValues)
	}
	k := &r.keys[0]
	r.keys = r.keys[1:]
	return k
}

// newGrant gives a grant to decode into.
func (r *rowReader) newGrant() *Grant {
	if r.shared == nil {
		return &Grant{}
	}
	if len(r.grants) == 0 {
		r.grants = make([]Grant, pieceValues)
	}
	r.grants[0] = Grant{} // a row that could not be read may have left something
	return &r.grants[0]
}

// kept says that the last grant is kept. Otherwise the next row gets its place.
func (r *rowReader) kept() {
	if r.shared != nil {
		r.grants = r.grants[1:]
	}
}
