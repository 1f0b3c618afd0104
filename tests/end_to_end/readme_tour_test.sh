#!/usr/bin/env bash
# Tests the tours of README.md and docs/tour.md and the examples of some other pages: every command of their
# console blocks is run, in this order, and must print the lines shown there. Numbers and times may differ;
# `...` stands for any lines; progress lines are not compared. The console blocks of a page share a directory.
source "$2/tests/end_to_end/common.sh"

# words FILE: prints its lines without progress, with each number as N and durations as T.
words() {
  grep -v '^step [0-9]' "$1" | sed -E 's/[0-9]+ (h|min) [0-9]+ (min|s)\b/T/g; s/[0-9][0-9.,]* (ms|s)\b/T/g
    s/-?[0-9][0-9.,]*([eE][-+]?[0-9]+)?/N/g; s/\b(B|KB|MB|GB|MFLOP|GFLOP)\b/U/g; s/\bN thread\b/N threads/; s/[-─═]{3,}/-/g; s/ +/ /g; s/ $//'
}

# expect_lines EXPECTED ACTUAL: the lines must be the same, where `...` in EXPECTED stands for any number of
# lines.
expect_lines() {
  awk -v page="$page" '
    FNR == NR { expected[++wanted] = $0; next }
    { actual[++given] = $0 }
    END {
      at = 1
      for (i = 1; i <= wanted; i++) {
        if (expected[i] == "...") { skipping = 1; continue }
        while (skipping && at <= given && actual[at] != expected[i]) at++
        if (at > given || actual[at] != expected[i]) { print "expected: " expected[i] "\nprinted:  " actual[at]; exit 1 }
        at++
        skipping = 0
      }
      if (!skipping && at <= given) { print "not in " page ": " actual[at]; exit 1 }
    }' "$1" "$2"
}

run_command() {
  [ -n "$command" ] || return 0
  # shellcheck disable=SC2086
  bash -c "$command" > printed 2>&1 < /dev/null || true
  words printed > printed.words
  words expected > expected.words
  expect_lines expected.words printed.words || { cat printed >&2; fail "$page does not tell what this prints: $command"; }
  commands=$((commands + 1))
  command=
}

# run_page PAGE COMMANDS: runs the console blocks of PAGE, which must have at least COMMANDS commands.
run_page() {
  local line commands=0 command='' continued=''
  page=$1
  mkdir -p "$work/$page/build"
  cd "$work/$page"
  ln -s "$(dirname "$mtf_train")" build/bin
  ln -s "$source_dir/configs" configs
  while IFS= read -r line; do
    if [ -n "$continued" ]; then
      command+=$'\n'$line
    elif [[ $line == '$ '* ]]; then
      run_command
      command=${line#'$ '}
      : > expected
    else
      printf '%s\n' "$line" >> expected
      continue
    fi
    continued=$([[ $line == *\\ ]] && echo yes || true)
  done < <(awk '/^```console/ { inside = 1; next } /^```/ { inside = 0 } inside' "$source_dir/$page")
  run_command
  [ "$commands" -ge "$2" ] || fail "only $commands commands were found in $page"
  echo "$page: $commands commands"
}

run_page README.md 6
run_page docs/tour.md 10
run_page docs/configuration.md 2
run_page docs/layouts.md 1
run_page docs/experts.md 1
run_page docs/processes.md 3
