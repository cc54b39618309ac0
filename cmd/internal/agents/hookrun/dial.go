package hookrun

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/sdk/client"
)

// Dial makes a client of the gateway that the file names, and of no other: nothing comes from the environment.
func Dial(f *hookfile.File) (Gateway, error) {
	opts := client.Options{Key: f.Key, Timeout: 20 * time.Second, Retries: 2, RetryFor: 3 * time.Second}
	if f.Socket != "" {
		opts.Socket, opts.SocketOwner = f.Socket, f.SocketOwner
		opts.NoEnvironment = true
		return client.New(opts)
	}
	pins := map[[sha256.Size]byte]bool{}
	for _, s := range f.Pins {
		pin, ok := hookfile.PinOf(s)
		if !ok {
			return nil, errors.New("pins: expected sha256/BASE64")
		}
		pins[pin] = true
	}
	opts.URL, opts.NoEnvironment = f.URL, true
	opts.TLS = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // the pin says more than a chain: it names the key itself
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !pins[sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)] {
				return errors.New("the server at this address has another public key than the hook's file pins")
			}
			return nil
		},
	}
	return client.New(opts)
}
