#!/usr/bin/env bash
# Tests that docs/reference is up to date with the programs' help.
source "$2/tests/end_to_end/common.sh"
MTF_PROGRAMS=$(dirname "$mtf_train") "$source_dir/tools/reference.sh" "$work/reference"
diff -r "$work/reference" "$source_dir/docs/reference" || fail "docs/reference is stale: tools/reference.sh writes it anew"
echo "reference_test: passed"
