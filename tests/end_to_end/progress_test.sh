#!/usr/bin/env bash
# Tests the progress of a run: on a terminal of any width a bar with step, loss, speed and time left, which is
# removed at the end; elsewhere plain lines.
source "$2/tests/end_to_end/common.sh"
use_python
run=("$mtf_train" "$source_dir/configs/models/toy.yaml" train.time=2s train.steps=null)
terminal=("$python" "$source_dir/tests/end_to_end/terminal.py")
export TERM=xterm

expect_drawings() {  # at least $1 lines match the extended regular expression $2
  [ "$(grep -cE "$2" out)" -ge "$1" ] || { cat out >&2; fail "not $1 lines are like $2"; }
}

# With a known number of steps the bar grows.
expect_exit 0 "${terminal[@]}" 120 "${run[@]}" train.time=null train.steps=20000 run.model_dir=known
expect_drawings 1 '^bar 120: \[[#.]{20,40}\] step [0-9]+/20000  epoch [0-9.]+  loss [0-9.]+  [0-9,]+ examples/s  .+ left$'
expect_drawings 1 '^erased$'
[ "$(tail -n 1 out | grep -c '^bar')" = 0 ] || fail "the bar is left standing"
expect_text "finished after train.steps = 20000"

# Without it the line has no bar.
expect_exit 0 "${terminal[@]}" 120 "${run[@]}" run.model_dir=unknown
expect_drawings 5 '^bar 120: step [0-9]+  epoch [0-9.]+  loss [0-9.]+  [0-9,]+ examples/s  .+ left$'
expect_drawings 1 '^erased$'

# On a narrow terminal whose width changes all the time every drawing fits.
expect_exit 0 "${terminal[@]}" 20 "${run[@]}" run.model_dir=narrow
expect_drawings 5 '^bar 20: step [0-9]+'
expect_exit 0 "${terminal[@]}" 120,20,60,3 "${run[@]}" train.time=4s run.model_dir=changing
for width in 120 20 60 3; do expect_drawings 1 "^bar $width: "; done

# A terminal that cannot erase, a pipe and a file get lines.
expect_lines() {  # FILE
  ! grep -q $'\r\|\033' "$1" || fail "$1 has carriage returns or escape sequences"
  grep -qE '^step [0-9]+  epoch [0-9.]+  loss [0-9.]+  [0-9,]+ examples/s  .+ left$' "$1" || { cat "$1" >&2; fail "$1 has no progress"; }
}
expect_exit 0 env TERM=dumb "${terminal[@]}" 80 "${run[@]}" run.model_dir=dumb
expect_lines out
expect_exit 0 env -u TERM "${terminal[@]}" 80 "${run[@]}" run.model_dir=unset
expect_lines out
"${run[@]}" run.model_dir=pipe 2>&1 | cat > pipe.txt
expect_lines pipe.txt
expect_exit 0 "${run[@]}" run.model_dir=file
expect_lines out
! grep -q $'\r\|\033' known/log.txt file/log.txt || fail "log.txt has carriage returns or escape sequences"
