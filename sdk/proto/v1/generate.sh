#!/usr/bin/env bash
# Writes the Go code of plugin.proto. Needs protoc (Debian: protobuf-compiler); the generators are pinned in cmd/tools.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
if ! command -v protoc >/dev/null; then
	echo "sdk/proto/v1: protoc is not installed: the committed code stays as it is" >&2
	exit 0
fi
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -modfile=cmd/tools.mod -o "$bin/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH="$bin:$PATH" protoc -I. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative sdk/proto/v1/plugin.proto
# The version of protoc in the head would make each machine's output another one.
sed -i -E '/^\/\/ (-|	)? ?protoc +v/d' sdk/proto/v1/*.pb.go
gofmt -w sdk/proto/v1/*.pb.go
