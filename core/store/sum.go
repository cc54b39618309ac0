package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/cockroachdb/pebble/v2"
)

// A store that is stopped can be edited: a revoke set back, a kill dropped. So each commit leaves a sum over the rows
// that say who may do what, under the store's secret, in the row that has the commit's number. A start adds the rows up
// again and compares. The sum does not depend on the order of the rows (it is an additive multiset hash), so that a
// commit takes off what it replaces and adds what it writes, whatever else there is.
//
// The rows are those of API keys, grants, their uses, kills, what these have left to be denied, operators, MCP tools,
// and of the deferred calls that are live. The other rows give nobody anything that these do not allow, or are not all
// read at a start.

// rowSum is a sum of row hashes: four numbers modulo 2^64.
type rowSum [4]uint64

func (s *rowSum) add(h rowHash) {
	for i := range s {
		s[i] += binary.BigEndian.Uint64(h.sum[8*i:])
	}
}

func (s *rowSum) sub(h rowHash) {
	for i := range s {
		s[i] -= binary.BigEndian.Uint64(h.sum[8*i:])
	}
}

// rowHash is the hash of a row; zero where there is none, so that adding it changes nothing.
type rowHash struct{ sum [sha256.Size]byte }

// summer hashes rows. It is one goroutine's.
type summer struct {
	secret []byte
	mac    hash.Hash
	buf    []byte
}

func newSummer(secret []byte) *summer {
	s := sha256.Sum256(append([]byte("yett rows 1\x00"), secret...))
	return &summer{secret: s[:], mac: hmac.New(sha256.New, s[:])}
}

// row hashes a row. Its input has no two readings: the length of the key is a part of it. Nobody is ever shown the
// hash of one row, so a hash with the secret in front is enough.
func (s *summer) row(key, value []byte) rowHash {
	s.buf = append(s.buf[:0], s.secret...)
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(key)))
	s.buf = append(append(s.buf, key...), value...)
	return rowHash{sha256.Sum256(s.buf)}
}

// seal is what a commit leaves: its number, and the sum under the secret.
func (s *summer) seal(to []byte, store string, commit uint64, sum rowSum) []byte {
	to = binary.BigEndian.AppendUint64(to, commit)
	s.buf = binary.BigEndian.AppendUint64(s.buf[:0], commit)
	for _, part := range sum {
		s.buf = binary.BigEndian.AppendUint64(s.buf, part)
	}
	s.mac.Reset()
	s.mac.Write(append(s.buf, store...))
	return s.mac.Sum(to)
}

const sealSize = 8 + sha256.Size

// summed reports whether rows with the prefix are in the sum. Those of deferred calls are in it while they are live.
func summed(prefix byte) bool {
	switch prefix {
	case prefixKey, prefixGrant, prefixUses, prefixKill, prefixOperator, prefixSweep, prefixTool:
		return true
	}
	return false
}

// touched is what a batch has done to rows that are in the sum.
type touched struct {
	rows   map[string]rowHash // by key; zero for one that is deleted
	defers map[string]rowHash // by token: what was written for it
	live   map[string]bool    // by token, where the batch says so
}

func (t *touched) begin() {
	if t.rows == nil {
		*t = touched{rows: map[string]rowHash{}, defers: map[string]rowHash{}, live: map[string]bool{}}
	}
	clear(t.rows)
	clear(t.defers)
	clear(t.live)
}

// set takes a row that a batch writes, or deletes if there is none.
func (t *touched) set(s *summer, key, value []byte, there bool) {
	switch {
	case summed(key[0]) && there:
		t.rows[string(key)] = s.row(key, value)
	case summed(key[0]):
		t.rows[string(key)] = rowHash{}
	case key[0] == prefixDefer:
		t.defers[string(key[1:])] = s.row(key, value)
	case key[0] == prefixLive:
		t.live[string(key[1:])] = there
	}
}

// change moves the sum from what is in the store to what the batch makes of it. live has the hashes of the rows of live
// calls, which it moves too: very many of them may end at once, and reading each would take ten times as long as the
// rest of it. If the batch does not get to the disk, the store has failed.
func (t *touched) change(st *Store, s *summer, sum *rowSum, live map[string]rowHash) error {
	for key, is := range t.rows {
		was, err := st.hashOf(s, []byte(key))
		if err != nil {
			return err
		}
		sum.sub(was)
		sum.add(is)
	}
	for token, is := range t.live {
		_, written := t.defers[token]
		switch {
		case written:
		case !is:
			t.defers[token] = rowHash{}
		default:
			row, err := st.hashOf(s, keyStr(prefixDefer, token))
			if err != nil {
				return err
			}
			t.defers[token] = row
		}
	}
	for token, is := range t.defers {
		was, wasLive := live[token]
		if wasLive {
			sum.sub(was)
		}
		if now, said := t.live[token]; now || !said && wasLive {
			sum.add(is)
			live[token] = is
		} else {
			delete(live, token)
		}
	}
	return nil
}

// hashOf is the hash of a row as it is on disk.
func (s *Store) hashOf(by *summer, key []byte) (rowHash, error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return rowHash{}, nil
	}
	if err != nil {
		return rowHash{}, fmt.Errorf("read store: %w", err)
	}
	return by.row(key, v), closer.Close()
}

// sumOf adds up the rows that are on disk.
func (s *Store) sumOf(by *summer) (sum rowSum, err error) {
	sum, err = s.sumOver(by, prefixKey, prefixGrant, prefixUses, prefixKill, prefixOperator, prefixSweep, prefixTool)
	if err != nil {
		return sum, err
	}
	return sum, s.scan(prefixLive, func(key, _ []byte) error {
		h, err := s.hashOf(by, keyStr(prefixDefer, string(key[1:])))
		sum.add(h)
		return err
	})
}

// sumOver adds up the rows with these prefixes.
func (s *Store) sumOver(by *summer, prefixes ...byte) (sum rowSum, err error) {
	for _, prefix := range prefixes {
		err := s.scan(prefix, func(key, value []byte) error { sum.add(by.row(key, value)); return nil })
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// commitOf reads what the newest commit has left: 0 and nothing where there was none.
func (s *Store) commitOf() (number uint64, seal []byte, err error) {
	v, found, err := s.get(commitRow)
	switch {
	case err != nil || !found:
		return 0, nil, err
	case len(v) != sealSize:
		return 0, nil, fmt.Errorf("its commit has %d bytes, expected %d", len(v), sealSize)
	}
	return binary.BigEndian.Uint64(v), v, nil
}

// checkSum compares the sum of the rows with what the newest commit has left.
func (s *Store) checkSum(sum rowSum) error {
	by := newSummer(s.set.Secret)
	number, seal, err := s.commitOf()
	switch {
	case err != nil:
		return err
	case seal == nil && sum != rowSum{} || seal != nil && !hmac.Equal(seal, by.seal(nil, s.id, number, sum)):
		return fmt.Errorf("keys, grants, kills, operators, tools or waiting calls in %s are not those of commit %d: "+
			"something other than Yett has changed them, or the file pepper is not this store's; put the directory back from "+
			"where it was saved", s.set.Dir, number)
	}
	s.seq.sum = sum
	return nil
}
