package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

func startModes() []*mode {
	return []*mode{
		{name: "crash-start", what: "exits at once", start: func(f *fake) { f.die("not today") }},
		{name: "crash-handshake", what: "exits behind the handshake", instead: func(f *fake) {
			cert, _, err := ownTLS()
			if err != nil {
				f.die("TLS: %v", err)
			}
			f.handshake(protocolVersion, "unix", filepath.Join(socketDir(), "nobody"), "grpc", cert)
			f.die("enough said")
		}},
		{name: "silent", what: "never says a word", instead: func(*fake) { forever() }},
		{name: "stop-start", what: "stops itself as SIGSTOP does, before the handshake", start: func(*fake) { stopSelf() }},
		{name: "slow-handshake", what: "takes FAKE_ARG (20s) before the handshake", start: func(f *fake) { time.Sleep(f.duration(20 * time.Second)) }},
		{name: "garbage-handshake", what: "says garbage instead of the handshake", instead: func(f *fake) {
			garbage := make([]byte, 256)
			_, _ = rand.Read(garbage) // never fails
			f.say(append(garbage, '\n'))
			forever()
		}},
		{name: "half-handshake", what: "says half of the handshake", instead: func(f *fake) {
			f.say([]byte("1|1|unix|/tmp/so"))
			forever()
		}},
		{name: "long-handshake", what: "says 16 MiB without a line feed instead of the handshake", instead: func(f *fake) {
			f.flood(f.stdout, []byte(repeated('1', 1<<16)), 16<<20)
			forever()
		}},
		{name: "noise-before", what: "says lines of its own before the handshake", start: func(f *fake) {
			f.say([]byte("loading the model, please wait\n"))
		}},
		{name: "wrong-protocol", what: "speaks protocol version 99", protocol: 99},
		{name: "net-rpc", what: "says that it speaks net/rpc", instead: func(f *fake) {
			f.accept("netrpc", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // however it ends, it has ended
		}},
		{name: "no-tls", what: "serves without TLS", start: func(f *fake) { _ = os.Unsetenv("PLUGIN_CLIENT_CERT") }},
		{name: "foreign-socket", what: "says that it listens where somebody else does (FAKE_ARG, /run/other.sock)", instead: func(f *fake) {
			f.handshake(protocolVersion, "unix", f.word("/run/other.sock"), "grpc", "")
			forever()
		}},
		{name: "foreign-port", what: "says that it listens on a port (FAKE_ARG, 127.0.0.1:1)", instead: func(f *fake) {
			f.handshake(protocolVersion, "tcp", f.word("127.0.0.1:1"), "grpc", "")
			forever()
		}},
		{name: "garbage-socket", what: "says garbage on its socket", instead: func(f *fake) { f.accept("grpc", babble) }},
		{name: "garbage-tls", what: "says garbage on its socket, within TLS", instead: func(f *fake) {
			cert, config, err := ownTLS()
			if err != nil {
				f.die("TLS: %v", err)
			}
			f.acceptWith("grpc", cert, func(c net.Conn) {
				c = tls.Server(c, config)
				babble(c)
			})
		}},
		{name: "mute-socket", what: "takes connections and says nothing", instead: func(f *fake) {
			f.accept("grpc", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // however it ends, it has ended
		}},
	}
}

func noiseModes() []*mode {
	var once sync.Once // the first question comes behind the handshake
	return []*mode{
		{name: "noise-after", what: "writes FAKE_ARG bytes (16 MiB) to stdout behind the handshake", onInfo: func(f *fake, _ context.Context) {
			once.Do(func() { go f.flood(f.stdout, []byte(strings.Repeat("a line of chatter\n", 4000)), f.number(16<<20)) })
		}},
		{name: "noise-stderr", what: "writes FAKE_ARG bytes (16 MiB) to stderr", start: func(f *fake) {
			go f.flood(f.stderr, []byte(strings.Repeat("a line of chatter with \x1b[31mred\x1b[0m in it\n", 1000)),
				f.number(16<<20))
		}},
		{name: "noise-line", what: "writes one line of 16 MiB to stderr", start: func(f *fake) { go f.flood(f.stderr, []byte(repeated('x', 1<<20)), 16<<20) }},
		{name: "ignore-term", what: "lives on when it is asked to end", deaf: true},
		{name: "grandchild", what: "has a child outside its group that holds its stdout and stderr", start: holdPipes},
	}
}

// say writes to the stdout that the host reads.
func (f *fake) say(text []byte) {
	if _, err := f.stdout.Write(text); err != nil {
		f.die("stdout: %v", err)
	}
}

// flood writes a text again and again. A host that stops reading stops it.
func (f *fake) flood(to *os.File, text []byte, size uint64) {
	for left := size; left > 0; {
		part := text[:min(left, uint64(len(text)))]
		if _, err := to.Write(part); err != nil {
			return // the host does not want to hear it
		}
		left -= uint64(len(part))
	}
}

func (f *fake) handshake(version int, network, address, protocol, cert string) {
	f.say(fmt.Appendf(nil, "1|%d|%s|%s|%s|%s\n", version, network, address, protocol, cert))
}

// accept shakes hands as a good one would and then does its own with the connections.
func (f *fake) accept(protocol string, serve func(c net.Conn)) {
	cert, _, err := ownTLS()
	if err != nil {
		f.die("TLS: %v", err)
	}
	f.acceptWith(protocol, cert, serve)
}

func (f *fake) acceptWith(protocol, cert string, serve func(c net.Conn)) {
	path := filepath.Join(socketDir(), fmt.Sprintf("fake-%d", os.Getpid()))
	ln, err := net.Listen("unix", path)
	if err != nil {
		f.die("listen: %v", err)
	}
	f.handshake(protocolVersion, "unix", path, protocol, cert)
	for {
		c, err := ln.Accept()
		if err != nil {
			f.die("accept: %v", err)
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// socketDir is where the host wants sockets.
func socketDir() string {
	if dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// babble writes up to 16 MiB of garbage.
func babble(c net.Conn) {
	garbage := make([]byte, 1<<16)
	_, _ = rand.Read(garbage) // never fails
	for range 256 {
		if _, err := c.Write(garbage); err != nil {
			return
		}
	}
}

// ownTLS makes a certificate as go-plugin's handshake carries it, and the settings for it.
func ownTLS() (cert string, config *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", nil, err
	}
	return base64.RawStdEncoding.EncodeToString(der),
		&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			NextProtos: []string{"h2"}}, nil
}
