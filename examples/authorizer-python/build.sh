#!/usr/bin/env bash
# Makes one executable file of the plugin: build.sh [OUTPUT], by default amounts-python.pyz in this folder.
# YETT_PYTHON names a Python (3.10 or later) with what requirements.txt lists; without it a virtual environment is made in .venv,
# which needs the network. The file names that Python in its first line: it runs where that Python is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
proto=$here # where a project of its own has it
[ -f "$proto/plugin.proto" ] || proto=$here/../../sdk/proto/v1
out=${1:-$here/amounts-python.pyz}
python=${YETT_PYTHON:-}
if [ -z "$python" ]; then
	[ -x "$here/.venv/bin/python" ] || python3 -m venv "$here/.venv"
	python=$here/.venv/bin/python
	"$python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
python=$(command -v "$python")
if [ ${#python} -gt 110 ] || [[ $python != /* ]]; then
	echo "build.sh: $python: must be an absolute path of at most 110 bytes, for the first line of the file" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/app"
cp "$here/authorizer.py" "$here/yett_plugin.py" "$work/app/"
printf 'import authorizer\n\nauthorizer.main()\n' >"$work/app/__main__.py"
"$python" -m grpc_tools.protoc -I "$proto" --python_out="$work/app" --grpc_python_out="$work/app" "$proto/plugin.proto"
"$python" -m zipapp "$work/app" --output "$work/plugin.pyz" --python "$python -I"
chmod 0755 "$work/plugin.pyz"
mv "$work/plugin.pyz" "$out"
