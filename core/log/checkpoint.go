package log

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is what a signed checkpoint says: the log of a store had that many records, with that root.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   tlog.Hash
}

// Keys are the public keys that a verifier trusts.
type Keys []note.Verifier

// ParseKeys reads verifier keys in note syntax, as Signer.PublicKey and `yett audit key` give them.
func ParseKeys(texts ...string) (Keys, error) {
	var keys Keys
	for _, text := range texts {
		v, err := note.NewVerifier(strings.TrimSpace(text))
		if err != nil {
			// it is not quoted: whoever mixes files up gives the private key here
			return nil, fmt.Errorf("no public key of a log (expected origin+hash+base64, as yett audit key prints it): %w", err)
		}
		keys = append(keys, v)
	}
	return keys, nil
}

// names reports whether one of the keys has that name and id.
func (k Keys) names(origin, id string) bool {
	for _, v := range k {
		if v.Name() == origin && fmt.Sprintf("%08x", v.KeyHash()) == id {
			return true
		}
	}
	return false
}

// ErrNotSigned says that no trusted key has signed a checkpoint.
var ErrNotSigned = errors.New("no trusted key has signed it")

// OpenCheckpoint reads a C2SP tlog-checkpoint and checks that one of the keys has signed it; without keys it checks no
// signature. Lines of other signers, such as witnesses, may be there. It refuses every text that has another form than
// a signer would have written.
func OpenCheckpoint(text string, keys Keys) (Checkpoint, error) {
	body, sigs, found := strings.Cut(text, "\n\n")
	lines := strings.Split(body, "\n")
	if !found || len(lines) != 3 {
		return Checkpoint{}, errors.New("a checkpoint has three lines, an empty one, and its signatures")
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("the size %q of a checkpoint is no number", lines[1])
	}
	c := Checkpoint{Origin: lines[0], Size: size}
	if c.Root, err = tlog.ParseHash(lines[2]); err != nil || c.Root.String() != lines[2] {
		return Checkpoint{}, fmt.Errorf("the root %q of a checkpoint is no hash", lines[2])
	}
	if err := strictSignatures(sigs); err != nil {
		return Checkpoint{}, err
	}
	if len(keys) == 0 {
		return c, nil
	}
	n, err := note.Open([]byte(text), note.VerifierList(keys...))
	if err != nil {
		var unverified *note.UnverifiedNoteError
		if errors.As(err, &unverified) {
			return Checkpoint{}, ErrNotSigned
		}
		return Checkpoint{}, fmt.Errorf("the checkpoint of %s: %w", c.Origin, err)
	}
	for _, sig := range n.Sigs {
		if sig.Name == c.Origin {
			return c, nil
		}
	}
	return Checkpoint{}, ErrNotSigned
}

// strictSignatures refuses signature lines that decode to the same bytes as others: nobody may change a bit unnoticed.
func strictSignatures(sigs string) error {
	if !strings.HasSuffix(sigs, "\n") {
		return errors.New("the signatures of a checkpoint are cut")
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(sigs, "\n"), "\n") {
		rest, ok := strings.CutPrefix(line, "— ")
		_, sig, found := strings.Cut(rest, " ")
		if _, err := base64.StdEncoding.Strict().DecodeString(sig); !ok || !found || err != nil {
			return fmt.Errorf("%q is no signature of a checkpoint", line)
		}
	}
	return nil
}

// SplitCheckpoints gives the checkpoints of a file: one, several one behind the other with or without empty lines in
// between, or that of an export. An empty line ends one that was cut while it was written: it is passed over, unless
// there is no other.
func SplitCheckpoints(data []byte) ([]string, error) {
	if len(data) > 0 && data[0] == '{' {
		line, _, _ := strings.Cut(string(data), "\n")
		h, err := ParseHeader([]byte(line))
		if err != nil {
			return nil, err
		}
		return []string{h.Checkpoint}, nil
	}
	var out []string
	var one strings.Builder
	signed, open, empty := false, false, false
	for line := range strings.Lines(string(data)) {
		isSig := strings.HasPrefix(line, "— ")
		if (signed || empty) && !isSig { // an empty line is only in front of the signatures
			out = append(out, one.String())
			one.Reset()
			signed, open, empty = false, false, false
		}
		if !open && line == "\n" {
			continue
		}
		empty = line == "\n"
		one.WriteString(line)
		signed, open = isSig, true
	}
	if open {
		out = append(out, one.String())
	}
	if len(out) == 0 {
		return nil, errors.New("there is no checkpoint in it")
	}
	if whole := slices.DeleteFunc(slices.Clone(out), isCut); len(whole) > 0 {
		return whole, nil
	}
	return out, nil
}

// leastSignature is how many bytes the shortest signature has: a key's hash and what Ed25519 gives.
const leastSignature = 4 + ed25519.SignatureSize

// isCut reports whether the text ends in front of the end of its signatures, or of the log's own.
func isCut(text string) bool {
	body, sigs, _ := strings.Cut(text, "\n\n")
	origin, _, _ := strings.Cut(body, "\n")
	if strictSignatures(sigs) != nil {
		return true
	}
	for line := range strings.Lines(sigs) {
		if sig, own := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "— "+origin+" "); own {
			return base64.StdEncoding.DecodedLen(len(sig)) < leastSignature
		}
	}
	return true
}
