// Package signedhttp is how our plugins talk HTTP to services of others: requests signed as Standard Webhooks says, the
// TLS and proxy that the operator named and no others, no redirects, bounded answers, and one reading of what a status
// means. It never writes a secret into an error or a log, and never reads proxies or hosts from the environment. Where
// a request goes is the operator's own setting: private addresses are not refused.
package signedhttp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Window is how far the clock of a signature may be from ours.
const Window = 5 * time.Minute

// Secrets hold 24 to 64 bytes, as the specification says.
const (
	minSecret = 24
	maxSecret = 64
)

// maxSignatures is how many signatures of one header are looked at.
const maxSignatures = 8

const secretPrefix = "whsec_"

// Secret is a symmetric signing key. It prints as a mask.
type Secret struct{ key []byte }

// ParseSecret reads "whsec_" and base64. White space around it, such as the newline of a file, is not part of it. The
// error never quotes the text.
func ParseSecret(text string) (Secret, error) {
	coded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Secret{}, errors.New("a signing secret begins with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return Secret{}, errors.New("a signing secret is " + secretPrefix + " and standard base64")
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("a signing secret holds %d to %d bytes, this one %d", minSecret, maxSecret, len(key))
	}
	return Secret{key}, nil
}

// String is a mask, so that no log shows the key.
func (Secret) String() string { return secretPrefix + "…" }

// GoString is the same mask.
func (s Secret) GoString() string { return s.String() }

// Set says whether there is a key.
func (s Secret) Set() bool { return len(s.key) > 0 }

func (s Secret) sum(id string, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Sign puts the three headers on a message: one signature for each secret, so that a receiver may hold either of two
// while they are changed. Without a secret there is an id and a time, and no signature.
func Sign(h http.Header, id string, at time.Time, body []byte, secrets ...Secret) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, stamp)
	var all []string
	for _, s := range secrets {
		if s.Set() {
			all = append(all, "v1,"+base64.StdEncoding.EncodeToString(s.sum(id, stamp, body)))
		}
	}
	if len(all) > 0 {
		h.Set(HeaderSignature, strings.Join(all, " "))
	}
}

// Verify checks that a message has exactly this id, a time within Window of now, and a signature of one of the secrets.
func Verify(h http.Header, id string, now time.Time, body []byte, secrets ...Secret) error {
	stamp := h.Get(HeaderTimestamp)
	unix, err := strconv.ParseInt(stamp, 10, 64)
	switch {
	case id == "" || h.Get(HeaderID) != id:
		return errors.New("webhook-id is not that of the request")
	case err != nil || strconv.FormatInt(unix, 10) != stamp:
		return errors.New("webhook-timestamp is no time in seconds")
	}
	if at := time.Unix(unix, 0); at.Before(now.Add(-Window)) || at.After(now.Add(Window)) {
		return fmt.Errorf("webhook-timestamp is more than %s from the clock here", Window)
	}
	signatures := strings.Fields(h.Get(HeaderSignature))
	if len(signatures) > maxSignatures {
		return fmt.Errorf("webhook-signature holds more than %d signatures", maxSignatures)
	}
	for _, sig := range signatures {
		coded, ok := strings.CutPrefix(sig, "v1,")
		if !ok {
			continue // other versions are other keys
		}
		got, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			continue
		}
		for _, s := range secrets {
			if s.Set() && hmac.Equal(got, s.sum(id, stamp, body)) {
				return nil
			}
		}
	}
	return errors.New("no signature in webhook-signature is of a secret that is trusted")
}

// Name says whether s can be part of a webhook-id: 1 to 128 of letters, digits, "_" and "-". A full stop separates the
// parts of what is signed, and so is not among them.
func Name(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(s) > 0 && len(s) <= 128
}
