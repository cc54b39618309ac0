package prochost

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/supervise"
)

// The most that a Spec may ask for.
const (
	maxReplicas   = 16
	maxInFlight   = 4096
	maxQueue      = 1 << 16
	maxConfig     = 1 << 20
	maxSecrets    = 64
	maxSecret     = 1 << 20
	maxEnv        = 256
	maxEnvBytes   = 256 << 10
	maxTimeout    = time.Hour
	maxEntries    = 1 << 20
	maxGeneration = 256
	maxSocketPath = 107
	maxProgram    = supervise.MaxImage
)

var (
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)
	envPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)
)

// withDefaults checks a Spec and fills in what is zero. Errors are refusals; the Spec beside one has its name.
func (s Spec) withDefaults() (Spec, error) {
	for _, check := range []func(*Spec) error{(*Spec).checkIdentity, (*Spec).checkOrigin, (*Spec).checkGiven,
		(*Spec).fillCounts,
		(*Spec).fillTimes, (*Spec).fillBreaker} {
		if err := check(&s); err != nil {
			return s, &refusal{err: err}
		}
	}
	return s, nil
}

func (s *Spec) checkIdentity() error {
	if !namePattern.MatchString(s.Name) {
		name := s.Name
		s.Name = quote.Short(name, 64)
		return fmt.Errorf("name %q: expected 1 to 64 letters, digits, '.', '_' and '-'", quote.Short(name, 80))
	}
	if s.Kind < Authorizer || s.Kind > Subscriber {
		return fmt.Errorf("unknown kind: %s", s.Kind)
	}
	if len(s.Generation) > maxGeneration {
		return fmt.Errorf("generation: %d bytes, at most %d are allowed", len(s.Generation), maxGeneration)
	}
	return nil
}

// checkOrigin: a program with its digest, or a socket with a peer.
func (s *Spec) checkOrigin() error {
	if s.Connect == "" {
		switch {
		case !filepath.IsAbs(s.Path):
			return fmt.Errorf("exec: %q is no absolute path", quote.Short(s.Path, 200))
		case !pin.Is(s.Digest):
			return fmt.Errorf(`digest: expected "sha256:" and 64 hex digits`)
		case s.Peer != nil:
			return fmt.Errorf("peer: only with connect")
		}
		return nil
	}
	if s.Path != "" || s.Digest != "" {
		return fmt.Errorf("connect: not together with exec or digest")
	}
	if _, err := socketPath(s.Connect); err != nil {
		return err
	}
	switch {
	case s.User != nil:
		return fmt.Errorf("user: not with connect, since somebody else starts the plugin")
	case len(s.Env) > 0:
		return fmt.Errorf("env: not with connect, since somebody else starts the plugin")
	case len(s.Secrets) > 0:
		return fmt.Errorf("secrets: not with connect, since somebody else starts the plugin and gives it its secrets")
	case s.Replicas > 1:
		return fmt.Errorf("replicas: 1 with connect")
	}
	return s.Peer.check()
}

func (p *Peer) check() error {
	if p == nil || p.UID == nil && p.CAFile == "" && p.CertFile == "" && p.KeyFile == "" {
		return fmt.Errorf("peer: connect needs a uid or certificates, else anybody could be the plugin")
	}
	if set := len(p.CAFile) > 0; set != (p.CertFile != "") || set != (p.KeyFile != "") {
		return fmt.Errorf("peer: expected all three of ca, cert and key, or none")
	}
	return nil
}

// socketPath is the file of a connect address.
func socketPath(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "unix" || u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", fmt.Errorf("connect: expected unix:///path, got %q", quote.Short(address, 200))
	}
	if len(u.Path) > maxSocketPath {
		return "", fmt.Errorf("connect: the path of a socket has at most %d bytes, this one %d", maxSocketPath, len(u.Path))
	}
	return u.Path, nil
}

