package ops

import (
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// HoldsKey reports whether a text has something in it that has the form and the checksum of a key's value, escapes
// decoded or not.
func HoldsKey(s string) bool {
	for text := range chain.Readings(s) {
		if holdsKey(text) {
			return true
		}
	}
	return false
}

// holdsKey looks for the checksum behind every "_" that may stand between a key's id and its secret: without the
// prefix, which everybody knows, it is a key all the same.
func holdsKey(s string) bool {
	if found := scattered(s); len(found) > 0 {
		return true
	}
	for i := strings.IndexByte(s, '_'); i >= 0; {
		if _, _, whole := keyAt(s, i); whole {
			return true
		}
		next := strings.IndexByte(s[i+1:], '_')
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

// keyAt is the key whose id ends at s[i], which is whole if its checksum holds.
func keyAt(s string, i int) (start, end int, whole bool) {
	start, end = i-keyIDLen, i+1+secretLen+checksumLen
	if s[i] != '_' || start < 0 || end > len(s) || !allBase62(s[i+1:end]) || !allBase62(s[start:i]) {
		return 0, 0, false // a text of "_" alone costs no checksum each
	}
	sum := checksumOn(behindPrefix, s[start:end-checksumLen])
	whole = string(sum[:]) == s[end-checksumLen:end]
	if strings.HasSuffix(s[:start], keyPrefix) {
		start -= len(keyPrefix)
	}
	return start, end, whole
}

// leastSecret is how many characters of a key's secret make what is left of the key something to hide: whoever has
// fewer cannot try out the rest.
const leastSecret = 16

// KeysIn finds API keys in a text, and what is left of a key that was cut or went on: the prefix, an id and much of a
// secret. Where a key does not stand in one piece, its id may go unfound: everybody may know ids.
func KeysIn(s string) (found []sdk.Finding) {
	for i := 0; i < len(s); i++ {
		start, end, whole := keyAt(s, i)
		if from := i - keyIDLen - len(keyPrefix); !whole && s[i] == '_' && from >= 0 &&
			strings.HasPrefix(s[from:], keyPrefix) {
			for start, end = from, i+1; end < len(s) && isWordByte(s[end]); end++ {
			}
			whole = end-i > leastSecret
		}
		if whole {
			found = append(found, keyFinding(start, end))
			i = end - 1
		}
	}
	apart := scattered(s)
	if len(apart) == 0 {
		return found
	}
	found = append(found, apart...)
	slices.SortFunc(found, func(a, b sdk.Finding) int { return a.Start - b.Start })
	out := found[:1]
	for _, f := range found[1:] { // the parts of a key that is whole are found too
		if last := &out[len(out)-1]; f.Start < last.End {
			last.End = max(last.End, f.End)
			continue
		}
		out = append(out, f)
	}
	return out
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// noKeys refuses texts that would be kept and hold a key's value, also in parts: a raw value is written nowhere.
func noKeys(texts ...string) error {
	long := false
	for _, t := range texts {
		if len(t) < secretLen+checksumLen {
			continue // it holds neither a key nor a whole secret
		}
		if long = true; HoldsKey(t) {
			return errHoldsKey()
		}
	}
	if long && HoldsKey(strings.Join(texts, "\n")) {
		return errHoldsKey()
	}
	return nil
}

func errHoldsKey() error {
	return sdk.Errf(sdk.CodeInvalidField, "a name, a reason or an Idempotency-Key holds the value of an API key; it "+
		"was not written anywhere")
}

func keyFinding(start, end int) sdk.Finding {
	return sdk.Finding{Kind: "YETT_API_KEY", Start: start, End: end, Severity: sdk.Critical, Confidence: 1,
		Action: sdk.Redact}
}

// Keyless is a text without API keys: for errors, which may quote what they are about.
func Keyless(text string) string {
	if !HoldsKey(text) && len(KeysIn(text)) == 0 {
		return text
	}
	return keysOnly.Keyless(text)
}

var keysOnly = &chain.ScanChain{Keys: KeysIn}

// Told is an error as a door tells it: no API key stands in it, wherever it came from.
func Told(e *sdk.Error) *sdk.Error {
	told := *e
	told.Msg, told.Field = Keyless(e.Msg), Keyless(e.Field)
	if len(e.More) > 0 {
		told.More = maps.Clone(e.More)
		for name, text := range told.More {
			told.More[name] = Keyless(text)
		}
	}
	return &told
}

// scattered finds whole keys that do not stand in one piece: with other characters between theirs, behind the prefix,
// or with id and secret apart, in any order. The checksum has to hold, so nothing else is taken for one.
func scattered(s string) []sdk.Finding {
	if len(s) < keyIDLen+secretLen+checksumLen {
		return nil
	}
	return append(spaced(s), parted(s)...)
}

// spacedBytes is how much of a text is looked at behind a prefix: a key with some characters between any two of its
// own.
const spacedBytes = 8 * keyLen

// spaced finds keys with other characters between theirs: dashes, blanks, quotes.
func spaced(s string) (found []sdk.Finding) {
	prefix := keyPrefix[:len(keyPrefix)-1]
	for at := 0; ; {
		i := strings.Index(s[at:], prefix)
		if i < 0 {
			return found
		}
		i += at
		at = i + len(prefix)
		var own [keyIDLen + secretLen + checksumLen]byte
		n, end := 0, at
		for ; n < len(own) && end < len(s) && end < i+spacedBytes; end++ {
			if isBase62(s[end]) {
				own[n] = s[end]
				n++
			}
		}
		if n < len(own) || end-i == keyLen && s[at] == '_' && s[at+1+keyIDLen] == '_' {
			continue // that one is in one piece
		}
		sum, ok := decoded62(own[keyIDLen+secretLen:])
		if ok && sum == ^(stateOf(own[:keyIDLen])^partOf(own[keyIDLen:])) {
			found = append(found, keyFinding(i, end))
			at = end
		}
	}
}

// parted finds the secrets of keys whose ids stand elsewhere in the text. The checksum is linear: the parts of an id
// and of a secret are worked out once each, however many there are.
func parted(s string) (found []sdk.Finding) {
	var ids map[uint32]bool
	for start, end := range runs(s) {
		if end-start != secretLen+checksumLen {
			continue
		}
		want, ok := decoded62(s[end-checksumLen : end])
		if !ok {
			continue
		}
		if ids == nil {
			ids = map[uint32]bool{}
			for start, end := range runs(s) {
				if end-start == keyIDLen {
					ids[stateOf(s[start:end])] = true
				}
			}
		}
		if ids[^want^partOf(s[start:end])] {
			found = append(found, keyFinding(start, end))
		}
	}
	return found
}

// runs are the longest stretches of base62 digits.
func runs(s string) func(yield func(start, end int) bool) {
	return func(yield func(start, end int) bool) {
		for i := 0; i < len(s); i++ {
			start := i
			for i < len(s) && isBase62(s[i]) {
				i++
			}
			if i > start && !yield(start, i) {
				return
			}
		}
	}
}

func isBase62(c byte) bool { return c != '_' && isWordByte(c) }

func allBase62(s string) bool {
	for i := range len(s) {
		if !isBase62(s[i]) {
			return false
		}
	}
	return true
}

// stateOf is what the prefix and an id make of the checksum's state behind a secret of zeros.
func stateOf[T string | []byte](id T) uint32 {
	n := fed(fed(behindPrefix, id), "_")
	for range secretLen {
		n = crc32.IEEETable[byte(n)] ^ n>>8
	}
	return n
}

// partOf is what a secret alone makes of it.
func partOf[T string | []byte](secret T) uint32 { return fed(0, secret[:secretLen]) }

func fed[T string | []byte](n uint32, s T) uint32 {
	for i := range len(s) {
		n = crc32.IEEETable[byte(n)^s[i]] ^ n>>8
	}
	return n
}

// decoded62 reads the number that a checksum's digits stand for; ok is false if it does not fit a checksum.
func decoded62[T string | []byte](digits T) (uint32, bool) {
	n := uint64(0)
	for i := range len(digits) {
		n = n*62 + uint64(strings.IndexByte(base62, digits[i]))
	}
	return uint32(n), n < 1<<32
}
