#!/usr/bin/env bash
# Tests decoding and scoring with small models that are trained here: each method, format and source of lines;
# the choice of checkpoints; the same texts for any batch and any layout; equal log-probabilities of decoding
# and scoring.
source "$2/tests/end_to_end/common.sh"
use_python

# texts SEED LINES: prints sentences and, after a tab, their targets: each word reversed.
texts() {
  awk -v seed="$1" -v lines="$2" 'BEGIN {
    srand(seed)
    n = split("the a red small quiet old cat dog bird man river house sees finds likes paints stone window boat song", words, " ")
    for (i = 0; i < lines; i++) {
      given = wanted = ""
      for (left = 2 + int(rand() * 7); left > 0; left--) {
        word = words[1 + int(rand() * n)]
        back = ""
        for (c = length(word); c > 0; c--) back = back substr(word, c, 1)
        given = given (given ? " " : "") word
        wanted = wanted (wanted ? " " : "") back
      }
      print given "\t" wanted
    }
  }'
}
for set in "train 1 2000" "test 2 300"; do
  read -r name seed lines <<< "$set"
  texts "$seed" "$lines" > both
  cut -f 1 both > "$name.in"
  cut -f 2 both > "$name.out"
done

cat > translate.yaml << 'END'
data:
  train: {type: parallel, inputs: train.in, targets: train.out}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 32
  cache: cache
model:
  type: bitransformer
  d_model: 32
  max_length: 32
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 8}
    EncDecAttention: {num_heads: 4, key_value_size: 8}
    DenseReluDense: {hidden_size: 64}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
train: {steps: 400, batch_size: 16, log_every: 100, ema_decay: 0.9}
evaluate: {every: 200, datasets: {test: {type: parallel, inputs: test.in, targets: test.out}}}
checkpoint: {every: 100, keep_last: 3, keep_best: {metric: test/loss, count: 1}}
END
# With relative positions no text is too long.
cat > lm.yaml << 'END'
data:
  train: {type: text, path: train.in}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 32
  cache: cache
model:
  type: lm
  d_model: 32
  num_layers: 1
  positions: none
  block:
    - SelfAttention: {num_heads: 4, key_value_size: 8, relative_attention_type: bias}
    - DenseReluDense: {hidden_size: 64}
train: {steps: 150, batch_size: 16, log_every: 50}
checkpoint: {every: 150}
END
cat > prompted.yaml << 'END'
data:
  train: {type: parallel, inputs: train.in, targets: train.out, as: targets}
  vocabulary: bytes
  sequence_length: 64
  cache: cache
model:
  type: delimited_lm
  d_model: 32
  num_layers: 1
  max_length: 64
  input_full_attention: true
  loss_on_targets_only: true
  layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 8}, DenseReluDense: {hidden_size: 64}}
  block: [SelfAttention, DenseReluDense]
train: {steps: 300, batch_size: 16, log_every: 50}
checkpoint: {every: 300}
END
for model in translate lm prompted; do
  expect_exit 0 "$mtf_train" $model.yaml run.model_dir=$model
done

# infer MODEL ARGUMENT...: prints the generated texts; standard error is written to $work/said.
infer() {
  local model=$1
  shift
  "$mtf_train" "$model/config.yaml" run.mode=infer "$@" 2> "$work/said" || { cat "$work/said" >&2; fail "infer $model $*"; }
}
# score MODEL ARGUMENT...: prints the scores.
score() {
  local model=$1
  shift
  "$mtf_train" "$model/config.yaml" run.mode=score "$@" 2> "$work/said" || { cat "$work/said" >&2; fail "score $model $*"; }
}
# expect_same_file FILE FILE WHAT: the files must be equal.
expect_same_file() {
  cmp -s "$1" "$2" || { diff "$1" "$2" | head -n 5 >&2; fail "$3"; }
}
# expect_lines FILE NUMBER: the file must have NUMBER lines.
expect_lines() {
  [ "$(wc -l < "$1")" -eq "$2" ] || fail "$1 has $(wc -l < "$1") lines, not $2"
}

