#!/usr/bin/env bash
# Builds the release programs into build/bin/, after installing missing packages. `tools/build.sh all` also
# builds the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release --target "${1:-programs}"
echo "build: the programs are in $PWD/build/bin"