// checkGiven: what the plugin is handed.
func (s *Spec) checkGiven() error {
	size := 0
	for name, value := range s.Env {
		if !envPattern.MatchString(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %q is no name of a variable, or its value holds a NUL", quote.Short(name, 80))
		}
		if reservedEnv(name) {
			return fmt.Errorf("env: %s is the handshake's own", name)
		}
		size += len(name) + len(value) + 2
	}
	if len(s.Env) > maxEnv || size > maxEnvBytes {
		return fmt.Errorf("env: %d variables of %d bytes together; at most %d of %d are allowed", len(s.Env), size, maxEnv,
			maxEnvBytes)
	}
	if len(s.Secrets) > maxSecrets {
		return fmt.Errorf("secrets: %d, at most %d are allowed", len(s.Secrets), maxSecrets)
	}
	for name, value := range s.Secrets {
		if !namePattern.MatchString(name) {
			return fmt.Errorf("secrets: %q: expected 1 to 64 letters, digits, '.', '_' and '-'", quote.Short(name, 80))
		}
		if len(value) > maxSecret {
			return fmt.Errorf("secrets: %s has %d bytes, at most %d are allowed", name, len(value), maxSecret)
		}
	}
	if len(s.Config) == 0 {
		s.Config = []byte("{}")
	}
	var members map[string]json.RawMessage
	if len(s.Config) > maxConfig {
		return fmt.Errorf("config: %d bytes, at most %d are allowed", len(s.Config), maxConfig)
	}
	if err := json.Unmarshal(s.Config, &members); err != nil || members == nil {
		return fmt.Errorf("config: expected a JSON object")
	}
	return nil
}

func (s *Spec) fillCounts() error {
	if s.Queue == 0 {
		s.Queue = 256
	}
	s.Queue = max(s.Queue, 0)
	for _, c := range []struct {
		name      string
		value     *int
		otherwise int
		most      int
	}{
		{"replicas", &s.Replicas, 1, maxReplicas},
		{"max_in_flight", &s.MaxInFlight, 64, maxInFlight},
		{"queue", &s.Queue, 0, maxQueue},
		{"cache.entries", &s.Cache.Entries, 0, maxEntries},
	} {
		if *c.value == 0 {
			*c.value = c.otherwise
		}
		if *c.value < 0 || *c.value > c.most {
			return fmt.Errorf("%s: %d is not within 0 and %d", c.name, *c.value, c.most)
		}
	}
	if s.Kind == Subscriber && s.Replicas > 1 {
		return fmt.Errorf("replicas: a subscriber has one, else the order of the log would be lost")
	}
	return nil
}

func (s *Spec) fillTimes() error {
	for _, d := range []struct {
		name      string
		value     *time.Duration
		otherwise time.Duration
	}{
		{"timeout", &s.Timeout, 50 * time.Millisecond},
		{"start_timeout", &s.StartTimeout, 10 * time.Second},
		{"drain_timeout", &s.DrainTimeout, 30 * time.Second},
		{"cache.max_ttl", &s.Cache.MaxTTL, time.Minute},
		{"breaker.window", &s.Breaker.Window, 10 * time.Second},
		{"breaker.delay", &s.Breaker.Delay, 5 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
		if *d.value < 0 || *d.value > maxTimeout {
			return fmt.Errorf("%s: %v is not within 0 and %v", d.name, *d.value, maxTimeout)
		}
	}
	return nil
}

func (s *Spec) fillBreaker() error {
	b := &s.Breaker
	if b.Failures == 0 {
		b.Failures = 0.5
	}
	if b.Calls == 0 {
		b.Calls = 20
	}
	if b.Trials == 0 {
		b.Trials = 3
	}
	if !(b.Failures > 0 && b.Failures <= 1) {
		return fmt.Errorf("breaker.failures: %v is no share of 1", b.Failures)
	}
	if b.Calls < 1 || b.Calls > 1<<20 || b.Trials < 1 || b.Trials > 1000 {
		return fmt.Errorf("breaker: expected calls from 1 to %d and trials from 1 to 1000", 1<<20)
	}
	return nil
}

// verify compares the program with its digest. Every start does so again with the very bytes that it runs; this is to
// tell the operator at once.
func verify(ctx context.Context, s *Spec) error {
	if s.Connect != "" {
		return nil
	}
	f, info, err := regular.Open(s.Path)
	if errors.Is(err, regular.ErrKind) {
		return refusef("%s %w", s.Path, regular.ErrKind)
	}
	if err != nil {
		return &refusal{err: err}
	}
	defer f.Close()
	if info.Size() > maxProgram {
		return refusef("%s has %d bytes, at most %d are allowed", s.Path, info.Size(), maxProgram)
	}
	stop := context.AfterFunc(ctx, func() { f.Close() }) // a file system that hangs must not hold up a start
	defer stop()
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, maxProgram+1)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &refusal{err: err}
	}
	if got := pin.Sum(hash); got != s.Digest {
		return refusef("%s: its digest is %s, expected %s: the file is not the one that was admitted", s.Path, got, s.Digest)
	}
	return nil
}