# ---- Lines in, lines out ----
infer translate infer.input=test.in > beam.txt
expect_lines beam.txt 300
grep -q "^step 400: 300 lines, .* tokens in .* lines/s, .* tokens/s$" said || fail "there is no report: $(cat said)"
grep -q "^warning: .* lines longer than the model has positions: cut$" said || fail "lines were cut in silence"
right=$(paste -d '\n' beam.txt test.out | awk 'NR % 2 { text = $0; next } text == $0 { n++ } END { print n + 0 }')
[ "$right" -ge 60 ] || fail "only $right of 300 texts are translated"
infer translate infer.input=test.in infer.output=file.txt > nothing
[ ! -s nothing ] || fail "standard output beside infer.output"
expect_same_file file.txt beam.txt "infer.output holds something else"
infer translate < test.in > piped.txt
expect_same_file piped.txt beam.txt "standard input gives something else"
gzip -k test.in
infer translate infer.input=test.in.gz > zipped.txt
expect_same_file zipped.txt beam.txt "a compressed file gives something else"
infer translate infer.input=<(cat test.in) > pipe.txt
expect_same_file pipe.txt beam.txt "a named pipe gives something else"
sed 's/$/\r/' test.in | head -c -2 > crlf.in
infer translate infer.input=crlf.in > crlf.txt
expect_same_file crlf.txt beam.txt "ends of lines of Windows, and none behind the last, give something else"
: > empty.in
infer translate infer.input=empty.in infer.output=empty.txt
[ -e empty.txt ] && [ ! -s empty.txt ] || fail "an empty file gives no empty file"
[ -z "$(ls ./*.part 2> /dev/null)" ] || fail "a temporary file is left"
# The result of an empty line is empty, and the other lines keep their places.
{ head -n 2 test.in; echo; echo "  "; sed -n 3,4p test.in; } > gaps.in
{ head -n 2 beam.txt; echo; echo; sed -n 3,4p beam.txt; } > gaps.expected
infer translate infer.input=gaps.in > gaps.txt
expect_same_file gaps.txt gaps.expected "empty lines move others"
expect_exit 0 "$mtf_train" translate/config.yaml run.mode=evaluate evaluate.infer.method=beam evaluate.output=measured \
  "evaluate.datasets.gaps={type: parallel, inputs: gaps.in, targets: gaps.expected, metrics: [ter]}"
expect_same_file "$(echo measured/evaluate/*/gaps.txt)" gaps.expected "an evaluation writes other texts for empty lines"
infer translate infer.input=gaps.in "infer.method={type: sample, samples: 3}" > gaps3.txt
expect_lines gaps3.txt 18
infer translate infer.input=gaps.in infer.n_best=2 | awk -F ' [|][|][|] ' 'NF != 3 { exit 1 }' || fail "n_best: a line without three fields"
# Control characters are accepted. A line that is not UTF-8 ends the run: of a file before anything is written, of standard
# input after the lines before it.
printf 'the cat\n\001\002\n \342\200\213\nthe\tcat\n' > odd.in
infer translate infer.input=odd.in infer.format=jsonl > odd.jsonl
expect_lines odd.jsonl 4
{ head -n 2 test.in; printf 'the \377 cat\n'; sed -n 3p test.in; } > latin.in
expect_exit 1 "$mtf_train" translate/config.yaml run.mode=infer infer.input=latin.in
expect_text 'latin.in: line 3: no UTF-8: byte \xff after 4 characters; convert it to UTF-8'
[ "$(wc -l < out)" -eq 1 ] || fail "more than an error: $(cat out)"
"$mtf_train" translate/config.yaml run.mode=infer < latin.in > started.txt 2> out && fail "a line that is no UTF-8 was translated"
expect_text 'standard input: line 3: no UTF-8: byte \xff after 4 characters; convert it to UTF-8'
head -n 2 beam.txt | cmp -s - started.txt || fail "the lines before one that is no UTF-8 have other texts"
"$mtf_train" translate/config.yaml run.mode=infer infer.output=started2.txt < latin.in 2> out && fail "an unfinished file is no error"
[ ! -e started2.txt ] || fail "an unfinished file was published"
infer prompted infer.input=odd.in infer.format=jsonl infer.echo=true infer.method=greedy infer.max_length=5 > odd2.jsonl
"$python" -c 'import json, sys; [json.loads(line) for name in sys.argv[1:] for line in open(name, encoding="utf-8")]' odd.jsonl odd2.jsonl
# Lines longer than the model's positions are cut, with a warning; relative positions have no limit.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "cat %s", i % 7 ? "" : "dog "; print ""; print "the cat sees the dog" }' > long.in
infer translate infer.input=long.in > long.txt
expect_lines long.txt 2
grep -q "^warning: 1 line " said || fail "a long line was cut in silence"
infer prompted infer.input=long.in > long.txt
expect_lines long.txt 2
infer lm infer.input=long.in infer.max_length=5 infer.echo=true > long.txt
! grep -q warning said || fail "a line was cut that need not be"
[[ "$(head -n 1 long.txt)" == "$(head -n 1 long.in | sed 's/ $//')"* ]] || fail "a long line does not come back"
# A line gets its answer before the next line is written: from standard input and a fifo, to standard output
# and a fifo.
coproc writer { "$mtf_train" translate/config.yaml run.mode=infer 2> /dev/null; }
process=$writer_PID  # the variable goes with the process
for line in 1 2 3; do
  sed -n ${line}p test.in >&"${writer[1]}"
  read -r -t 20 answer <&"${writer[0]}" || fail "line $line got no answer"
  [ "$answer" = "$(sed -n ${line}p beam.txt)" ] || fail "line $line got another answer: $answer"
