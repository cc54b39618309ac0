#!/usr/bin/env bash
# Installs the public clients, unmodified, for the tests that YETT_CLIENTS turns on.
#
#   bash sdk/testdata/clients/install.sh DIR      then: YETT_CLIENTS=DIR go test ./cmd/yett ./sdk/wire
#
# DIR gets venv/ (the Python client), old/X/ (its earlier releases) and node/ (what JavaScript clients are made of). Every
# version is pinned by hash. Needs python3 (3.9 or later, with venv), node and npm. A DIR that is complete is left as it is.
set -euo pipefail
if [ $# != 1 ]; then
	echo "usage: bash install.sh DIR" >&2
	exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
pins=$(cat "$here/python/requirements.txt" "$here/python/earlier.txt" "$here/node/package-lock.json" | cksum)
if [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; then exit 0; fi
rm -rf "$dir/venv" "$dir/old" "$dir/node" "$dir/installed"

python3 -m venv "$dir/venv"
pip() { "$dir/venv/bin/python" -m pip --quiet --disable-pip-version-check install --only-binary :all: --no-deps --require-hashes "$@"; }
pip --requirement "$here/python/requirements.txt"
grep -v '^#' "$here/python/earlier.txt" | while read -r pin; do
	version=${pin%% *}
	echo "$pin" >"$dir/pin.txt"
	pip --target "$dir/old/${version#*==}" --requirement "$dir/pin.txt"
done
rm "$dir/pin.txt"

mkdir -p "$dir/node"
cp "$here/node/package.json" "$here/node/package-lock.json" "$dir/node/"
npm ci --prefix "$dir/node" --ignore-scripts --no-audit --no-fund --silent

echo "$pins" >"$dir/installed" # last: a directory that is half done is done again
