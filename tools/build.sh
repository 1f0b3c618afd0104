#!/usr/bin/env bash
# Builds the release programs into build/bin/, after installing what is missing. Further arguments go to `cmake --build`.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release "$@"
echo "build: the programs are in $PWD/build/bin"
