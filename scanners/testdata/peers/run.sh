#!/usr/bin/env bash
# Compares the built-in scanners with what one would pick instead, and prints the tables of their READMEs as Markdown.
#
#   bash scanners/testdata/peers/run.sh DIR [CACHE [FLAG…]]
#
# DIR holds the labelled sets. CACHE keeps the peers for the next run; without it they are fetched into a folder that is
# removed. FLAGs are those of compare.py. Needs Go, python3 (3.11 or later, with venv), taskset, PyPI and the Go proxy.
# Every version is pinned: requirements.txt, gitleaks/go.mod.
set -euo pipefail
if [ $# = 0 ]; then
	echo "usage: bash run.sh DIR [CACHE [FLAG…]]" >&2
	exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
data=$1
if [ -n "${2-}" ]; then
	mkdir -p "$2"
	cache=$(cd "$2" && pwd)
else
	cache=$(mktemp -d)
	trap 'rm -rf "$cache"' EXIT
fi
shift $(($# < 2 ? $# : 2))

pins=$(cksum <"$here/requirements.txt")
if [ "$(cat "$cache/installed" 2>/dev/null)" != "$pins" ]; then
	rm -rf "$cache/venv" "$cache/installed"
	python3 -m venv "$cache/venv"
	# --no-deps: llm-guard would fetch torch, which nothing here uses
	"$cache/venv/bin/python" -m pip --quiet --disable-pip-version-check install --only-binary :all: --no-deps \
		--requirement "$here/requirements.txt"
	echo "$pins" >"$cache/installed" # last: what is half done is done again
fi
go -C "$here/gitleaks" build -buildvcs=false -o "$cache/gitleaks" .
go -C "$root" build -buildvcs=false -o "$cache/yett" ./scanners/testdata/peers/yett
go -C "$root" run ./scanners/pii -describe >"$cache/pii.json"
mkdir -p "$cache/home" # what a peer writes to its home stays there
HOME=$cache/home PYTHONDONTWRITEBYTECODE=1 "$cache/venv/bin/python" "$here/compare.py" "$data" "$cache" "$@"
