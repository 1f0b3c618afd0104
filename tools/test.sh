#!/usr/bin/env bash
# Builds everything and runs all tests. Arguments go to ctest: tools/test.sh -R Adafactor
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh all
ctest --test-dir build --output-on-failure -j2 "$@"
