#!/usr/bin/env bash
# Tests errors in configurations, data and other files: each ends the run at once with exactly the expected
# message, and nothing is written. The cases are in errors/*.txt:
#
#   === What is wrong
#   --- run.yaml                        a file of the case; toy.yaml and images.yaml always exist
#   include: toy.yaml
#   $ mtf-train run.yaml train.stepz=5  the command, after commands that make files; by default mtf-train run.yaml
#   --- exit 2
#   argument 2: ...                     the complete output of the program
#
# With --accept as third argument the messages of the program replace those in errors/*.txt (review the
# difference).
source "$2/tests/end_to_end/common.sh"
accept=${3:-}
slowest_allowed=500  # milliseconds; 200 of them are for telling other processes
cases=0 slowest=0 slowest_case="" failed=0

# idx_images COUNT ROWS COLS: prints an IDX file of black images.
idx_images() {
  big_endian 2051; big_endian "$1"; big_endian "$2"; big_endian "$3"
  head -c $(($1 * $2 * $3)) /dev/zero
}

# idx_labels LABEL...: prints an IDX file of these labels.
idx_labels() {
  big_endian 2049; big_endian $#
  printf "$(printf '\\x%02x' "$@")"
}

# a_run: trains two steps of toy.yaml in the directory `run`.
a_run() { mtf-train toy.yaml run.model_dir=run > /dev/null 2>&1; }

# a_text_run ARGUMENT...: trains two steps of texts.yaml, a model that generates texts, in the directory
# `run`.
a_text_run() {
  printf 'one\ntwo\n' | tee train.en > train.de
  mtf-train texts.yaml run.model_dir=run "$@" > /dev/null 2>&1
}

# flip_byte FILE OFFSET: inverts the bits of a byte.
flip_byte() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf %02x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

mtf-train() { timeout 20 "$mtf_train" "$@"; }

# Lists everything below the working directory, with size and modification time.
listing() { find . -mindepth 1 -printf '%p %s %T@ %C@\n' | sort; }

# Runs the current case: title, files, commands, expected_code, expected.
run_case() {
  local begin end code before command
  rm -rf "$work/case" && mkdir "$work/case" && cd "$work/case"
  cp "$source_dir"/tests/end_to_end/errors/*.yaml .
  local name
  for name in "${!files[@]}"; do
    mkdir -p "$(dirname "$name")"
    printf %s "${files[$name]}" > "$name"
  done
  [ ${#commands[@]} -gt 0 ] || commands=("mtf-train run.yaml")
  for command in "${commands[@]:0:${#commands[@]}-1}"; do
    (set +e +o pipefail && eval "$command") < /dev/null  # `head` closes its pipe
  done
  before=$(listing)
  local took attempt
  for attempt in 1 2 3 4 5 6 7 8; do  # a case that a busy machine delays is repeated
    code=0
    begin=${EPOCHREALTIME/./}
    eval "${commands[-1]}" < /dev/null > "$work/out" 2>&1 || code=$?  # the standard input here is the file of cases
    end=${EPOCHREALTIME/./}
    took=$(((end - begin) / 1000))
    [ $took -gt $slowest_allowed ] || break
    sleep 0.$attempt
  done
  if [ $took -gt $slowest ]; then slowest=$took slowest_case=$title; fi
  actual=$(cat "$work/out")
  cases=$((cases + 1))
  [ "$code" -eq "$expected_code" ] || report "exit code $code, not $expected_code"
  [ "$(listing)" = "$before" ] || report "it has written something: $(diff <(echo "$before") <(listing) || true)"
  [ $took -le $slowest_allowed ] || report "it took $took ms"
  [ -n "$accept" ] || [ "$actual" = "$expected" ] ||
    report "the message is not the one expected (-: expected, +: given)
$(diff -u <(echo "$expected") <(echo "$actual") | tail -n +4)"
  cd "$work"
}

report() {
  echo "FAIL: $file: $title: $1" >&2
  failed=$((failed + 1))
}

# Ends a case: runs it; with --accept rewrites its expected part.
end_case() {
  [ -n "$title" ] || return 0
  expected=${expected%"${expected##*[!$'\n']}"}
  run_case
  [ -z "$accept" ] || printf '%s\n\n' "$actual" >> "$work/accepted"
}

# read_cases FILE: reads and runs all cases of a file.
read_cases() {
  local line section=""
  file=$(basename "$1") title=""
  : > "$work/accepted"
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      "=== "*)
        end_case
        title=${line#=== } section="" expected="" commands=() files=() expected_code=2
        ;;
      "--- exit "*) section=expected expected_code=${line#--- exit } ;;
      "--- "*) section=${line#--- } files[$section]="" ;;
      "\$ "*) [ "$section" = expected ] || { section="" && commands+=("${line#\$ }"); } ;;
      *)
        if [ "$section" = expected ]; then
          expected+=$line$'\n'
          continue  # not into the accepted text
        elif [ -n "$section" ]; then
          files[$section]+=$line$'\n'
        fi
        ;;
    esac
    printf '%s\n' "$line" >> "$work/accepted"
  done < "$1"
  end_case
  [ -z "$accept" ] || sed '$d' "$work/accepted" > "$1"
}

declare -A files
commands=()
for path in "$source_dir"/tests/end_to_end/errors/*.txt; do
  read_cases "$path"
done
echo "$cases mistakes; the slowest message took $slowest ms: $slowest_case"
[ $failed -eq 0 ] || fail "$failed of $cases cases"
