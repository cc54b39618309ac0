package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
)

// A start reads every row of keys, grants and waiting calls once: it is decoded, and goes into the sum that is held
// against what the newest commit has left. Both take far longer than the reading, so all processors do it.

// block is some rows, in order. Their bytes are in one piece, so that a row costs no allocation.
type block struct {
	data []byte
	ends []int // of key and value, by turns
}

const blockBytes = 256 << 10

func (b *block) add(key, value []byte) {
	b.data = append(b.data, key...)
	b.ends = append(b.ends, len(b.data))
	b.data = append(b.data, value...)
	b.ends = append(b.ends, len(b.data))
}

// each calls fn with every row. The bytes are valid until the block is gone.
func (b *block) each(fn func(key, value []byte) error) error {
	from := 0
	for i := 0; i < len(b.ends); i += 2 {
		key, value := b.data[from:b.ends[i]:b.ends[i]], b.data[b.ends[i]:b.ends[i+1]:b.ends[i+1]]
		if err := fn(key, value); err != nil {
			return err
		}
		from = b.ends[i+1]
	}
	return nil
}

// loaded is what of a block was decoded.
type loaded[T any] struct {
	all []T
	sum rowSum
	err error
}

// rowSource calls fn with rows. Key and value are only valid during the call. A row with together belongs to the next
// one: it is decoded by the same goroutine, right before it.
type rowSource func(fn func(key, value []byte, together bool) error) error

// rowsOf are the rows with a prefix.
func (s *Store) rowsOf(prefix byte) rowSource {
	return func(fn func(key, value []byte, together bool) error) error {
		return s.scan(prefix, func(key, value []byte) error { return fn(key, value, false) })
	}
}

// loadRows decodes rows and gives what each is to take, in order, on this goroutine. decode runs on several at a time,
// and says by which rows the sum grows. What it gives must not hold on to the row's bytes. A row that gives nothing of
// its own is not taken.
func loadRows[T any](s *Store, rows rowSource, sum *rowSum, decode func(by *adder, key, value []byte) (one T, is bool,
	err error), take func(T) error) error {
	workers := runtime.GOMAXPROCS(0)
	adders := make(chan *adder, workers)
	for range workers {
		adders <- &adder{by: newSummer(s.set.Secret), rows: newRowReader()}
	}
	todo := make(chan chan loaded[T], 2*workers)
	stop := make(chan struct{})
	read := make(chan error, 1)
	blocks := make(chan *block, 4*workers)
	go func() {
		defer close(todo)
		b := &block{}
		send := func() error {
			done := make(chan loaded[T], 1)
			select {
			case todo <- done:
			case <-stop:
				return errNobodyWaits
			}
			go func(b *block) {
				by := <-adders
				done <- decodeBlock(by, b, decode)
				adders <- by
				select {
				case blocks <- b:
				default:
				}
			}(b)
			select {
			case b = <-blocks:
				b.data, b.ends = b.data[:0], b.ends[:0]
			default:
				b = &block{data: make([]byte, 0, blockBytes+blockBytes/8)}
			}
			return nil
		}
		err := rows(func(key, value []byte, together bool) error {
			if b.add(key, value); together || len(b.data) < blockBytes {
				return nil
			}
			return send()
		})
		if err == nil && len(b.ends) > 0 {
			err = send()
		}
		read <- err
	}()
	var failed error
	for done := range todo {
		got := <-done
		if failed == nil {
			failed = got.takeAll(sum, take)
			if failed != nil {
				close(stop)
			}
		}
	}
	if err := <-read; err != nil && !errors.Is(err, errNobodyWaits) {
		return err
	}
	return failed
}

var errNobodyWaits = errors.New("stopped")

func (l *loaded[T]) takeAll(sum *rowSum, take func(T) error) error {
	sum.merge(l.sum)
	for _, one := range l.all {
		if err := take(one); err != nil {
			return err
		}
	}
	return l.err
}

func decodeBlock[T any](by *adder, b *block, decode func(by *adder, key, value []byte) (T, bool, error)) (
	out loaded[T]) {
	by.sum = rowSum{}
	out.all = make([]T, 0, len(b.ends)/2)
	out.err = b.each(func(key, value []byte) error {
		one, is, err := decode(by, key, value)
		if err == nil && is {
			out.all = append(out.all, one)
		}
		return err
	})
	out.sum = by.sum
	return out
}

// adder adds rows up, and reads them.
type adder struct {
	by   *summer
	sum  rowSum
	rows *rowReader
	used usesRow
}

func (a *adder) row(key, value []byte) rowHash {
	h := a.by.row(key, value)
	a.sum.add(h)
	return h
}

func (s *rowSum) merge(o rowSum) {
	for i := range s {
		s[i] += o[i]
	}
}

// loadState brings keys, kills, grants and waiting calls back, and checks that they are those of the newest commit.
func (s *Store) loadState() error {
	var sum rowSum
	if err := collectLess(func() error { return s.loadTables(&sum) }); err != nil {
		return err
	}
	if err := s.loadKills(); err != nil {
		return err
	}
	if err := s.loadDefers(s.seq.state, &sum); err != nil {
		return err
	}
	if err := s.loadSweeps(s.seq.state); err != nil {
		return err
	}
	rest, err := s.sumOver(newSummer(s.set.Secret), prefixKill, prefixOperator, prefixSweep,
		prefixTool)
	if err != nil {
		return err
	}
	sum.merge(rest)
	return s.checkSum(sum)
}

func (s *Store) loadDefers(st *state, sum *rowSum) error {
	type row struct {
		d  *Defer
		is rowHash
	}
	err := loadRows(s, s.rowsOf(prefixLive), sum, func(by *adder, key, _ []byte) (none row, is bool, err error) {
		at := keyStr(prefixDefer, string(key[1:]))
		value, closer, err := s.db.Get(at)
		if errors.Is(err, pebble.ErrNotFound) {
			return none, false, errors.New("a live defer has no row")
		}
		if err != nil {
			return none, false, fmt.Errorf("read store: %w", err)
		}
		one := row{&Defer{}, by.row(at, value)}
		if err := json.Unmarshal(value, one.d); err != nil {
			return none, false, errors.Join(fmt.Errorf("a defer cannot be read: %w", err), closer.Close())
		}
		return one, true, closer.Close()
	}, func(one row) error {
		st.add(one.d)
		st.remind(one.d, s.ends(one.d))
		s.seq.live[one.d.Token] = one.is
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.loadJoined(st); err != nil {
		return err
	}
	for _, d := range st.live {
		s.open.put(d, false)
	}
	return nil
}
