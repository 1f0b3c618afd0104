#!/usr/bin/env bash
# Tests the pages of explain.format=html and run.mode=report in a real browser: scripts run without an error, the
# document has the rows that the numbers ask for, and something is drawn.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
models=$source_dir/configs/models
largest_page=2000000

browser=$(command -v chromium || true)
[ -n "$browser" ] || fail "there is no chromium, which opens the pages: tools/setup.sh tests installs it"

# open_page PAGE NAME: opens a page that must draw itself without any message in the console. Writes
# the document after its scripts to NAME.dom and a picture to NAME.png.
open_page() {
  local page=$1 name=$2
  [ "$(stat -c %s "$page")" -lt $largest_page ] || fail "$page has $(stat -c %s "$page") bytes"
  ! grep -qE '(src|href)="?(https?:)?//|@import|url\([^#]' "$page" || fail "$page refers to something outside"
  local run=("$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr --v=0
    --user-data-dir="$work/browser" --window-size=1000,700 --virtual-time-budget=5000)
  timeout 120 "${run[@]}" --dump-dom --screenshot="$work/$name.png" "file://$(realpath "$page")" > "$name.dom" 2> "$name.log" ||
    { cat "$name.log" >&2; fail "chromium cannot open $page"; }
  ! grep CONSOLE "$name.log" || fail "$page writes to the console"
  grep -q '<html[^>]*data-state="ready"' "$name.dom" || fail "$page did not draw itself: $(grep -o 'data-state="[a-z]*"' "$name.dom")"
  python3 - "$name.png" << 'END' || fail "the picture of $page is blank"
# Counts the colours of a PNG with 8 bits a channel and without interlacing, which Chromium writes.
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
at, idat = 8, b""
while at < len(data):
    length, kind = struct.unpack(">I4s", data[at : at + 8])
    if kind == b"IHDR":
        width, height, depth, colour = struct.unpack(">IIBB", data[at + 8 : at + 18])
    if kind == b"IDAT":
        idat += data[at + 8 : at + 8 + length]
    at += length + 12
assert depth == 8 and colour in (2, 6), (depth, colour)
channels = 3 if colour == 2 else 4
raw, stride, before, colours, drawn = zlib.decompress(idat), width * channels, bytes(width * channels), set(), 0
for y in range(height):
    kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
    for i in range(stride):
        a = line[i - channels] if i >= channels else 0
        b, c = before[i], before[i - channels] if i >= channels else 0
        if kind == 1:
            line[i] = line[i] + a & 255
        elif kind == 2:
            line[i] = line[i] + b & 255
        elif kind == 3:
            line[i] = line[i] + (a + b) // 2 & 255
        elif kind == 4:
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = line[i] + near & 255
    before = bytes(line)
    row = {before[x : x + 3] for x in range(0, stride, channels)}
    colours |= row
    drawn += len(row) > 1
print(f"{sys.argv[1]}: {width} x {height}, {len(colours)} colours, {drawn} rows with something in them")
assert len(colours) > 50 and drawn > height / 4
END
}

# count TEXT NAME: how often a text occurs in the document of a page.
count() { grep -oF -- "$1" "$2.dom" | wc -l; }
# expect_document NAME TEXT...: all texts must be in the document.
expect_document() {
  local name=$1 text
  shift
  for text; do grep -qF -- "$text" "$name.dom" || fail "$name: the document lacks: $text"; done
}

# An explanation: mesh, tensors, memory, collectives, time line.
mnist=("$mtf_train" "$models/mnist.yaml" "${data[@]}" train.batch_size=40 train.epochs=null)
explain=(run.mode=explain explain.format=html)
"${mnist[@]}" train.steps=3 mesh="rows:2;cols:4" layout="batch:rows;hidden:cols" "${explain[@]}" run.model_dir=new > mnist.html
[ ! -e new ] || fail "explain has written something"
open_page mnist.html mnist
[ "$(count 'data-position=' mnist)" = 8 ] || fail "not each of 8 positions is drawn"
expect_document mnist 'id="mesh"' 'id="memory"' 'id="time"' 'id="collectives"' 'id="tensors"' 'layer_1/kernel' \
  'rows=28 cols=28 hidden=1024' 'hidden: cols' 'optimizer slots' 'for a step' 'all_reduce' '814,090 weights' \
  'A training step of 40 examples on a mesh rows 2 × cols 4 of 8 positions'
[ "$(count 'class="tiling"' mnist)" -ge 20 ] || fail "the tilings are missing"

# The page draws the time that `explain` predicts at the same rates, here of a step with loops and waits.
rated=(train.steps=3 train.microbatches=4 mesh="rows:2;cols:4" layout="batch:rows;hidden:cols" run.mode=explain
  cluster.processes=4 "hardware={device: {flops: 3e10, bandwidth: 4e9, cores: 1, overhead: 2e-6}, links: [{bandwidth: 2e8, latency: 3e-5, core: 0.5}]}")
