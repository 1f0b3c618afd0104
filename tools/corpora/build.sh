#!/usr/bin/env bash
# Makes the corpora that configs/data reads from the documentation in Debian 12 packages: build.sh [ende|enfr|english]...
# The default is ende and english. MORE=1 adds 350 MB of packages with 30 % more pairs, and more English.
#
#   corpora/ende/{train,dev,test}.en-de.{en,de}     89,000 pairs of sentences (MORE=1: 118,000), 2,000 each for dev and test
#   corpora/enfr/{train,dev,test}.en-fr.{en,fr}     88,000 pairs
#   corpora/english/{train,valid,test}.txt          387,000 sentences, a blank line between documents
#
# The packages are kept in corpora/packages and reused by the next call. A corpus takes one to three minutes.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
cd "$here/../.."

corpora=("$@")
[ ${#corpora[@]} -gt 0 ] || corpora=(ende english)
groups=(core)
[ -z "${MORE:-}" ] || groups+=(more)
for corpus in "${corpora[@]}"; do
  case $corpus in
    ende | enfr) ;;
    english) groups+=(english) ;;
    *) sed -n '2,3s/^# //p' "$0" >&2 && exit 2 ;;
  esac
done

bash "$here/fetch.sh" corpora/packages "${groups[@]}"
for corpus in "${corpora[@]}"; do
  echo "corpora: data/$corpus"
  case $corpus in
    ende) python3 "$here/build_parallel.py" corpora/packages/tree corpora/ende ;;
    enfr) python3 "$here/build_parallel.py" corpora/packages/tree corpora/enfr --language fr ;;
    english) python3 "$here/build_english.py" corpora/packages/tree corpora/english ;;
  esac
done
