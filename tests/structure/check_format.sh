#!/usr/bin/env bash
# check_format.sh SOURCE_DIR: fails on sources that clang-format (the version of tests/requirements.txt) would change.
set -euo pipefail
cd "$1"
formatter=build/python/bin/clang-format
[ -x $formatter ] || { echo "there is no $formatter; tools/test.sh installs it"; exit 1; }
find engine data layers models trainer tools tests \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -P 2 -n 50 $formatter --dry-run -Werror