done
exec {writer[1]}>&-
wait $process
mkfifo lines answers
"$mtf_train" translate/config.yaml run.mode=infer infer.input=lines infer.output=answers 2> /dev/null &
process=$!
exec 3> lines 4< answers
for line in 1 2; do
  sed -n ${line}p test.in >&3
  read -r -t 20 answer <&4 || fail "line $line of a fifo got no answer"
  [ "$answer" = "$(sed -n ${line}p beam.txt)" ] || fail "line $line of a fifo got another answer: $answer"
done
exec 3>&- 4<&-
wait $process
[ -p answers ] || fail "infer.output replaced a fifo"
infer translate infer.input=gaps.in infer.output=/dev/stdout | cmp -s - gaps.expected || fail "/dev/stdout as output"
[ -L /dev/stdout ] || fail "infer.output replaced a device"
touch linked
ln -s linked link
infer translate infer.input=gaps.in infer.output=link
[ -L link ] || fail "infer.output replaced a symbolic link"
expect_same_file linked gaps.expected "a symbolic link as output"

# ---- Methods ----
infer translate infer.input=test.in infer.method=greedy > greedy.txt
infer translate infer.input=test.in "infer.method={type: sample, temperature: 0}" > cold.txt
expect_same_file cold.txt greedy.txt "temperature 0 is not greedy"
infer translate infer.input=test.in "infer.method={type: sample, top_k: 1}" > one.txt
expect_same_file one.txt greedy.txt "top_k 1 is not greedy"
infer translate infer.input=test.in "infer.method={type: sample, top_p: 0.0001}" > small.txt
expect_same_file small.txt greedy.txt "a tiny top_p is not greedy"
for sampling in "" "temperature: 0.7" "top_k: 5" "top_p: 0.9" "temperature: 1.5, top_k: 20, top_p: 0.8"; do
  infer lm infer.input=test.in infer.max_length=12 "infer.method={type: sample, $sampling}" > sample.txt
  infer lm infer.input=test.in infer.max_length=12 "infer.method={type: sample, $sampling}" infer.batch_size=1 > sample1.txt
  expect_same_file sample.txt sample1.txt "samples depend on the batch: $sampling"
done
infer lm infer.input=test.in infer.max_length=12 infer.method=sample run.seed=2 > sample2.txt
! cmp -s sample.txt sample2.txt || fail "another seed draws the same"
infer lm infer.input=test.in infer.max_length=12 "infer.method={type: sample, samples: 3}" infer.format=jsonl > samples.jsonl
"$python" - << 'END'
import json
texts = [json.loads(line) for line in open("samples.jsonl")]
assert [(t["line"], t["rank"]) for t in texts] == [(line, rank) for line in range(300) for rank in range(3)]
different = sum(len({t["text"] for t in texts[i:i + 3]}) == 3 for i in range(0, 900, 3))
assert different > 100, different
END
infer translate infer.input=test.in "infer.method={type: sample, top_k: 50}" infer.format=jsonl > drawn.jsonl

