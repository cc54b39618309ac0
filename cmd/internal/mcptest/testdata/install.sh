#!/usr/bin/env bash
# Installs what the tests in this folder run unmodified: the official conformance runner and clients made of public SDKs.
#
#   bash cmd/internal/mcptest/testdata/install.sh DIR
#   YETT_CONFORMANCE=DIR YETT_SDKS=DIR go test ./cmd/internal/mcptest
#
# DIR gets conformance/, node1/, node2/, python1/, python2/, and node/ where the system's Node.js is too old for the
# runner (it needs 22). Every version is pinned by hash. Needs python3 with venv, node and npm. A DIR that is complete is
# left as it is.
set -euo pipefail
if [ $# != 1 ]; then
	echo "usage: bash install.sh DIR" >&2
	exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
pins=$(cat "$here"/*/package-lock.json "$here"/*/requirements.txt | cksum)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then exit 0; fi

parts=(conformance node1 node2)
if ! node -e 'process.exit(require("fs").globSync ? 0 : 1)'; then parts+=(node); fi
rm -rf "$dir/installed" "$dir"/{conformance,node,node1,node2,python1,python2}
for part in "${parts[@]}"; do
	mkdir "$dir/$part"
	cp "$here/$part/package.json" "$here/$part/package-lock.json" "$dir/$part/"
	npm ci --prefix "$dir/$part" --ignore-scripts --no-audit --no-fund --silent
done
for part in python1 python2; do
	python3 -m venv "$dir/$part"
	"$dir/$part/bin/python" -m pip --quiet --disable-pip-version-check install --only-binary :all: --no-deps --require-hashes \
		--requirement "$here/$part/requirements.txt"
done

echo "$pins" >"$dir/installed" # last: a directory that is half done is done again
