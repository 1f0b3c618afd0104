#!/usr/bin/env bash
# Tests that mtf-bleu behaves like sacreBLEU: the same reports on random text, all kinds of files, errors,
# speed.
source "$2/tests/end_to_end/common.sh"
use_python
mtf_bleu=$(dirname "$mtf_train")/mtf-bleu
golden=$source_dir/tests/golden/11_sacrebleu

# On random Unicode text every printed character is the same.
mkdir random
(cd random && "$python" "$source_dir/tests/end_to_end/compare_with_sacrebleu.py" "$mtf_bleu" 20) ||
  fail "mtf-bleu and sacreBLEU differ"

# The output is read from standard input or gzip; there may be several references.
tr '\t' ' ' < "$golden/hyp.txt" > out.de
gzip -kc out.de > out.de.gz
gzip -kc "$golden/ref0.txt" > ref0.gz
bleu() { "$mtf_bleu" "$@" -b -w 4; }
[ "$(bleu "$golden/ref0.txt" < out.de)" = 62.3125 ] || fail "BLEU from standard input"
[ "$(bleu ref0.gz -i out.de.gz)" = 62.3125 ] || fail "BLEU of gzip files"
[ "$(bleu "$golden/ref0.txt" "$golden/ref1.txt" "$golden/ref2.txt" -i out.de)" = 64.0370 ] || fail "three references"
printf 'one two three four\tfive six seven eight\n' > columns
printf 'five six seven eight\n' > column
[ "$(bleu columns -nr 2 -i column)" = 100.0000 ] || fail "references in columns"
[ "$("$mtf_bleu" "$golden/ref0.txt" -i out.de -sl -b | wc -l)" -eq 230 ] || fail "a score per sentence"
SACREBLEU_FORMAT=text "$mtf_bleu" "$golden/ref0.txt" -i out.de | grep -q "^BLEU|nrefs:1|" ||
  fail "format from the environment"

# Files of the WMT shared tasks are read.
printf '<refset>\n<doc>\n<seg id="1">Guten  Tag!</seg>\n<seg id="2">Ja &amp; nein.</seg>\n</doc>\n</refset>\n' > ref.sgm
cat > both.xml <<'XML'
<dataset id="t"><doc id="1" origlang="en">
<src lang="en"><p><seg id="1">Good day!</seg><seg id="2">Yes &amp; no.</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Guten Tag!</seg><seg id="2">Ja &amp; nein.</seg></p></ref>
<hyp system="ours"><p><seg id="1">Guten Tag!</seg><seg id="2">Ja &amp; nein.</seg></p></hyp></doc></dataset>
XML
printf 'Guten Tag!\nJa & nein.\n' > translated
for reference in ref.sgm both.xml; do
  for output in translated both.xml; do
    [ "$(bleu $reference -i $output)" = 100.0000 ] || fail "$output against $reference"
  done
done

# Errors print one line and give exit code 2, or 1 if a file is the cause.
expect_mistake() {  # CODE TEXT ARGUMENT...
  local code=$1 text=$2
  shift 2
  expect_exit "$code" "$mtf_bleu" "$@" < /dev/null
  expect_text "$text"
  [ "$(wc -l < out)" -eq 1 ] || fail "more than one line: $*"
}
head -n 100 out.de > short.de
expect_mistake 2 "short.de has 100 lines, $golden/ref0.txt has 230" "$golden/ref0.txt" -i short.de
expect_mistake 2 "standard input has 0 lines" "$golden/ref0.txt"
expect_mistake 2 "https://statmt.org/wmt14/" -t wmt14 -l en-de
expect_mistake 1 "cannot read missing.de" missing.de
{ head -n 3 out.de; printf 'gr\374n\n'; } > latin1.de
expect_mistake 1 "latin1.de: line 4: no UTF-8" latin1.de
printf 'a\tb\na\n' > systems
expect_exit 2 "$mtf_bleu" systems < systems
expect_text "standard input: line 2 has 1 outputs, line 1 has 2"
expect_mistake 2 "a paired test compares systems; there is one" out.de -i out.de -pbs
expect_mistake 2 "--confidence is for one system" "$golden/ref0.txt" -i out.de "$golden/ref1.txt" -ci
expect_mistake 2 "--input names out.de twice" out.de -i out.de out.de
expect_mistake 2 "-tok flores200: its model is not here; download https://" out.de -i out.de -tok flores200
expect_mistake 2 "need references that say where they are from" out.de -i out.de --origlang en

# Memory is bounded for a line of 2 GB, which gzip compresses to 2 MB, and for a line for which ter once took
# 2 GB.
head -c 200000000 /dev/zero | gzip -1 > bomb.gz
for ((i = 0; i < 9; i++)); do cat bomb.gz; done > bombs.gz
(ulimit -v 1000000 && expect_mistake 1 "bombs.gz: line 1: longer than 67108864 bytes" bombs.gz -i out.de)
(ulimit -v 1000000 && expect_exit 1 "$mtf_bleu" out.de < /dev/zero && expect_text "standard input: line 1: longer than 67108864 bytes")
(ulimit -v 1000000 && expect_exit 1 "$mtf_bleu" out.de -i out.de --max-line-bytes 100 && expect_text "longer than 100 bytes")
seq 16000 | tr '\n' ' ' > long.ref
seq 2 16001 | tr '\n' ' ' > long.out
(ulimit -v 200000 && [ "$("$mtf_bleu" long.ref -i long.out -m ter -b -w 4)" = 0.0125 ]) || fail "TER of 16,000 words"

# Tokenised output gives a warning, except with --force.
printf 'It is so .\n%.0s' {1..100} > tokenised
expect_exit 0 "$mtf_bleu" tokenised -i tokenised
expect_text "warning: 100 lines of tokenised end in"
expect_exit 0 "$mtf_bleu" tokenised -i tokenised --force
! grep -q warning out || fail "a warning in spite of --force"

# BLEU of 23,000 lines is fast; sacreBLEU takes seconds.
for ((i = 0; i < 100; i++)); do cat out.de; done > many.de
for ((i = 0; i < 100; i++)); do cat "$golden/ref0.txt"; done > many.ref
seconds_of() { local TIMEFORMAT=%U; { time "$@" > /dev/null 2>&1; } 2>&1; }
ours=$(seconds_of "$mtf_bleu" many.ref -i many.de)
theirs=$(seconds_of "$python" -m sacrebleu many.ref -i many.de)
echo "BLEU of 23,000 lines: $ours s, sacreBLEU $theirs s"
awk -v ours="$ours" -v theirs="$theirs" 'BEGIN { exit !(theirs > 5 * ours) }' || fail "not faster than sacreBLEU"
