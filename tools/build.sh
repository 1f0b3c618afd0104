#!/usr/bin/env bash
# Builds the release programs into build/bin/, after installing what is missing. `tools/build.sh all` builds the tests too.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release --target "${1:-programs}"
echo "build: the programs are in $PWD/build/bin"
