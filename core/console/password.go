package console

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/yett-dev/yett/sdk"
)

// The rule for passwords, as the pages show it. Length is what counts; there is no rule about kinds of characters.
const (
	passwordLeast = 12  // characters
	passwordMost  = 512 // bytes
)

// cost are argon2id's parameters.
type cost struct {
	passes  uint32
	memory  uint32 // KiB
	threads uint8
}

// standard is RFC 9106's second recommended choice (section 4): 3 passes over 64 MiB with 4 lanes, a salt of 128 bits
// and a tag of 256.
var standard = cost{passes: 3, memory: 64 << 10, threads: 4}

const (
	saltBytes  = 16
	tagBytes   = 32
	hashing    = 2               // at a time, so 128 MiB at most
	hashQueued = 5 * time.Second // a try waits for its turn no longer
)

// digest is a parsed PHC string of argon2id.
type digest struct {
	cost
	salt, tag []byte
}

func (d digest) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, d.memory, d.passes, d.threads,
		b64.EncodeToString(d.salt), b64.EncodeToString(d.tag))
}

// parseDigest reads a PHC string. It takes what String writes, and parameters within bounds only: a row with absurd
// ones must not take all memory.
func parseDigest(s string) (digest, error) {
	var d digest
	var version int
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return d, errors.New("not an argon2id PHC string")
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &d.memory, &d.passes,
		&d.threads); err != nil {
		return d, fmt.Errorf("parameters of the password hash: %w", err)
	}
	var err error
	if d.salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4]); err != nil {
		return d, fmt.Errorf("salt of the password hash: %w", err)
	}
	if d.tag, err = base64.RawStdEncoding.Strict().DecodeString(parts[5]); err != nil {
		return d, fmt.Errorf("tag of the password hash: %w", err)
	}
	switch {
	case version != argon2.Version:
		return d, fmt.Errorf("argon2 version %d of the password hash is not %d", version, argon2.Version)
	case d.passes < 1 || d.passes > 16, d.threads < 1 || d.threads > 16, d.memory < 8*uint32(d.threads) ||
		d.memory > 1<<20:
		return d, errors.New("parameters of the password hash are out of bounds")
	case len(d.salt) < 8 || len(d.salt) > 64, len(d.tag) < 16 || len(d.tag) > 64:
		return d, errors.New("salt or tag of the password hash is out of bounds")
	case d.String() != s:
		return d, errors.New("the password hash is not in its one canonical form")
	}
	return d, nil
}

// vault makes and checks password hashes, a few at a time.
type vault struct {
	cost   cost
	random func([]byte)
	slots  chan struct{}
	decoy  digest // checked for names that nobody has, so that they take the same time
	derive func(password, salt []byte, passes, memory uint32, threads uint8, tagBytes uint32) []byte
}

func newVault(c cost, random func([]byte)) *vault {
	v := &vault{cost: c, random: random, slots: make(chan struct{}, hashing), derive: argon2.IDKey}
	v.decoy = digest{c, make([]byte, saltBytes), make([]byte, tagBytes)}
	random(v.decoy.salt)
	random(v.decoy.tag)
	return v
}

// hash is the PHC string for a new password. The only error is errBusy.
func (v *vault) hash(ctx context.Context, password string) (string, error) {
	free, err := v.acquireSlot(ctx)
	if err != nil {
		return "", err
	}
	defer free()
	salt := make([]byte, saltBytes)
	v.random(salt)
	return digest{v.cost, salt, v.derive([]byte(password), salt, v.cost.passes, v.cost.memory, v.cost.threads,
		tagBytes)}.String(), nil
}

// verifyPassword reports whether the password is the one of phc. An empty phc is nobody's: it costs the same and is
// never right.
func (v *vault) verifyPassword(ctx context.Context, phc, password string) (bool, error) {
	d, known := v.decoy, false
	if phc != "" {
		var err error
		if d, err = parseDigest(phc); err != nil {
			return false, err
		}
		known = true
	}
	free, err := v.acquireSlot(ctx)
	if err != nil {
		return false, err
	}
	defer free()
	tag := v.derive([]byte(password), d.salt, d.passes, d.memory, d.threads, uint32(len(d.tag)))
	return subtle.ConstantTimeCompare(tag, d.tag) == 1 && known, nil
}

var errBusy = errors.New("too many sign-ins at once")

func (v *vault) acquireSlot(ctx context.Context) (free func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hashQueued, errBusy)
	defer cancel()
	select {
	case v.slots <- struct{}{}:
		return func() { <-v.slots }, nil
	case <-ctx.Done():
		return nil, errBusy
	}
}

// checkPassword holds a new password against the rule.
func checkPassword(password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < passwordLeast:
		return sdk.FieldErrf(sdk.CodeInvalidField, "password", "The password has %d characters; it needs at least %d.", n,
			passwordLeast)
	case len(password) > passwordMost:
		return sdk.FieldErrf(sdk.CodeInvalidField, "password", "The password is %d bytes long, more than the limit of %d.",
			len(password), passwordMost)
	}
	return nil
}
