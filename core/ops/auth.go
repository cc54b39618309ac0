package ops

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"hash/crc32"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// The form of a key's value: yett_<id>_<secret><checksum>.
const (
	keyPrefix   = "yett_"
	keyIDLen    = 12
	secretLen   = 43 // base62 of 256 bits
	checksumLen = 6  // base62 of CRC32 over everything before
	keyLen      = len(keyPrefix) + keyIDLen + 1 + secretLen + checksumLen
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// appendBase62 appends n in exactly width digits.
func appendBase62(dst []byte, n *big.Int, width int) []byte {
	n = new(big.Int).Set(n)
	digits := make([]byte, width)
	m, base := new(big.Int), big.NewInt(62)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, m)
		digits[i] = base62[m.Int64()]
	}
	return append(dst, digits...)
}

// checksum is that of a value without it. The loop is crc32.ChecksumIEEE, which would want the text as bytes on the
// heap.
func checksum(s string) (out [checksumLen]byte) { return checksumOn(^uint32(0), s) }

// behindPrefix is the state of the checksum behind a key's prefix.
var behindPrefix = ^crc32.ChecksumIEEE([]byte(keyPrefix))

// checksumOn goes on from a state.
func checksumOn(n uint32, s string) (out [checksumLen]byte) {
	for i := range len(s) {
		n = crc32.IEEETable[byte(n)^s[i]] ^ n>>8
	}
	n = ^n
	for i := checksumLen - 1; i >= 0; i-- {
		out[i] = base62[n%62]
		n /= 62
	}
	return out
}

// newValue makes a key id and the value that is shown once.
func (s *Service) newValue() (id, value string) {
	var raw [32 + 9]byte
	s.set.Random(raw[:])
	id = string(appendBase62(nil, new(big.Int).SetBytes(raw[32:]), keyIDLen))
	body := keyPrefix + id + "_" + string(appendBase62(nil, new(big.Int).SetBytes(raw[:32]), secretLen))
	sum := checksum(body)
	return id, body + string(sum[:])
}

// macPool computes HMAC-SHA-256 of key values without an allocation per request.
type macPool struct{ p *sync.Pool }

type macState struct {
	h     hash.Hash
	value [keyLen]byte
	sum   [sha256.Size]byte
}

func newMACPool(pepper []byte) macPool {
	return macPool{&sync.Pool{New: func() any { return &macState{h: hmac.New(sha256.New, pepper)} }}}
}

func (m macPool) sum(value string) [sha256.Size]byte {
	st := m.p.Get().(*macState)
	defer m.p.Put(st)
	v := st.value[:copy(st.value[:], value)]
	st.h.Reset()
	st.h.Write(v)
	st.h.Sum(st.sum[:0])
	clear(v)
	return st.sum
}

func unauthenticated() *sdk.Error {
	return sdk.Errf(sdk.CodeUnauthenticated, "send a valid API key as Authorization: Bearer <key>")
}

// Authenticate finds the live key of an Authorization header's value. Missing, malformed and unknown keys and wrong
// secrets are one error; only who has the right secret learns that the key is revoked or expired. An unknown id costs
// what a known one does.
func (s *Service) Authenticate(header string) (*store.Key, error) {
	scheme, value, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return nil, unauthenticated()
	}
	return s.KeyOf(value)
}

// KeyOf finds the live key with that value.
func (s *Service) KeyOf(value string) (*store.Key, error) {
	if len(value) != keyLen || !strings.HasPrefix(value, keyPrefix) || value[len(keyPrefix)+keyIDLen] != '_' {
		return nil, unauthenticated()
	}
	if check := checksum(value[:keyLen-checksumLen]); string(check[:]) != value[keyLen-checksumLen:] {
		return nil, unauthenticated()
	}
	sum := s.macs.sum(value)
	k := s.set.Store.Key(value[len(keyPrefix) : len(keyPrefix)+keyIDLen])
	want := sum[:]
	if k != nil {
		want = k.MAC
	}
	same := subtle.ConstantTimeCompare(sum[:], want) == 1
	if k == nil || !same {
		return nil, unauthenticated()
	}
	return s.living(k)
}

// KeyByID finds the live key with that id, for transports that let a connection or a peer stand for a key.
func (s *Service) KeyByID(id string) (*store.Key, error) {
	k := s.set.Store.Key(id)
	if k == nil {
		return nil, unauthenticated()
	}
	return s.living(k)
}

// Stopped reports whether a key is killed, expired or revoked with none in its place: its connections are closed then.
// Nothing is said of ids that no key has.
func (s *Service) Stopped(id string) bool { return s.set.Store.KeyStopped(id) }

func (s *Service) living(k *store.Key) (*store.Key, error) {
	now := k.At(s.set.Store.Times())
	if r := k.Revoked(now); r != nil {
		return nil, sdk.Errf(sdk.CodeKeyRevoked, "the API key %q was revoked at %s", k.Name, r.At.UTC().Format(time.RFC3339))
	}
	if k.Expired(now) {
		return nil, sdk.Errf(sdk.CodeKeyExpired, "the API key %q expired at %s", k.Name,
			k.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return k, nil
}

// actsAs refuses an agent id that the key does not act as.
func actsAs(k *store.Key, agent string) error {
	if agent != "" && !k.Sees(agent) {
		return sdk.FieldErrf(sdk.CodeAgentNotAllowed, "agent_id", "the key %q may not act for this agent", k.Name)
	}
	return nil
}

// rateLimits is one token bucket per key.
type rateLimits struct {
	perSecond int
	mu        sync.Mutex
	byKey     map[string]*rate.Limiter
}

func (r *rateLimits) takeToken(key string, now time.Time) error {
	if r.perSecond == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byKey[key]
	if l == nil {
		if r.byKey == nil {
			r.byKey = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Limit(r.perSecond), r.perSecond)
		r.byKey[key] = l
	}
	if !l.AllowN(now, 1) {
		return sdk.Errf(sdk.CodeTooManyRequests, "this key is limited to %d requests a second (limits.rate_per_key)",
			r.perSecond)
	}
	return nil
}

// refusals counts keys that were not let in, so that guessing shows in the log without filling it.
type refusals struct {
	mu    sync.Mutex
	count int
	last  time.Time
}

// every is how often refused keys are recorded at most.
const every = time.Second

// countRefusal counts one refusal and gives the number to record now, 0 for none.
func (r *refusals) countRefusal(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if now.Sub(r.last) < every {
		return 0
	}
	n := r.count
	r.count, r.last = 0, now
	return n
}

// Refused records that a key was not let in, at most once a second, with the number of refusals since the last record.
func (s *Service) Refused(ctx context.Context, cause error, surface, peer string) {
	s.refused(ctx, cause, "api_key", surface, peer)
}

// RefusedToken is Refused for an access token in the place of a key.
func (s *Service) RefusedToken(ctx context.Context, cause error, surface, peer string) {
	s.refused(ctx, cause, "oauth", surface, peer)
}

func (s *Service) refused(ctx context.Context, cause error, method, surface, peer string) {
	s.set.Observer.Refused(surface, codeOf(cause))
	n := s.wrong.countRefusal(s.set.Now())
	if n == 0 {
		return
	}
	who := store.Who{Principal: "unknown", Method: method, Surface: surface, Peer: peer}
	// Nothing hangs on this record: the request is refused whether it is written or not, and a store that cannot write
	// says so itself.
	_ = s.set.Store.Commit(ctx, &store.Note{Type: "auth_failed", By: who,
		Fields: [][2]string{{"reason_code", string(codeOf(cause))}, {"refused", strconv.Itoa(n)}}})
}
