package mesh_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/mesh"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// silent opens a Check and never sends its message.
func silent(t *testing.T, conn *grpc.ClientConn, key string) *authv3.CheckResponse {
	t.Helper()
	stream, err := conn.NewStream(as(t, key), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/envoy.service.auth.v3.Authorization/Check")
	if err != nil {
		t.Fatal(err)
	}
	got := checkAnswer()
	if err := stream.RecvMsg(got); err != nil {
		t.Fatal(err)
	}
	return got
}

// A stranger's message is not read: the answer comes while it is still to be sent.
func TestKeyBeforeMessage(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, allOn()))
	if got := silent(t, conn, ""); passes(got) || told(t, got.GetDeniedResponse().GetBody())["reason_code"] !=
		"unauthenticated" {
		t.Errorf("%v", got)
	}
}

func TestSlowMessage(t *testing.T) {
	b := doortest.New(t)
	set := settings(t, b, allOn())
	set.Limits.WholeRead = config.Duration(50 * time.Millisecond)
	conn, _ := dial(t, set)
	if got := silent(t, conn, b.Key("agent", "agent").Value); passes(got) ||
		told(t, got.GetDeniedResponse().GetBody())["reason_code"] != "timeout" {
		t.Errorf("%v", got)
	}
}

// A mistake of ours opens no door.
func TestPanicsRefuse(t *testing.T) {
	b := doortest.New(t)
	set := settings(t, b, allOn())
	set.Asker = nil
	conn, _ := dial(t, set)
	key := b.Key("agent", "agent").Value
	if got := ask(t, conn, key, check("GET", "api.example", "/")); passes(got) ||
		got.GetDeniedResponse().GetStatus().GetCode() != 500 {
		t.Errorf("%v", got)
	}
	if got := whole(t, conn, key, "text/plain", "clean"); fmtCode(got) != "500" {
		t.Errorf("%v", got)
	}
	for _, kind := range []string{"McpRequest", "McpResponse"} {
		if got, why := verdict(t, conn, key, mcp(kind, "git", "tools/call", `{"name":"read"}`)); got != "error 0" {
			t.Errorf("%s: %s %v", kind, got, why)
		}
	}
}

// More than the transport reads is its error: no answer, and no permit.
func TestHugeMessage(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, allOn()))
	r := withBody(check("POST", "api.example", "/"), strings.Repeat("x", 2*int(b.Limits.ScanBody)))
	got, err := authv3.NewAuthorizationClient(conn).Check(as(t, b.Key("agent", "agent").Value), r)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v, %v", got, err)
	}
}

// One key's calls keep those of others out no more than its share, and what does not fit is refused in the protocol.
func TestCrowded(t *testing.T) {
	b := doortest.New(t)
	set := settings(t, b, allOn())
	set.Limits.BodiesPerKey = 10
	conn, _ := dial(t, set)
	got := ask(t, conn, b.Key("agent", "agent").Value, check("GET", "api.example", "/"))
	if passes(got) || got.GetDeniedResponse().GetStatus().GetCode() != 503 ||
		len(got.GetDeniedResponse().GetHeaders()) != 2 {
		t.Errorf("%v", got)
	}
}

// A stream that the gateway ends never ends well: Envoy would let the rest pass.
func TestCloseBreaksStreams(t *testing.T) {
	b := doortest.New(t)
	conn, s := dial(t, settings(t, b, allOn()))
	key := b.Key("agent", "agent").Value
	stream, err := procv3.NewExternalProcessorClient(conn).Process(as(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(requestHead(bufferedModes())); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("nothing is left of the time for those that close after this")
	}
	if got, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := authv3.NewAuthorizationClient(conn).Check(as(t, key), check("GET", "api.example", "/")); err == nil &&
		passes(got) {
		t.Errorf("after the end: %v", got)
	}
}

// What runs when the gateway closes is answered.
func TestCloseWaits(t *testing.T) {
	b := doortest.New(t)
	conn, s := dial(t, settings(t, b, allOn()))
	key := b.Key("agent", "agent").Value
	stream, err := procv3.NewExternalProcessorClient(conn).Process(as(t, key))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	for i, m := range []*procv3.ProcessingRequest{requestHead(bufferedModes()), responseHead(false, ":status", "200"),
		responseBody(doortest.Secret, true)} {
		if i == 2 {
			go func() { closed <- s.Close(context.Background()) }()
			until(t, "the listener stays open", func() bool {
				c, err := net.Dial("tcp", conn.Target())
				if err == nil {
					_ = c.Close() // in vain: it is gone already
				}
				return err != nil
			})
		}
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || got.GetImmediateResponse() != nil {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// The connections of a stopped key are closed, and with TLS the same as without.
func TestTLS(t *testing.T) {
	b := doortest.New(t)
	cert, pool := selfSigned(t)
	set := settings(t, b, allOn())
	set.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	plain, s := dial(t, set)
	conn, err := grpc.NewClient(plain.Target(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: pool, ServerName: "127.0.0.1"})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // in vain: it is closed already
	k := b.Key("agent", "agent")
	if got := ask(t, conn, k.Value, check("GET", "api.example", "/")); !passes(got) {
		t.Errorf("%v", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := authv3.NewAuthorizationClient(plain).Check(ctx, check("GET", "api.example", "/")); err == nil {
		t.Error("a door with a certificate answers in the clear")
	}
	if open, known := mesh.Counts(s); open < 1 || known != 1 {
		t.Errorf("%d connections, %d of them known", open, known)
	}
	b.Revoke(k)
	until(t, "the connection of a revoked key stays open", func() bool {
		_, known := mesh.Counts(s)
		return known == 0
	})
}

// until looks again and again whether something is so.
func until(t *testing.T, not string, so func() bool) {
	t.Helper()
	end := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(not)
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}
