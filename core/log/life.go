package log

import (
	"fmt"
	"strconv"

	"github.com/yett-dev/yett/sdk/wire"
)

// Life is a time of a log that is over: its records carry that store id and epoch. A restore from a backup begins the
// next one.
type Life struct {
	StoreID string `json:"store_id"`
	Epoch   uint32 `json:"epoch"`
	ToSeq   uint64 `json:"to_seq"` // its last record
}

func appendLives(o *wire.Writer, lives []Life) {
	o.List("earlier", len(lives), func(i int, o *wire.Writer) {
		o.Str("store_id", lives[i].StoreID)
		o.Int("epoch", int64(lives[i].Epoch))
		o.Int("to_seq", int64(lives[i].ToSeq))
	})
}

// checkLives refuses lives that do not follow each other, or of which none is in the file.
func (h *Header) checkLives() error {
	was := Life{ToSeq: h.FromSeq - 1}
	for _, l := range append(h.Earlier[:len(h.Earlier):len(h.Earlier)], Life{h.StoreID, max(h.Epoch, 1), 1 << 62}) {
		if l.Epoch <= was.Epoch || l.StoreID == "" || l.StoreID == was.StoreID || l.ToSeq < was.ToSeq ||
			was.ToSeq >= h.ToSeq && was.StoreID != "" && l.StoreID != h.StoreID {
			return fmt.Errorf("line 1: earlier: epoch %d of store %q, up to record %d, does not follow epoch %d, up to "+
				"record %d", l.Epoch, l.StoreID, l.ToSeq, was.Epoch, was.ToSeq)
		}
		was = l
	}
	return nil
}

// writer is the store that has written record seq, and its epoch then.
func (h *Header) writer(seq uint64) (store string, epoch uint32) {
	for _, l := range h.Earlier {
		if seq <= l.ToSeq {
			return l.StoreID, l.Epoch
		}
	}
	return h.StoreID, max(h.Epoch, 1)
}

// appendStart appends how a record goes on behind its seq.
func appendStart(dst []byte, store string, epoch uint32) []byte {
	dst = append(append(append(dst, `,"store_id":"`...), store...), '"')
	if epoch > 1 {
		dst = strconv.AppendUint(append(dst, `,"epoch":`...), uint64(epoch), 10)
	}
	return append(dst, `,"timestamp":"`...)
}

// begins holds the first record of a life against the end of the one before it: it must be the record of a restore,
// with a checkpoint that the old log's key has signed, of exactly what is in front of it.
func (v *verifier) begins(seq uint64, rec []byte) error {
	var old *Life
	for i := range v.head.Earlier {
		if v.head.Earlier[i].ToSeq+1 == seq {
			old = &v.head.Earlier[i]
		}
	}
	if old == nil {
		return nil
	}
	var typ, store, cp, key string
	var epoch, last uint64
	Members(rec, func(name, value []byte) bool {
		switch string(name) {
		case "type":
			typ = text(value)
		case "from_store_id":
			store = text(value)
		case "from_epoch":
			epoch, _ = strconv.ParseUint(string(value), 10, 64)
		case "from_seq":
			last, _ = strconv.ParseUint(string(value), 10, 64)
		case "from_checkpoint":
			cp = text(value)
		case "from_public_key":
			key = text(value)
		}
		return true
	})
	if typ != "restored" || store != old.StoreID || epoch != uint64(old.Epoch) || last != old.ToSeq {
		return fault(seq, "it is the first of its store, and does not say that it goes on behind record %d of epoch %d of "+
			"store %s", old.ToSeq, old.Epoch, old.StoreID)
	}
	keys := v.o.Keys
	if len(keys) == 0 {
		var err error
		if keys, err = ParseKeys(key); err != nil {
			return fault(seq, "%v", err)
		}
	}
	c, err := OpenCheckpoint(cp, keys)
	switch {
	case err != nil:
		return fault(seq, "the checkpoint of store %s in it: %v; give the public key of that store too", old.StoreID, err)
	case c.Origin != Origin(old.StoreID) || c.Size != old.ToSeq || c.Root != v.tree.Root():
		return fault(seq, "the checkpoint of store %s in it is not of the records in front of it", old.StoreID)
	}
	return nil
}

// of reports whether one of the keys is of that origin.
func (k Keys) of(origin string) bool {
	for _, v := range k {
		if v.Name() == origin {
			return true
		}
	}
	return false
}

// ofEarlier reports whether a checkpoint is of a life of the log whose records are in the export, and not of what was
// behind the backup that it was restored from.
func (v *verifier) ofEarlier(c *Checkpoint) bool {
	for _, l := range v.head.Earlier {
		if c.Origin == Origin(l.StoreID) && c.Size <= min(l.ToSeq, v.head.ToSeq) && c.Size+1 >= v.head.FromSeq {
			return true
		}
	}
	return false
}
