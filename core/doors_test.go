package core

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Doors that are on are served from Start to Close, with the keys, rules and listeners of the gateway.
func TestDoorsOfProxies(t *testing.T) {
	g, _ := benchGatewayOf(t, "version: 1\nserver: {metrics: off}\nconsole: {enabled: false}\nsocket: {enabled: false}\n"+
		"doors: {listen: \"127.0.0.1:0\", grpc_listen: \"127.0.0.1:0\", ext_authz: {enabled: true, http: true}}\n"+
		"chains: {authorize: {steps: [{name: rules, rules: [rules.yaml]}]}}\n")
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, g.DoorURL()+"/envoy/ext_authz/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "api.example"
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("without a key: %d", resp.StatusCode)
	}
	c, err := net.Dial("tcp", g.MeshAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	const settings = 4
	var frame [9]byte
	if _, err := io.ReadFull(c, frame[:]); err != nil || frame[3] != settings {
		t.Errorf("gRPC: %x, %v", frame, err)
	}
}
