// Package pluginv1 is the protocol between Yett and plugin processes, version 1, as protoc makes it from plugin.proto.
// It owns names and numbers on the wire and nothing else: it must never contain behaviour. core/prochost and sdk/plugin
// speak it; authors in other languages take the same plugin.proto.
package pluginv1

// What the host and a plugin agree on before they speak gRPC. The cookie is no secret: it tells a start by a host from
// one by hand.
const (
	CookieKey       = "YETT_PLUGIN"
	CookieValue     = "9b2d7f0c-yett-plugin"
	ProtocolVersion = 1
)

//go:generate bash generate.sh
