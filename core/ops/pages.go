package ops

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"runtime"
	"time"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Bounds of every list. A page ends before it is longer, with a cursor.
const (
	pageBytes   = 1 << 20  // of an answer
	pageReads   = 4 << 20  // of what is read for one: some 20 ms of a processor
	callBytes   = 16 << 10 // of a call in a list
	memberBytes = 4 << 10  // of one of its members, when the call is longer than that
)

// pagesAtOnce is how many lists are read at once. Decisions find a processor beside them.
var pagesAtOnce = max(runtime.GOMAXPROCS(0)-1, 1)

// pages seals cursors and bounds how many lists are read at once. A cursor may stand at a row that its reader must not
// see, so it says nothing to them.
type pages struct {
	seal  cipher.AEAD
	salt  []byte
	room  chan struct{}
	turns *listTurns
	now   func() time.Time
	err   error // why there is no seal: then there is no list
}

func newPages(pepper []byte, now func() time.Time) *pages {
	p := &pages{salt: keyed(pepper, "the nonces of cursors"), room: make(chan struct{}, pagesAtOnce),
		turns: newListTurns(), now: now}
	block, err := aes.NewCipher(keyed(pepper, "the key of cursors"))
	if err == nil {
		p.seal, err = cipher.NewGCM(block)
	}
	p.err = err
	return p
}

func keyed(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// cursor is the text for a place in a list: the same for the same place.
func (p *pages) cursor(list, at string) string {
	nonce := keyed(p.salt, list+"\x00"+at)[:p.seal.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nonce, nonce, []byte(at), []byte(list)))
}

// place reads a cursor of that list; "" is its beginning.
func (p *pages) place(list, cursor string) (string, error) {
	if p.err != nil {
		return "", &sdk.Error{Code: sdk.CodeInternal, Op: "read a cursor", Err: p.err}
	}
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if n := p.seal.NonceSize(); err == nil && len(raw) > n {
		if at, err := p.seal.Open(nil, raw[:n], raw[n:], []byte(list)); err == nil {
			return string(at), nil
		}
	}
	return "", sdk.FieldErrf(sdk.CodeInvalidField, "cursor", "this is no cursor that this list has given")
}

// enter waits until the key may read another list. The caller calls leave then.
func (p *pages) enter(r *Request) (leave func(), err error) {
	line := ""
	if r.Key != nil {
		line = r.Key.Line()
	}
	over, err := p.turns.enter(r.Ctx, line)
	if err != nil {
		return nil, err
	}
	if err := p.takePlace(r.Ctx); err != nil {
		over(0)
		return nil, err
	}
	began := p.now()
	return func() {
		p.leave()
		over(p.now().Sub(began))
	}, nil
}

// takePlace is enter for one thing, which is no list, and for which nobody rests. The caller calls leave then.
func (p *pages) takePlace(ctx context.Context) error {
	if p.err != nil {
		return &sdk.Error{Code: sdk.CodeInternal, Op: "read a list", Err: p.err}
	}
	select {
	case p.room <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return sdk.Errf(sdk.CodeOverloaded, "%d lists are being read already; ask again in a second", pagesAtOnce)
	}
}

func (p *pages) leave() { <-p.room }

// listed is a call as lists show it: whole, or without its long members, which are named.
func listed(call []byte) (short []byte, omitted []string) {
	if len(call) <= callBytes {
		return call, nil
	}
	o := wire.Object(nil)
	ok := log.Members(call, func(name, value []byte) bool {
		if len(value) > memberBytes {
			omitted = append(omitted, string(name))
		} else {
			o.Raw(string(name), value)
		}
		return true
	})
	if !ok {
		return []byte("{}"), []string{"call"}
	}
	return o.Close(), omitted
}
