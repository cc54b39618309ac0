package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/yett-dev/yett/sdk"
)

// How long a repeated call_id and an Idempotency-Key are remembered. Rows lie in windows of that length, so that old
// ones go in one range deletion; a look-up asks the current window and the one before.
const (
	RepeatFor     = 10 * time.Minute
	IdempotentFor = 24 * time.Hour
)

func window(at time.Time, length time.Duration) uint32 {
	return uint32(at.Unix() / int64(length/time.Second))
}

// remembered is a row of either kind: time, a digest, and what was answered.
func (tx *tx) remembered(prefix byte, hash [16]byte, length time.Duration) (digest [32]byte, answer []byte, found bool,
	err error) {
	w := window(tx.now, length)
	for _, at := range [2]uint32{w, w - 1} {
		v, ok, err := tx.pendingGet(keyWindow(prefix, at, hash))
		if err != nil {
			return digest, nil, false, unavailable(err)
		}
		if !ok || len(v) < 40 {
			continue
		}
		when := time.Unix(0, int64(binary.BigEndian.Uint64(v)))
		if tx.now.Sub(when) >= length {
			continue
		}
		copy(digest[:], v[8:40])
		return digest, v[40:], true, nil
	}
	return digest, nil, false, nil
}

// pendingGet reads a row as it will be after this batch.
func (tx *tx) pendingGet(key []byte) ([]byte, bool, error) {
	if v, ok := tx.fresh[string(key)]; ok {
		return v, v != nil, nil
	}
	return tx.get(key)
}

// get reads a row as it is on disk.
func (tx *tx) get(key []byte) ([]byte, bool, error) {
	tx.q.enter()
	defer tx.q.leave()
	return tx.s.get(key)
}

func (tx *tx) remember(prefix byte, hash [16]byte, length time.Duration, digest [32]byte, answer []byte) {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 40+len(answer)), uint64(tx.now.UnixNano()))
	v = append(append(v, digest[:]...), answer...)
	key := keyWindow(prefix, window(tx.now, length), hash)
	tx.journal(undo{row: key})
	tx.setFresh(key, v)
}

// forget drops the windows that nobody can ask for any more, once a window.
func (tx *tx) forget() {
	for _, k := range []struct {
		prefix byte
		length time.Duration
	}{{prefixRepeat, RepeatFor}, {prefixIdem, IdempotentFor}} {
		w := window(tx.now, k.length)
		if tx.swept[k.prefix] == w {
			continue
		}
		if tx.swept == nil {
			tx.swept = map[byte]uint32{}
		}
		tx.swept[k.prefix] = w
		from, to := []byte{k.prefix}, keyWindow(k.prefix, w-1, [16]byte{})[:5]
		if tx.anything(from, to) {
			tx.keep(tx.batch.DeleteRange(from, to, nil))
		}
	}
}

func (tx *tx) anything(from, to []byte) bool {
	tx.q.enter()
	defer tx.q.leave()
	it, err := tx.s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		tx.keep(err)
		return false
	}
	found := it.First()
	tx.keep(errors.Join(it.Error(), it.Close()))
	return found
}

// Idempotency is one Idempotency-Key, scoped to an API key and a path by its hash.
type Idempotency struct {
	Hash [16]byte
	Body [32]byte

	Replay []byte // the earlier answer, if there was one
}

// admit refuses a key that has died since it was let in, and finds what a repeat was answered; done says that there is
// something. k is nil for an operator at the console or on the machine, idem without an Idempotency-Key.
func (tx *tx) admit(k *Key, idem *Idempotency) (done bool, err error) {
	if k != nil {
		if err := tx.live(k); err != nil {
			return false, err
		}
	}
	if idem == nil {
		return false, nil
	}
	return idem.look(tx)
}

// look finds an earlier answer to the same body; another body is an error.
func (i *Idempotency) look(tx *tx) (done bool, err error) {
	body, answer, found, err := tx.remembered(prefixIdem, i.Hash, IdempotentFor)
	if err != nil || !found {
		return false, err
	}
	if !bytes.Equal(body[:], i.Body[:]) {
		return false, sdk.Errf(sdk.CodeIdempotencyReused, "the Idempotency-Key was used for another body within 24 hours")
	}
	i.Replay = answer
	tx.anchor()
	return true, nil
}

func (i *Idempotency) keep(tx *tx, answer []byte) {
	tx.remember(prefixIdem, i.Hash, IdempotentFor, i.Body, answer)
}
