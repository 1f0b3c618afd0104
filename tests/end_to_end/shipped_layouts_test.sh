#!/usr/bin/env bash
# Tests that `layout: auto` finds layouts that are as fast as the shipped ones, on some of the shipped models; with `all` as
# third argument on all of them (shipped_layouts.py).
source "$2/tests/end_to_end/common.sh"

python3 "$source_dir/tests/end_to_end/shipped_layouts.py" "$mtf_train" "$source_dir" "${@:3}" || fail "a found layout is slower"
