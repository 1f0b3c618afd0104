#!/usr/bin/env bash
# Tests runs over images, tables and arrays: data.split, what a run keeps of its data, the store of decoded images, and
# that several processes, other layouts and other threads give the same results.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"

# Tables of two kinds of flowers, of houses, and PNG files of two colours.
python3 - << 'END'
import os, random, struct, zlib
random.seed(1)
with open("iris.csv", "w") as f:
    f.write("length,width,color,species\n")
    for i in range(200):
        k = random.randrange(3)
        color = random.choice(["red", "blue"])
        f.write(f"{5 + k + random.gauss(0, .4):.3f},{3 - k + random.gauss(0, .4):.3f},{color},{['setosa', 'virginica', 'versicolor'][k]}\n")
with open("houses.jsonl", "w") as f:
    for i in range(200):
        area, rooms = random.uniform(20, 200), random.randrange(1, 6)
        f.write('{"area": %.1f, "rooms": %d, "price": %.3f}\n' % (area, rooms, 0.01 * area + 0.3 * rooms))
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
for kind, color in (("cat", (200, 40, 40)), ("dog", (40, 40, 200))):
    os.makedirs(f"pets/{kind}")
    for i in range(40):
        rows, cols = random.randrange(8, 20), random.randrange(8, 20)
        pixels = b"".join(b"\0" + bytes(c + random.randrange(40) for _ in range(cols) for c in color) for _ in range(rows))
        with open(f"pets/{kind}/{i}.png", "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", cols, rows, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (20, 3), }"
