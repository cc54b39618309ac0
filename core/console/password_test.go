package console

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"
)

func TestStandardCost(t *testing.T) {
	if standard != (cost{passes: 3, memory: 65536, threads: 4}) || saltBytes != 16 || tagBytes != 32 {
		t.Errorf("not RFC 9106's second recommendation: %+v", standard)
	}
	v := New(Settings{Random: func(b []byte) { clear(b) }}).vault
	if v.cost != standard || v.decoy.cost != standard {
		t.Errorf("a console hashes with %+v, its decoy is of %+v", v.cost, v.decoy.cost)
	}
	phc, err := v.hash(context.Background(), password)
	if err != nil || !strings.HasPrefix(phc, "$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$") {
		t.Errorf("got %s %v", phc, err)
	}
	for pw, want := range map[string]bool{password: true, password + " ": false, "": false} {
		if ok, err := v.verifyPassword(context.Background(), phc, pw); ok != want || err != nil {
			t.Errorf("%q: %v %v", pw, ok, err)
		}
	}
}

// The argon2 command's own output for its documented example.
func TestKnownDigest(t *testing.T) {
	const phc = "$argon2id$v=19$m=65536,t=2,p=4$c29tZXNhbHQ$GpZ3sK/oH9p7VIiV56G/64Zo/8GaUw434IimaPqxwCo"
	v := newVault(cheap, func(b []byte) { clear(b) })
	for pw, want := range map[string]bool{"password": true, "Password": false} {
		if ok, err := v.verifyPassword(context.Background(), phc, pw); ok != want || err != nil {
			t.Errorf("%q: %v %v", pw, ok, err)
		}
	}
}

func TestParseDigest(t *testing.T) {
	const good = "$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	if d, err := parseDigest(good); err != nil || d.String() != good {
		t.Fatalf("got %v %v", d, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"argon2id", "argon2i", "not an argon2id"},
		{"$argon2id", "argon2id", "not an argon2id"},
		{"$v=19", "", "not an argon2id"},
		{"v=19", "v=16", "version 16"},
		{"m=65536", "m=4294967295", "out of bounds"},
		{"m=65536", "m=4294967296", "parameters"},
		{"m=65536", "m=31", "out of bounds"},
		{"t=3", "t=0", "out of bounds"},
		{"t=3", "t=17", "out of bounds"},
		{"p=4", "p=0", "out of bounds"},
		{"p=4", "p=17", "out of bounds"},
		{"p=4", "p=256", "parameters"},
		{"t=3,p=4", "p=4,t=3", "parameters"},
		{"m=65536", "m=065536", "canonical"},
		{"p=4", "p=4,x=1", "canonical"},
		{"$AAAAAAAAAAAAAAAAAAAAAA$", "$AAAA$", "salt or tag"},
		{"$AAAAAAAAAAAAAAAAAAAAAA$", "$AAAAAAAAAAAAAAAAAAAAAB$", "salt of"},
		{"$AAAAAAAAAAAAAAAAAAAAAA$", "$AAAAAAAAAAAAAAAAAAAAAA==$", "salt of"},
		{good, "", "not an argon2id"},
	} {
		if _, err := parseDigest(strings.Replace(good, c.from, c.to, 1)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s → %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
	v := newVault(cheap, func(b []byte) { clear(b) })
	if ok, err := v.verifyPassword(context.Background(), "junk", "x"); ok || err == nil {
		t.Errorf("a hash that cannot be read: %v %v", ok, err)
	}
}

func FuzzParseDigest(f *testing.F) {
	f.Add("$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=8,t=1,p=1$$")
	f.Add("$$$$$")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDigest(s)
		if err != nil {
			return
		}
		if d.String() != s {
			t.Errorf("%q is read as %q", s, d)
		}
		if d.memory > 1<<20 || d.passes > 16 || d.threads > 16 || d.passes == 0 || d.threads == 0 {
			t.Errorf("%q is out of bounds", s)
		}
	})
}

// Only so many hashes are made at a time, since each takes its memory.
func TestHashesTakeTurns(t *testing.T) {
	v := newVault(cheap, func(b []byte) { clear(b) })
	inside, leave := make(chan struct{}), make(chan struct{})
	v.derive = func(pw, salt []byte, passes, memory uint32, threads uint8, n uint32) []byte {
		inside <- struct{}{}
		<-leave
		return argon2.IDKey(pw, salt, passes, memory, threads, n)
	}
	done := make(chan error, hashing)
	for range hashing {
		go func() {
			_, err := v.hash(context.Background(), "x")
			done <- err
		}()
		<-inside
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := v.hash(ctx, "x"); !errors.Is(err, errBusy) {
		t.Errorf("one more at the same time: %v", err)
	}
	if ok, err := v.verifyPassword(ctx, "", "x"); ok || !errors.Is(err, errBusy) {
		t.Errorf("one more check at the same time: %v %v", ok, err)
	}
	close(leave)
	for range hashing {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if hashQueued > 10*time.Second {
		t.Error("a try waits longer than a request may take")
	}
}
