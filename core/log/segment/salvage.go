package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/yett-dev/yett/core/log"
)

// Lost is a part of a segment that cannot be read. Where Last is 0, nobody knows how far it goes.
type Lost struct {
	First, Last uint64 // records
	Why         string
}

// HeadOf reads whose segment a file is, from its first line alone; ok is false where that is damaged.
func HeadOf(data []byte) (store Store, ok bool) {
	line, _, found := bytes.Cut(data[:min(len(data), headMost)], []byte{'\n'})
	var h head
	if !found || json.Unmarshal(line, &h) != nil || h.Format != Format || h.StoreID == "" || h.Epoch == 0 {
		return Store{}, false
	}
	return Store{ID: h.StoreID, Epoch: h.Epoch, Salt: log.NewSalt(h.StoreID, h.Epoch)}, true
}

// Salvage calls fn with every commit of a segment's bytes that can be read, whatever is damaged around it, and tells
// what cannot. stores are those whose segment it may be. An error of fn ends it and is returned.
func Salvage(data []byte, stores []Store, fn func(c *log.Commit) error) (lost []Lost, err error) {
	for _, s := range stores {
		if rows, first, ok := rowsOf(data, s.Salt); ok {
			return salvageRows(data, s, rows, first, fn)
		}
	}
	return salvageFront(data, fn)
}

// rowsOf reads the index, if it and the tail are whole.
func rowsOf(data []byte, salt log.Salt) (rows []row, headSize int, ok bool) {
	be := binary.BigEndian
	if len(data) < tailSize {
		return nil, 0, false
	}
	tail := data[len(data)-tailSize:]
	if be.Uint32(tail[tailSize-4:]) != salt.Sum(tail[:tailSize-4]) || string(tail[40:48]) != magic {
		return nil, 0, false
	}
	at, count, end := be.Uint64(tail[16:]), uint64(be.Uint32(tail[24:])), uint64(len(data)-tailSize)
	if at > end || count > (end-at)/rowSize || be.Uint32(tail[28:]) != salt.Sum(data[at:end]) {
		return nil, 0, false
	}
	for index := data[at:end]; count > 0; count-- {
		rows, index = append(rows, parseRow(index)), index[rowSize:]
	}
	return rows, int(be.Uint32(tail)), true
}

func salvageRows(data []byte, s Store, rows []row, headSize int,
	fn func(c *log.Commit) error) (lost []Lost, err error) {
	if _, ok := HeadOf(data); !ok {
		lost = append(lost, Lost{Why: fmt.Sprintf("its first line, of %d bytes, is damaged; its records are not", headSize)})
	}
	r := &Reader{store: s}
	for i := range rows {
		w := &rows[i]
		plain, err := r.block(bytesFile{bytes.NewReader(data)}, w, nil)
		if err == nil {
			err = r.split(w, plain, sound)
		}
		if err != nil {
			lost = append(lost, Lost{w.firstSeq, w.firstSeq + uint64(w.records) - 1, fmt.Sprintf("the block at %d: a wrong "+
				"checksum, or it cannot be unpacked", w.at)})
			continue
		}
		if err := r.split(w, plain, fn); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// sound refuses a commit that has not as many records as it says.
func sound(c *log.Commit) error {
	n := uint64(0)
	err := log.EachRecord(c.Records, func([]byte) error { n++; return nil })
	if err == nil && n != c.Count {
		err = errDamaged
	}
	return err
}

// bytesFile lets a reader read bytes.
type bytesFile struct{ *bytes.Reader }

func (bytesFile) Write([]byte) (int, error)          { return 0, io.ErrClosedPipe }
func (bytesFile) WriteAt([]byte, int64) (int, error) { return 0, io.ErrClosedPipe }
func (bytesFile) Close() error                       { return nil }
func (bytesFile) Sync() error                        { return nil }
func (f bytesFile) Size() (int64, error)             { return f.Reader.Size(), nil }

// salvageFront reads blocks one behind the other from the front: without its index nobody knows where others begin.
func salvageFront(data []byte, fn func(c *log.Commit) error) (lost []Lost, err error) {
	line, blocks, found := bytes.Cut(data, []byte{'\n'})
	var h head
	if !found || json.Unmarshal(line, &h) != nil || h.Format != Format || h.FirstSeq == 0 || h.FirstCommit == 0 {
		return []Lost{{Why: "its first line and its index are damaged"}}, nil
	}
	why := "its index is damaged, and so is what lies there"
	dec, err := zstd.NewReader(bytes.NewReader(blocks), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	c := log.Commit{Number: h.FirstCommit, First: h.FirstSeq}
	for ; ; c.Number++ {
		var size [8]byte
		if _, err := io.ReadFull(dec, size[:]); err != nil {
			break
		}
		n := binary.BigEndian.Uint32(size[4:])
		c.Count, c.Records = uint64(binary.BigEndian.Uint32(size[:])), nil
		got, err := io.ReadAll(io.LimitReader(dec, int64(n)))
		if c.Records = got; err != nil || uint32(len(got)) != n || sound(&c) != nil {
			break
		}
		if err := fn(&c); err != nil {
			return nil, err
		}
		c.First += c.Count
	}
	return []Lost{{First: c.First, Why: why}}, nil
}