with open("x.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack("<60f", *(random.random() for _ in range(60))))
header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (20, 4, 5), }"
with open("image.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(i % 251 for i in range(400)))
header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }"
with open("y.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(i % 2 for i in range(20)))
END

# A classifier of a table.
cat > iris.yaml << 'END'
data:
  train: {type: table, path: iris.csv, labels: species, categorical: [color], normalize: true}
  split: {dev: 0.2}
model:
  type: classifier
  input: x
  layers: [{dense: {output: {hidden: 32}, activation: relu}}, {dense: {output: {classes: 3}}}]
optimizer: adam
learning_rate: 0.01
train: {epochs: 20, batch_size: 20}
END
# A regression.
cat > houses.yaml << 'END'
data: {train: {type: table, path: houses.jsonl, targets: price, normalize: true}, split: {dev: 0.2}}
model: {type: regression, input: x, layers: [{dense: {output: {hidden: 16}, activation: relu}}, {dense: {output: {targets: 1}}}]}
optimizer: adam
learning_rate: 0.01
train: {epochs: 20, batch_size: 20}
END
cat > pets.yaml << 'END'
data: {train: {type: images, path: pets, size: 8}, split: {dev: 0.2, test: 0.1}, cache: cache}
model: {type: classifier, layers: [{dense: {output: {hidden: 16}, activation: relu}}, {dense: {output: {classes: 2}}}]}
optimizer: adam
learning_rate: 0.003
train: {epochs: 10, batch_size: 8}
evaluate: {datasets: {dev: {type: split, metrics: [accuracy]}}}
END
cat > ages.yaml << 'END'
data: {train: {type: npy, arrays: {image: image.npy, y: y.npy}}, split: {dev: 0.2}}
model: {type: regression, input: image, layers: [{dense: {over: [rows, cols], output: {}}}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 2, batch_size: 4}
evaluate: {datasets: {dev: {type: split}}}
END
cat > arrays.yaml << 'END'
data: {train: {type: npy, arrays: {x: x.npy, labels: y.npy}}}
model: {type: classifier, input: x, layers: [{dense: {output: {classes: 2}}}]}
optimizer: adafactor
train: {steps: 2, batch_size: 4}
END

# metric FILE DATASET NAME: prints the last value of a metric.
metric() { grep "\"dataset\":\"$2\"" "$1" | tail -1 | python3 -c "import json, sys; print(json.loads(sys.stdin.read())['$3'])"; }
above() { python3 -c "import sys; sys.exit(not $1 > $2)" || fail "$1 is not above $2"; }

for name in iris houses pets arrays; do
  expect_exit 0 "$mtf_train" $name.yaml run.model_dir=runs/$name
done
above "$(metric runs/iris/evaluate.jsonl dev accuracy)" 0.85
above 0.05 "$(metric runs/houses/evaluate.jsonl dev loss)"
above "$(metric runs/pets/evaluate.jsonl dev accuracy)" 0.95
above "$(metric runs/pets/evaluate.jsonl test accuracy)" 0.9

# What the training data decided is kept with the run: names, means and deviations.
grep -q '"virginica"' runs/iris/data.json || fail "data.json has no classes"
grep -q '"deviation"' runs/iris/data.json || fail "data.json has no deviations"
grep -q '"cat"' runs/pets/data.json || fail "data.json has no classes"

# The same numbers when the run is evaluated later, also without the other examples of the file.
expect_exit 0 "$mtf_train" runs/iris/config.yaml run.mode=evaluate
[ "$(metric runs/iris/evaluate.jsonl dev loss)" = "$(metric out dev loss)" ] || fail "another loss of dev"
{ head -1 iris.csv; tail -30 iris.csv; } > later.csv
datasets='evaluate.datasets={later: {type: table, path: later.csv, labels: species, categorical: [color], normalize: true}}'
expect_exit 0 "$mtf_train" runs/iris/config.yaml run.mode=evaluate "$datasets"
above "$(metric out later accuracy)" 0.8
later=$(metric out later loss)

# Weights that are named by a path bring the numbers and names of their own run, whatever run.model_dir has, also in a file.
printf 'length,width,color\n5,3,red\n' > one.csv
printf 'length,width,color\n5,3,red\n9,1,blue\n' > two.csv
expect_exit 0 "$(dirname "$mtf_train")/mtf-convert" runs/iris iris.safetensors
for checkpoint in runs/iris iris.safetensors; do
  expect_exit 0 "$mtf_train" iris.yaml run.model_dir=runs/houses run.mode=evaluate evaluate.checkpoint=$checkpoint "$datasets"
  [ "$(metric out later loss)" = "$later" ] || fail "another loss with evaluate.checkpoint=$checkpoint"
  for input in one two; do
    expect_exit 0 "$mtf_train" iris.yaml run.model_dir=runs/houses run.mode=infer infer.checkpoint=$checkpoint \
      infer.input=$input.csv infer.format=jsonl infer.output=$input.jsonl
  done
  grep -q '"setosa"' one.jsonl || fail "no names of classes with infer.checkpoint=$checkpoint"
  [ "$(head -1 two.jsonl)" = "$(cat one.jsonl)" ] || fail "a prediction depends on other rows with infer.checkpoint=$checkpoint"
done
cp -r runs/iris/checkpoints/step-* alone
expect_exit 2 "$mtf_train" iris.yaml run.model_dir=runs/houses run.mode=evaluate evaluate.checkpoint=alone "$datasets"
expect_text "the means and deviations of the training data are not known"
expect_exit 2 "$mtf_train" iris.yaml run.model_dir=runs/houses run.mode=infer infer.checkpoint=alone infer.input=one.csv
expect_text "the means and deviations of the training data are not known"
expect_exit 2 "$mtf_train" iris.yaml run.model_dir=runs/iris run.mode=evaluate "evaluate.checkpoint=[latest, alone]" "$datasets"
expect_text "the training data of these checkpoints have different classes"

# A folder of images is examples to predict.
mkdir photos && cp pets/dog/1*.png photos
"$mtf_train" runs/pets/config.yaml run.mode=infer infer.input=photos > predicted
[ "$(sort predicted | uniq -c | xargs)" = "11 dog" ] || fail "predictions of a folder: $(cat predicted)"

# Images that the weights do not fit are refused as such.
sed '/^evaluate/d; s/, split: {[^}]*}//' pets.yaml > plain.yaml
expect_exit 0 "$mtf_train" plain.yaml train.epochs=1 run.model_dir=runs/plain
for key in infer.input evaluate.datasets.all; do
  expect_exit 2 "$mtf_train" runs/plain/config.yaml run.mode=${key%%.*} "$key={type: images, path: pets, size: 8, channels: 1}"
  expect_text "\`$key\`: \`image\` is float32 [rows=8, cols=8, channels=1], which the weights do not fit"
  expect_text "float32 [rows=8, cols=8, channels=3], as in data.train"
done

# Damaged weights are called that, also where the images differ and a model for any size would take them.
expect_exit 0 "$mtf_train" plain.yaml train.epochs=1 run.model_dir=runs/pooled \
  "model.layers=[{global_average_pool: {}}, {dense: {output: {classes: 2}}}]"
larger="evaluate.datasets={all: {type: images, path: pets, size: 12}}"
expect_exit 0 "$mtf_train" runs/pooled/config.yaml run.mode=evaluate "$larger"
python3 - runs/pooled/checkpoints/*/weights.safetensors << 'END'
import sys
with open(sys.argv[-1], "r+b") as f:
    data = f.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    f.seek(begin)
    f.write(bytes(255 - byte for byte in data[begin:]))
END
expect_exit 1 "$mtf_train" runs/pooled/config.yaml run.mode=evaluate "$larger"
expect_text "checksum"

# A teacher whose classes stand in another order is refused.
cp -r pets turned && printf 'dog\ncat\n' > turned/classes.txt
expect_exit 2 "$mtf_train" pets.yaml data.train.path=turned distill.checkpoint=runs/pets run.model_dir=runs/taught
expect_text 'class 0 of data.train is `dog`, and of the teacher'

# So are weights to start from, unless those of the classes are left out. Other names may mean the same, or another task.
start=("$mtf_train" pets.yaml checkpoint.init.path=runs/pets train.epochs=1)
expect_exit 2 "${start[@]}" data.train.path=turned run.model_dir=runs/turned
expect_text 'class 0 of data.train is `dog`, and of runs/pets/checkpoints/'
exclude=$(sed -n 's/.*`checkpoint.init.exclude: \(\[[^]]*\]\)` leaves.*/\1/p' out)
expect_exit 0 "${start[@]}" data.train.path=turned "checkpoint.init.exclude=$exclude" run.model_dir=runs/turned
expect_text "2 of 4 variables start from"
# Layers below may have a dimension of the same name and size: the refusal ends where weights with it are left out.
expect_exit 0 "${start[@]}" data.train.path=turned "checkpoint.init.exclude=${exclude%%,*}]" run.model_dir=runs/turned_in_part
expect_text 'class 0 of data.train is `dog`, and of runs/pets/checkpoints/'
expect_text "3 of 4 variables start from"
mkdir wild && cp -r pets/cat wild/lynx && cp -r pets/dog wild/wolf
expect_exit 0 "${start[@]}" data.train.path=wild run.model_dir=runs/wild
expect_text 'class 0 of data.train is `lynx`, and of runs/pets/checkpoints/'
expect_text "4 of 4 variables start from"

# Evaluations number the classes as the training data of the weights, whatever order those of the examples have.
for images in pets turned; do
  expect_exit 0 "$mtf_train" pets.yaml data.train.path=turned run.mode=evaluate evaluate.checkpoint=runs/pets \
    "evaluate.datasets={all: {type: images, path: $images, size: 8, metrics: [loss]}}"
  metric out all loss > loss.$images
done
cmp loss.pets loss.turned || fail "the order of the classes changes the loss"

# Where the classes of the training data are numbers, folders whose names are numbers have these, and words are refused.
{ echo path,label; printf 'pets/cat/%d.png,0\n' {0..39}; printf 'pets/dog/%d.png,1\n' {0..39}; } > numbers.csv
mkdir digits && cp -r pets/cat digits/0 && cp -r pets/dog digits/1
list="{type: images, path: numbers.csv, size: 8}"
folders="{type: images, path: pets, size: 8}"
numbered=("$mtf_train" pets.yaml "data.train=$list")
expect_exit 0 "${numbered[@]}" "evaluate.datasets={digits: {type: images, path: digits, size: 8, metrics: [accuracy]}}" \
  run.model_dir=runs/numbers
grep -q '"classes": \[\]' runs/numbers/data.json || fail "data.json does not say that the classes are numbers"
above "$(metric runs/numbers/evaluate.jsonl digits accuracy)" 0.95
words='pets/cat: `cat` is no whole number; the number of a class, as in the training data'
expect_exit 1 "${numbered[@]}" "evaluate.datasets={pets: $folders}" run.model_dir=runs/words
expect_text "$words"
expect_exit 1 "$mtf_train" runs/numbers/config.yaml run.mode=evaluate "evaluate.datasets={pets: $folders}"
expect_text "$words"

# A run without data.json does not say that its classes are numbers: they are what classes.txt says. Nor do weights to start from.
mkdir tens && for i in {0..10}; do mkdir tens/$i && cp pets/cat/$i.png tens/$i; done
sed 's/classes: 2/classes: 11/; s/, split: {[^}]*}//; /^evaluate/d' pets.yaml > tens.yaml
tens="{all: {type: images, path: ordered, size: 8, metrics: [loss]}}"
cp -r tens ordered && printf '%s\n' 0 1 10 {2..9} > ordered/classes.txt
expect_exit 0 "$mtf_train" tens.yaml data.train.path=tens run.model_dir=runs/tens train.epochs=1 "evaluate.datasets=$tens"
loss=$(metric runs/tens/evaluate.jsonl all loss)
rm runs/tens/data.json
for way in "tens.yaml data.train.path=tens evaluate.checkpoint=runs/tens" runs/tens/config.yaml; do
  expect_exit 0 "$mtf_train" $way run.mode=evaluate "evaluate.datasets=$tens"
  [ "$(metric out all loss)" = "$loss" ] || fail "another order of the classes without data.json"
  expect_exit 2 "$mtf_train" $way run.mode=evaluate "evaluate.datasets=${tens/ordered/tens}"
  expect_text "the names of the classes of the training data are not known: no data.json"
done
start_tens=("$mtf_train" tens.yaml data.train.path=tens train.epochs=1 checkpoint.init.path=runs/tens)
expect_exit 0 "${start_tens[@]}" run.model_dir=runs/more_tens
echo '{"classes": []}' > runs/tens/data.json
expect_exit 2 "${start_tens[@]}" run.model_dir=runs/other_tens
expect_text 'class 2 of data.train is `10`, and of runs/tens/checkpoints/'

# So are sources of data.train that number the classes differently, in any order.
expect_exit 1 "$mtf_train" pets.yaml data.train=null "data.train={a: $list, b: $folders}" run.model_dir=runs/words
expect_text "$words"
expect_exit 1 "$mtf_train" pets.yaml data.train=null "data.train={a: $folders, b: $list}" run.model_dir=runs/words
expect_text 'numbers.csv:2: there is no class `0`'
make_small_idx
named="type: idx, images: images, labels: labels, class_names"
expect_exit 2 "$mtf_train" pets.yaml data.train=null run.model_dir=runs/words \
  "data.train={a: {$named: [x, y]}, b: {$named: [y, x]}}"
expect_text 'class 0 of `data.train.b` is `y`, and of `data.train.a` it is `x`; one order of the classes in all sources'

# A link to a checkpoint leads to what the training data decided.
ln -s "$(ls -d "$PWD"/runs/pets/checkpoints/*)" link
"$mtf_train" pets.yaml run.model_dir=runs/none run.mode=infer infer.checkpoint=link infer.input=photos > predicted
[ "$(sort predicted | uniq -c | xargs)" = "11 dog" ] || fail "predictions of a link: $(cat predicted)"

# A regression on images is evaluated, and has no misclassified images to show.
expect_exit 0 "$mtf_train" ages.yaml run.model_dir=runs/ages
expect_exit 0 "$mtf_train" runs/ages/config.yaml run.mode=evaluate evaluate.output=ages
[ "$(metric runs/ages/evaluate.jsonl dev loss)" = "$(metric out dev loss)" ] || fail "another loss of images"

# An example stays where it is when others are added.
{ cat iris.csv; sed 1d iris.csv | sed 's/^./9/'; } > more.csv
expect_exit 0 "$mtf_train" iris.yaml data.train.path=more.csv run.model_dir=runs/more train.epochs=1
expect_text "finished"

# The store makes no difference, nor do threads, processes and layouts.
ls cache/images-*.pixels > /dev/null || fail "no store of images"
expect_exit 0 "$mtf_train" pets.yaml run.model_dir=runs/decoded data.train.store_limit=0 data.train.workers=3
expect_exit 0 "$mtf_compare" runs/pets runs/decoded --tolerance 0
for layout in "layout=batch:all" "layout=rows:all" "layout=cols:all"; do
  expect_exit 0 "$mtf_train" pets.yaml mesh=all:2 "$layout" run.model_dir=runs/one_process run.on_existing=fail
  port=$(free_ports 1)
  for rank in 0 1; do
    start_rank $rank 2 "$mtf_train" pets.yaml mesh=all:2 "$layout" run.model_dir=runs/two_processes run.threads=1 \
      data.train.store_limit=0
  done
  all_end 120
  expect_exit 0 "$mtf_compare" runs/one_process runs/two_processes --tolerance 0
  rm -rf runs/one_process runs/two_processes
done

# A file of evaluate.datasets is lost that only one of two processes reads: both know, the step is saved, and the run goes on
# with this evaluation. Process 1 has rows 4 to 7 of each batch of 8.
lost=$(find pets -type f | LC_ALL=C sort | sed -n 6p)
evaluated=("evaluate.datasets={all: {type: images, path: pets, size: 8, store_limit: 0}}" evaluate.every=5 train.epochs=null
  train.steps=20000 data.split={} mesh=all:2 layout=batch:all run.threads=1 "run.model_dir=$work/runs/apart")
port=$(free_ports 1)
start_rank 0 2 "$mtf_train" pets.yaml "${evaluated[@]}"
start_rank 1 2 "$mtf_train" pets.yaml "${evaluated[@]}"
wait_for has_lines runs/apart/evaluate.jsonl 1
mv "$lost" lost.png
all_end 60 1 1
said 0 "process 1: cannot read $lost"
said 1 "$lost"
said 0 "is saved; the run goes on with its evaluation, which failed"
grep -q '"evaluation_pending":1' runs/apart/checkpoints/step-*/manifest.json || fail "no checkpoint with a pending evaluation"
lines=$(wc -l < runs/apart/evaluate.jsonl)
mv lost.png "$lost"
step=$(ls runs/apart/checkpoints | tail -n 1 | sed 's/step-0*//')
port=$(free_ports 1)
start_rank 0 2 "$mtf_train" pets.yaml "${evaluated[@]}" train.steps=20001
start_rank 1 2 "$mtf_train" pets.yaml "${evaluated[@]}" train.steps=20001
wait_for has_lines runs/apart/evaluate.jsonl $((lines + 1))
kill -TERM "${ids[0]}"
all_end 60 143 143
sed -n "$((lines + 1))p" runs/apart/evaluate.jsonl | grep -q "\"step\":$step," || fail "it does not go on with the evaluation of step $step"

# A damaged image ends the run with its name.
head -c 60 pets/dog/7.png > cut && mv cut pets/dog/7.png
expect_exit 1 "$mtf_train" pets.yaml run.model_dir=runs/damaged
expect_text "pets/dog/7.png: the PNG file is damaged (the file is cut off)"
expect_exit 1 "$mtf_train" pets.yaml run.model_dir=runs/damaged data.train.store_limit=0
expect_text "pets/dog/7.png: the PNG file is damaged (the file is cut off)"
echo "images, tables and arrays train, and a run keeps what they have in common"
