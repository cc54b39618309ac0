package ops

import (
	"fmt"
	"strings"
	"testing"
)

// sized is a log of records that are all of one size, which counts the bytes that are read of it.
type sized struct {
	Log
	size    uint64
	padding string
	read    int
}

func (l *sized) Seq() uint64 { return l.size }

func (l *sized) Records(from uint64, fn func(seq uint64, record []byte) error) error {
	for seq := max(from, 1); seq <= l.size; seq++ {
		rec := fmt.Appendf(nil, `{"seq":%d,"type":"decision","agent_id":"a","args":"%s"}`, seq, l.padding)
		l.read += len(rec)
		if err := fn(seq, rec); err != nil {
			return err
		}
	}
	return nil
}

// However large the newest records are, opening a stream reads a bounded number of bytes of them, and what it has found
// is shown.
func TestBacklogIsBoundedInBytes(t *testing.T) {
	for _, c := range []struct {
		padding int
		wanted  bool
		first   uint64
	}{{1 << 20, false, 4097}, {1 << 20, true, 4093}, {100 << 10, false, 4097}, {10, true, 4087}} {
		log := &sized{size: 4096, padding: strings.Repeat("x", c.padding)}
		h := &hub{log: log}
		from, err := h.backlog(log.size, &subOptions{backlog: 10, want: func(*event) bool { return c.wanted }})
		if err != nil || from != c.first {
			t.Errorf("%+v: from %d, %v", c, from, err)
		}
		if most := backlogBytes + 2*(c.padding+100); log.read > most {
			t.Errorf("%+v: %d bytes were read, more than %d", c, log.read, most)
		}
	}
}