# ---- Rules ----
# No piece twice in a row, and no end before the eighth, on any layout; texts end before "ints" or "dog".
for method in greedy beam "{type: sample, top_k: 20, frequency_penalty: 0.5, min_p: 0.01}"; do
  infer lm infer.input=test.in infer.max_length=24 infer.min_length=8 infer.no_repeat_ngram_size=2 "infer.method=$method" infer.format=jsonl > ruled.jsonl
  infer lm infer.input=test.in infer.max_length=24 infer.min_length=8 infer.no_repeat_ngram_size=2 "infer.method=$method" infer.format=jsonl \
    mesh=x:2 layout="batch:x" infer.batch_size=7 > ruled2.jsonl
  infer lm infer.input=test.in infer.max_length=24 infer.min_length=16 "infer.method=$method" > free.txt
  infer lm infer.input=test.in infer.max_length=24 infer.min_length=16 "infer.method=$method" "infer.stop=[ints, dog]" > stopped.txt
  "$python" - "$method" << 'END'
import json
import sys
for ruled, ruled2 in zip(open("ruled.jsonl"), open("ruled2.jsonl"), strict=True):
    text, text2 = json.loads(ruled), json.loads(ruled2)
    assert text["pieces"] == text2["pieces"], (text, text2)
    pieces = text["pieces"]
    pairs = list(zip(pieces, pieces[1:]))
    assert len(pairs) == len(set(pairs)), text
    assert "</s>" not in pieces[:8], text
stops = 0
for free, stopped in zip(open("free.txt"), open("stopped.txt"), strict=True):
    free, stopped = free.rstrip("\n"), stopped.rstrip("\n")
    assert "ints" not in stopped and "dog" not in stopped, stopped
    stops += len(stopped) < len(free)
    if sys.argv[1] != "beam":
        first = min(at for at in (free.find("ints"), free.find("dog"), len(free)) if at >= 0)
        assert stopped == free[:first], (stopped, free)
