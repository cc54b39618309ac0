// Package pluginv1 is the protocol between Yett and plugin processes, version 1, as protoc makes it from plugin.proto.
// It owns names and numbers on the wire and nothing else: it must never contain behaviour. core/prochost and sdk/plugin
// speak it; authors in other languages take the same plugin.proto.
package pluginv1

//go:generate bash generate.sh