"${mnist[@]}" "${rated[@]}" explain.format=html > rated.html
open_page rated.html rated
"${mnist[@]}" "${rated[@]}" explain.format=json > rated.json
python3 - << 'END' || fail "the page draws another time than explain predicts"
import json, re
predicted = json.load(open("rated.json"))["prediction"]
text = re.sub("<[^>]*>", "", re.search('<p id="prediction">(.*?)</p>', open("rated.dom").read())[1])
units = {"s": 1, "ms": 1e-3, "µs": 1e-6}
drawn = [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (s|ms|µs)", text)]
wanted = [predicted[key] for key in ("seconds", "computing", "waiting", "sending")]
print(text)
assert len(drawn) == 4 and all(0 < b and abs(a - b) <= 6e-3 * b for a, b in zip(drawn, wanted)), (drawn, wanted)
END

# with_script PAGE SCRIPT: prints a page with a script at its end, which uses the page as a reader would.
with_script() { sed '/<\/body>/d; /<\/html>/d' "$1"; printf '<script nonce="page">\n{%s}\n</script>\n</body>\n</html>\n' "$2"; }

# A reader chooses a position, searches, sorts, enlarges a tiling and enters a rate.
with_script mnist.html '
  const tensors = document.querySelector("#tensors"), before = document.querySelector("#prediction").textContent;
  document.querySelectorAll(".cell")[6].dispatchEvent(new MouseEvent("click"));
  const search = tensors.querySelector("input[type=search]");
  search.value = "layer_1/ SLOT";
  search.dispatchEvent(new Event("input"));
  tensors.querySelectorAll("th button")[2].click();
  tensors.querySelector("button.tiling").click();
  const rate = document.querySelector("#time input");
  rate.value = "0.5";
  rate.dispatchEvent(new Event("input"));
  document.querySelector("button.theme").click();
  document.title = [tensors.querySelectorAll("tbody tr:not(.detail)").length, tensors.querySelectorAll("tr.detail").length,
    document.querySelectorAll("tr.detail .held").length, chosenPosition.join("/"), before !== document.querySelector("#prediction").textContent,
    tensors.querySelectorAll("th[aria-sort=ascending]").length, document.documentElement.dataset.theme].join(" ");' > used.html
open_page used.html used
expect_document used '<title>2 1 1 1/2 true 1 dark</title>'

# One position, with a loop over microbatches.
"${mnist[@]}" train.steps=3 train.microbatches=4 "${explain[@]}" > single.html
open_page single.html single
expect_document single 'One position: nothing is split' 'in 4 microbatches'
! grep -q 'id="collectives"' single.dom || fail "one position sends nothing"

# Names of users are texts, whatever they contain.
evil='<script>document.title="gotcha"</script><img src=x onerror=alert(1)>'
"${mnist[@]}" train.steps=3 mesh="{'$evil': 2}" layout="{batch: '$evil'}" "${explain[@]}" > evil.html
open_page evil.html evil
expect_document evil '&lt;script&gt;document.title="gotcha"' '<title>mnist'
! grep -q '<img src="\?x' evil.dom || fail "the name of a mesh dimension became markup"

# A Transformer of 175 billion parameters on 512 positions, and with variables that lie split over 64.
cp "$source_dir/tests/end_to_end/gpt3.yaml" .
"$mtf_train" gpt3.yaml "${explain[@]}" mesh="pod:2;rows:32;cols:8" layout="batch:[pod,rows];vocab:cols;d_ff:cols;heads:cols" > gpt3.html
open_page gpt3.html gpt3
expect_document gpt3 'block_*/layer_000/SelfAttention' '512 positions' '× 96' 'pod 1'
"$mtf_train" gpt3.yaml "${explain[@]}" mesh=all:64 layout=batch:all parameter_layout=d_model:all > fsdp.html
open_page fsdp.html fsdp
expect_document fsdp 'all_gather' 'reduce_scatter'

# A report of two runs, one of which was killed in the middle of a line.
expect_exit 0 "${mnist[@]}" train.steps=20 train.log_every=1 evaluate.every=5 run.model_dir=runs/one profile.steps=3 profile.skip=2
expect_exit 0 "${mnist[@]}" train.steps=12 train.log_every=1 evaluate.every=5 run.model_dir=runs/adam optimizer=adam \
  learning_rate=0.001 mesh=all:4 layout=batch:all
printf '{"step":13,"epoch":1.3,"lo' >> runs/adam/metrics.jsonl
mkdir -p runs/one/samples
cat > runs/one/samples/test.jsonl << END
{"dataset":"test","step":20,"example":3,"label":"boot","prediction":"bag","probability":0.75,"image":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="}
{"dataset":"test","step":20,"example":4,"input":"<script>alert(2)</script>","target":"a & b","prediction":"a b"}
END
expect_exit 0 "$mtf_train" runs/one runs/adam run.mode=report
expect_text "runs/one/report.html"
expect_text "of 2 runs"
open_page runs/one/report.html report
expect_document report 'data-metric="loss"' 'data-metric="test accuracy"' 'optimizer.type' 'adafactor' 'layout.batch' \
  'id="evaluations"' 'id="time"' 'einsum layer_1' 'boot' 'data:image/png;base64,' '&lt;script&gt;alert(2)' 'a &amp; b' \
  'class="curve"'
[ "$(count 'class="chart' report)" -ge 8 ] || fail "curves are missing"

# A reader changes the axis, smooths, and switches a run off.
with_script runs/one/report.html '
  const loss = document.querySelector("[data-metric=loss]"), curves = () => loss.querySelectorAll(".curve").length;
  const counts = [curves()];
  const set = (element, property, value, event) => { element[property] = value; element.dispatchEvent(new Event(event)); };
  for (const axis of ["time", "epoch"]) set(document.querySelector("#curves select"), "value", axis, "change");
  set(document.querySelector("#curves input[type=range]"), "value", "60", "input");
  counts.push(curves());
  const boxes = document.querySelectorAll("#curves input[type=checkbox]");
  set(boxes[0], "checked", true, "change");
  set(boxes[1], "checked", false, "change");
  counts.push(curves());
  const chart = loss.querySelector("svg");
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
  counts.push(document.getElementById("tip").textContent.split("\n").length);
  document.title = counts.join(" ");' > used-report.html
open_page used-report.html used_report
expect_document used_report '<title>2 4 2 2</title>'

# A run alone, written to another file, also by its configuration; and texts that a run has written.
printf 'Ein Haus\nam See\n' > written.txt
expect_exit 0 "$mtf_train" runs/adam run.mode=report report.output=alone.html report.samples=written.txt
open_page alone.html alone
expect_document alone 'Ein Haus' 'am See' '12'
expect_exit 0 "$mtf_train" runs/adam/config.yaml run.mode=report
[ -s runs/adam/report.html ] || fail "the report of a configuration is missing"

# A Transformer: its explanation, and a report with the texts that its evaluations have decoded. A run that goes on
# from an earlier step has each of them once.
made_up_pairs 1 200 train
made_up_pairs 2 12 dev
cat > translate.yaml << 'END'
data:
  train: {type: parallel, inputs: train.en, targets: train.de}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 48
  cache: cache
model:
  type: bitransformer
  d_model: 16
  positions: sinusoid
  layer_defaults:
    SelfAttention: {num_heads: 2, key_value_size: 8}
    EncDecAttention: {num_heads: 2, key_value_size: 8}
    DenseReluDense: {hidden_size: 32}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
optimizer: adam
learning_rate: 0.01
train: {steps: 20, batch_size: 8, log_every: 2}
evaluate:
  every: 10
  infer: {method: greedy, max_length: 20}
  datasets: {dev: {type: parallel, inputs: dev.en, targets: dev.de, metrics: [bleu, loss]}}
checkpoint: {every: 5}
END
expect_exit 0 "$mtf_train" translate.yaml "${explain[@]}" mesh="rows:2;cols:2" layout="batch:rows;heads:cols;d_ff:cols"
cp out translate.html
open_page translate.html translate
expect_document translate 'encoder/block_000/layer_000/SelfAttention' 'EncDecAttention' 'heads: cols' 'bitransformer'
code=0
MTF_FAULT=metrics.line@12 "$mtf_train" translate.yaml run.model_dir=runs/translate > out 2>&1 || code=$?
[ "$code" = 137 ] || { cat out >&2; fail "the run was not killed"; }
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=runs/translate
[ "$(wc -l < runs/translate/samples/texts.jsonl)" = 16 ] || fail "two evaluations have other than 8 texts each"
expect_exit 0 "$mtf_train" runs/translate run.mode=report
open_page runs/translate/report.html translation
expect_document translation "$(head -1 dev.en)" "$(head -1 dev.de)" 'dev, step 20, example 0' 'data-metric="dev bleu"'

# Mistakes.
mkdir empty
expect_exit 2 "$mtf_train" empty run.mode=report
expect_text "\`empty\` holds no run: it has no config.yaml"
[ "$(wc -l < out)" = 1 ] || fail "more than one line about a directory that is no run"
expect_exit 2 "$mtf_train" runs/one nothing run.mode=report
expect_text "is no directory of a run"
expect_exit 2 "$mtf_train" runs/one run.mode=report train.steps=3

# A million lines take bounded memory.
cp -r runs/one runs/long
awk 'BEGIN { for (i = 1; i <= 1000000; i++) printf "{\"step\":%d,\"time\":%.2f,\"loss\":%.6f,\"grad_norm\":%.4f}\n", i, i / 100, 2 / (1 + i / 1e5), 1 + i % 7 }' > runs/long/metrics.jsonl
python3 - "$mtf_train" runs/long run.mode=report << 'END' || fail "a report of a million lines takes too much"
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
megabytes, seconds = used.ru_maxrss * 1024 / 1e6, used.ru_utime + used.ru_stime
print(f"a million lines: {seconds:.1f} s, {megabytes:.0f} MB")
assert megabytes < 100 and seconds < 30
END
open_page runs/long/report.html long
expect_document long '1,000,000'
echo "html_test: passed"
