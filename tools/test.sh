#!/usr/bin/env bash
# Builds everything and runs all tests. Arguments are passed to ctest: tools/test.sh -R Adafactor
# The first call creates build/python, an environment with the tests' Python packages (tests/requirements.txt).
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh tests
python=build/python
if ! cmp -s tests/requirements.txt $python/requirements.txt; then
  echo "test: installing the Python packages of tests/requirements.txt into $python"
  rm -rf $python
  python3 -m venv $python
  $python/bin/pip install --quiet --no-deps --requirement tests/requirements.txt
  cp tests/requirements.txt $python/requirements.txt
fi

tools/build.sh all
ctest --test-dir build --output-on-failure -j$(($(nproc) + 1)) "$@"  # some tests wait most of their time