assert stops > 30, stops
END
done
# Tokens that stand in a text come again more often with a penalty below 1; a suppressed one is never written, on any layout.
for method in greedy beam; do
  some=(infer.input=test.in infer.max_length=24 "infer.method=$method" infer.format=jsonl)
  infer lm "${some[@]}" > free.jsonl
  piece=$("$python" -c 'import collections, json
print(collections.Counter(piece for line in open("free.jsonl") for piece in json.loads(line)["pieces"][:-1]).most_common(1)[0][0])')
  infer lm "${some[@]}" infer.repetition_penalty=0.01 > repeated.jsonl
  penalised=(infer.repetition_penalty=1.3 "infer.suppress_tokens=[\"$piece\"]")
  infer lm "${some[@]}" "${penalised[@]}" > penalised.jsonl
  infer lm "${some[@]}" "${penalised[@]}" mesh=x:2 layout="vocab:x" infer.batch_size=7 > penalised2.jsonl
  infer lm "${some[@]}" "infer.stop_tokens=[\"$piece\"]" > ended.jsonl
  infer lm "${some[@]}" "infer.stop_tokens=[\"$piece\"]" mesh=x:2 layout="vocab:x" infer.batch_size=7 > ended2.jsonl
  "$python" - "$piece" "$method" << 'END'
import json
import sys
free, repeated, penalised, split, ended, ended2 = (
    [json.loads(line) for line in open(name + ".jsonl")]
    for name in ("free", "repeated", "penalised", "penalised2", "ended", "ended2"))
assert [text["pieces"] for text in ended] == [text["pieces"] for text in ended2]
assert any(text["pieces"][-1] == sys.argv[1] for text in ended)
for text, other in zip(ended, free):
    pieces = text["pieces"]
    assert sys.argv[1] not in pieces[:-1], pieces
    if pieces[-1] == sys.argv[1]:
        assert sys.argv[1] not in text["text"], text
    if sys.argv[2] == "greedy":
        end = other["pieces"].index(sys.argv[1]) + 1 if sys.argv[1] in other["pieces"] else None
        assert pieces == other["pieces"][:end], (pieces, other["pieces"])
assert [text["pieces"] for text in penalised] == [text["pieces"] for text in split]
assert all(sys.argv[1] not in text["pieces"] for text in penalised)
def again(texts):
    return sum(len(text["pieces"]) - len(set(text["pieces"])) for text in texts) / sum(len(text["pieces"]) for text in texts)
assert again(repeated) > again(free), (again(repeated), again(free))
END
done
expect_exit 2 "$mtf_train" lm/config.yaml run.mode=infer infer.input=test.in "infer.suppress_tokens=[nothing like it]"
expect_text 'the vocabulary has no piece `nothing like it`'
expect_exit 2 "$mtf_train" lm/config.yaml run.mode=infer infer.input=test.in "infer.stop_tokens=[<|nothing|>]"
expect_text 'the vocabulary has no piece `<|nothing|>`'
cp test.in same.in
expect_exit 2 "$mtf_train" translate/config.yaml run.mode=infer infer.input=same.in infer.output=same.in
expect_text 'same.in is the file `infer.input`, which would be lost'
expect_exit 2 "$mtf_train" translate/config.yaml run.mode=infer "infer.input={type: text, path: same.in}" infer.output=same.in
expect_same_file same.in test.in "infer.output replaced infer.input"
for record in config.yaml metrics.jsonl log.txt checkpoints/mine.txt; do
  touch translate/$record
  expect_exit 2 "$mtf_train" translate/config.yaml run.mode=infer infer.input=test.in infer.output=translate/$record
  expect_text "$record is a file of the run"
done
rm translate/checkpoints/mine.txt
cp translate/config.yaml other.yaml
expect_exit 2 "$mtf_train" other.yaml run.model_dir=translate run.mode=infer infer.input=test.in infer.output=other.yaml
expect_text "other.yaml is a file of the configuration, which would be lost"
cp test.in ./-
infer translate infer.n_best=1 < test.in > dash.out
expect_same_file dash.out beam.txt "a file of the name - beside standard input and output"
rm ./-
infer translate infer.input=test.in infer.n_best=4 > nbest.txt
infer translate infer.input=test.in infer.n_best=4 infer.format=jsonl > nbest.jsonl
infer translate infer.input=test.in infer.n_best=4 infer.format=jsonl infer.length_penalty=0 > unpenalised.jsonl
infer translate infer.input=test.in infer.format=jsonl > beam.jsonl
# n_best of a method that draws is the number of its samples, each with its line and its score.
infer translate infer.input=test.in infer.method='{type: sample, top_k: 5, samples: 3}' > samples.txt
infer translate infer.input=test.in infer.method='{type: sample, top_k: 5}' infer.n_best=3 infer.batch_size=5 > drawn.txt
awk -F ' [|][|][|] ' 'NF != 3 || $1 != int((NR - 1) / 3) { exit 1 } { print $2 }' drawn.txt > drawn_texts.txt ||
  fail "n_best of samples: a line without its number or score"
expect_same_file samples.txt drawn_texts.txt "n_best and samples draw other texts"
# The end is forced at max_length: the last token costs nothing, and all texts end.
for method in greedy beam '{type: sample, top_k: 5}'; do
  cut=(infer.input=test.in infer.max_length=5 "infer.method=$method" infer.format=jsonl)
  infer translate "${cut[@]}" infer.force_end=true > forced_end.jsonl
  infer translate "${cut[@]}" infer.force_end=true mesh="x:2;y:2" layout="batch:x;vocab:y;heads:y" infer.batch_size=3 > forced_end4.jsonl
  infer translate "${cut[@]}" infer.max_length=4 > cut.jsonl
  "$python" - "$method" << 'END'
import json, sys
forced, split, cut = ([json.loads(line) for line in open(name + ".jsonl")] for name in ("forced_end", "forced_end4", "cut"))
assert len(forced) == len(split)
assert sum(text["pieces"] != other["pieces"] for text, other in zip(forced, split)) * 100 <= len(forced)  # rounding decides
full = 0
for text, other in zip(forced, cut):
    pieces = text["pieces"]
    if not pieces: continue  # of an empty line
    assert pieces[-1] == "</s>" and len(pieces) <= 5, text
    if len(pieces) == 5:
        full += 1
        assert text["log_probs"][-1] == 0, text
        assert sys.argv[1] == "beam" or pieces[:-1] == other["pieces"], (text, other)
assert full > 0
END
done
"$python" - << 'END'
import json, math
best = [line.rstrip("\n") for line in open("beam.txt")]
texts = [json.loads(line) for line in open("nbest.jsonl")]
lines = [line.rstrip("\n") for line in open("nbest.txt")]
assert len(lines) == len(texts)
before = None
for line, text in zip(lines, texts):
    number, written, score = line.split(" ||| ")
    assert int(number) == text["line"] and written == text["text"] and abs(float(score) - text["score"]) < 1e-4, line
    assert len(text["pieces"]) == len(text["log_probs"]) and abs(sum(text["log_probs"]) - text["log_prob"]) < 1e-4, text
    penalty = ((5 + len(text["pieces"])) / 6) ** 0.6
    assert abs(text["log_prob"] / penalty - text["score"]) < 1e-5, text
    if text["rank"] == 0:
        assert written == best[text["line"]], line
    else:
        assert text["rank"] == before["rank"] + 1 and text["pieces"] != before["pieces"], text
        ended = [t["pieces"][-1] == "</s>" for t in (before, text)]
        assert ended[0] or not ended[1], text
        assert text["score"] <= before["score"] or ended[0] != ended[1], text
    before = text
assert {text["line"] for text in texts} == set(range(300))
assert sum(text["pieces"][-1] == "</s>" for text in texts) > 0.95 * len(texts)
for text in map(json.loads, open("unpenalised.jsonl")):
    assert text["score"] == text["log_prob"], text
END

# ---- Lengths, beginnings ----
infer translate infer.input=test.in infer.max_length=3 infer.format=jsonl > short.jsonl
infer lm infer.input=test.in infer.max_length='{times: 0.5, plus: 1}' infer.method=sample infer.format=jsonl > relative.jsonl
infer lm infer.input=test.in infer.max_length=4 infer.method=greedy infer.echo=true > echo.txt
infer lm infer.input=test.in infer.max_length=4 infer.method=greedy > continued.txt
infer prompted infer.input=test.in infer.max_length=9 infer.method=greedy infer.format=jsonl > prompted.jsonl
sed 's/ .*//' test.out > begin
infer translate infer.input=test.in infer.prefix=begin > forced.txt
infer translate infer.input=test.in infer.prefix=<(sed 's/.*//' begin) > unforced.txt
expect_same_file unforced.txt beam.txt "empty beginnings change texts"
"$python" - << 'END'
import json
def load(name):
    return [json.loads(line) for line in open(name)]
assert max(len(text["pieces"]) for text in load("short.jsonl")) == 3
given = [json.loads(line) for line in open("relative.jsonl")]
assert len({len(text["pieces"]) for text in given}) > 4
assert max(len(text["pieces"]) for text in load("prompted.jsonl")) <= 9
lines = [line.rstrip("\n") for line in open("test.in")]
for line, echo, continued in zip(lines, open("echo.txt"), open("continued.txt")):
    assert echo.startswith(line) and echo[len(line):].strip() == continued.strip(), (line, echo, continued)
for begin, text in zip(open("begin"), open("forced.txt")):
    assert text.startswith(begin.rstrip("\n")), (begin, text)
END

# ---- Checkpoints ----
[ "$(echo translate/checkpoints/*)" = "$(echo translate/checkpoints/step-00000{2,3,4}00)" ] || fail "other checkpoints: $(ls translate/checkpoints)"
lines=(infer.input=gaps.in infer.format=jsonl)
for step in 200 300 400; do infer translate "${lines[@]}" infer.checkpoint=$step > at$step; done
! cmp -s at200 at400 || fail "another checkpoint writes the same"
infer translate "${lines[@]}" infer.checkpoint=latest | cmp -s - at400 || fail "latest is not step 400"
best=$("$python" -c 'import json; print(min(map(json.loads, open("translate/evaluate.jsonl")), key=lambda e: e["loss"])["step"])')
infer translate "${lines[@]}" infer.checkpoint=best | cmp -s - "at$best" || fail "best is not step $best"
infer translate "${lines[@]}" infer.checkpoint=translate/checkpoints/step-00000300 | cmp -s - at300 || fail "a path is not step 300"
infer translate "${lines[@]}" infer.checkpoint=all infer.output="all.{step}"
infer translate "${lines[@]}" "infer.checkpoint=[300, 200]" infer.output="two.{step}"
for step in 200 300 400; do expect_same_file all.$step at$step "all: step $step"; done
for step in 200 300; do expect_same_file two.$step at$step "list: step $step"; done
[ ! -e two.400 ] || fail "a list of two steps writes three files"
infer translate "${lines[@]}" "infer.checkpoint={average: 1}" | cmp -s - at400 || fail "the mean of one is not that one"
infer translate "${lines[@]}" "infer.checkpoint={average: 3}" > mean
grep -q "^the mean of 3 checkpoints up to step 400: " said || fail "the report does not name the mean"
"$python" - << 'END'
from safetensors.numpy import load_file, save_file
files = [load_file(f"translate/checkpoints/step-00000{step}/averages.safetensors") for step in (200, 300, 400)]
mean = {name: sum(f[name].astype("float64") for f in files) / 3 for name in files[0]}
mean = {name[:-len("/ema")]: value.astype("float32") for name, value in mean.items()}
save_file(mean, "mean.safetensors")
END
sed 's/ema_decay: .*/ema_decay: null/' translate/config.yaml > translate/plain.yaml
"$(dirname "$mtf_train")/mtf-convert" mean.safetensors by_hand --config translate/plain.yaml > out 2>&1 || { cat out; fail "no model of the mean"; }
cp translate/vocabulary.model by_hand
infer by_hand "${lines[@]}" > mean_by_hand
"$python" - << 'END'
import json
for a, b in zip(open("mean"), open("mean_by_hand"), strict=True):
    a, b = json.loads(a), json.loads(b)
    assert a["text"] == b["text"] and abs(a["score"] - b["score"]) < 1e-4, (a, b)
END
infer translate "${lines[@]}" train.ema_decay=null > raw
! cmp -s raw at400 || fail "the running means of the weights are not used"

# ---- Scores ----
"$python" - << 'END'
import json
for name in ("beam", "drawn", "prompted"):
    with open(name + ".texts", "w", encoding="utf-8") as texts:
        texts.writelines(json.loads(line)["text"] + "\n" for line in open(name + ".jsonl"))
END
score translate score.inputs=test.in score.targets=beam.texts score.per_token=true > beam.scored
score translate score.inputs=test.in score.targets=beam.texts > scored.txt
score translate score.inputs=<(cat test.in) score.targets=- score.output=scored2.txt < beam.texts
expect_same_file scored.txt scored2.txt "score from pipes"
score translate score.inputs=test.in score.targets=drawn.texts score.per_token=true > drawn.scored
score prompted score.inputs=test.in score.targets=prompted.texts score.per_token=true > prompted.scored
awk '{ print $1 }' test.in > heads
awk '{ $1 = ""; print substr($0, 2) }' test.in > tails
score lm score.targets=test.in score.per_token=true > whole.jsonl
score lm score.inputs=heads score.targets=tails score.per_token=true > tails.jsonl
score lm score.inputs=<(sed 's/.*//' test.in) score.targets=test.in > from_nothing.txt
score lm score.targets=test.in > whole.txt
expect_close from_nothing.txt whole.txt 1e-5
score lm score.targets=long.in > long_score.txt
expect_lines long_score.txt 2
score prompted score.inputs=long.in score.targets=long.in > long_score.txt
grep -q "^warning: 1 line " said || fail "a long line was cut in silence"
"$python" - << 'END'
import json
def load(name):
    return [json.loads(line) for line in open(name)]
def compare(written, scored, least):
    same = 0
    for a, b in zip(written, scored, strict=True):
        assert a["line"] == b["line"]
        assert abs(sum(b["log_probs"]) - b["log_prob"]) < 1e-5 * max(1, abs(b["log_prob"]))
        if a["pieces"] == b["pieces"]:  # the text can be cut into other pieces than it was written with
            same += 1
            assert abs(a["log_prob"] - b["log_prob"]) <= 1e-5 * max(1, abs(b["log_prob"])), (a, b)
    assert same >= least, same
compare(load("beam.jsonl"), load("beam.scored"), 270)
compare(load("drawn.jsonl"), load("drawn.scored"), 50)
compare(load("prompted.jsonl"), load("prompted.scored"), 20)
for text, number in zip(load("beam.scored"), open("scored.txt"), strict=True):
    assert abs(float(number) - text["log_prob"]) <= 1e-6 * max(1, abs(text["log_prob"]))
# Only the continuation, the last tokens of the whole line, is scored.
for whole, tail in zip(load("whole.jsonl"), load("tails.jsonl"), strict=True):
    n = len(tail["pieces"])
    assert 0 < n < len(whole["pieces"]) and tail["pieces"] == whole["pieces"][-n:], (whole, tail)
    assert all(abs(a - b) < 1e-4 for a, b in zip(whole["log_probs"][-n:], tail["log_probs"])), (whole, tail)
END

# ---- The same texts for any batch and on any layout ----
cat > compare_texts.py << 'END'
import json, sys
total = different = 0
for a, b in zip(open(sys.argv[1]), open(sys.argv[2]), strict=True):
    a, b = json.loads(a), json.loads(b)
    assert a["line"] == b["line"], (a, b)
    total += 1
    if a["text"] != b["text"]:
        different += 1
        assert abs(a["score"] - b["score"]) < 1e-4, (a, b)
print(total, different)
END
infer lm infer.input=test.in infer.max_length=12 infer.method=sample infer.format=jsonl > sample.jsonl
while read -r arguments; do
  infer translate infer.input=test.in infer.format=jsonl run.check_replicas=true $arguments > other.jsonl
  "$python" compare_texts.py beam.jsonl other.jsonl >> compared || fail "other texts: $arguments"
  infer lm infer.input=test.in infer.max_length=12 infer.method=sample infer.format=jsonl $arguments > other.jsonl
  "$python" compare_texts.py sample.jsonl other.jsonl >> compared || fail "other samples: $arguments"
  score translate score.inputs=test.in score.targets=beam.texts $arguments > other.txt
  expect_close other.txt scored.txt 1e-3
done << 'END'
infer.batch_size=1
infer.batch_size=7
mesh=x:2 layout=batch:x
mesh=x:2 layout=heads:x;d_ff:x;vocab:x
mesh=x:2 layout=heads:x;d_ff:x;vocab:x infer.batch_size=1
mesh=x:2;y:2 layout=batch:x;heads:y;d_ff:y;vocab:y
mesh=x:8 layout=batch:x
mesh=x:2 layout=batch:x parameter_layout=d_model:x
mesh=x:2 layout=length:x;memory_length:x
mesh=x:2 layout=d_model:x
END
awk '{ total += $1; different += $2 } END { print total " texts compared, " different " differ"; exit !(total == 6000 && different * 1000 < total) }' compared ||
  fail "too many texts differ"

# Where texts are split between processes, others enter a batch as some end.
for processes in 2 3; do
  "$(dirname "$mtf_train")/mtf-launch" -n $processes -- "$mtf_train" translate/config.yaml run.mode=infer infer.input=test.in infer.format=jsonl \
    infer.output=entered.jsonl mesh=x:$processes layout=batch:x infer.batch_size=$((8 * processes)) 2> said || fail "$processes processes: $(cat said)"
  "$python" compare_texts.py beam.jsonl entered.jsonl > entered || fail "other texts from $processes processes"
  read -r total different < entered
  [ "$total" = 300 ] && [ "$different" -le 3 ] || fail "$processes processes: $different of $total texts differ"
  rm entered.jsonl
done

# Low-rank updates are read with their kernels, of which decoding and scoring have copies.
expect_exit 0 "$mtf_train" lm.yaml run.model_dir=lora train.steps=2 checkpoint.every=2 \
  "model.layer_defaults={SelfAttention: {lora: {rank: 2, kernels: [q, v, o]}}, DenseReluDense: {lora: {rank: 2}}}"
head -n 20 test.in > some.in
for precision in same bfloat16 int8; do
  infer lora infer.input=some.in infer.max_length=4 precision.infer=$precision > written
  [ "$(wc -l < written)" = 20 ] || fail "precision.infer=$precision: $(wc -l < written) lines of 20"
  score lora score.targets=some.in precision.infer=$precision > scores
  [ "$(wc -l < scores)" = 20 ] || fail "precision.infer=$precision: $(wc -l < scores) scores of 20"
done

# A link to a file that is not there yet stays a link.
ln -s linked.txt link.txt
infer lm infer.input=some.in infer.max_length=4 infer.output=link.txt
[ -L link.txt ] && [ "$(wc -l < linked.txt)" = 20 ] || fail "the target of a link was not written"
