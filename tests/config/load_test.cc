// Tests the merging of includes, files and arguments.
#include <sys/stat.h>

#include <thread>

#include "tests/config/testing.h"

namespace mtf::config {
namespace {

using ::testing::ElementsAre;

/// Returns "a.yaml" merged with "b.yaml", which wins.
std::string merged(const std::string& a, const std::string& b) {
  Files files;
  files.write("a.yaml", a);
  files.write("b.yaml", b);
  Diagnostics diagnostics;
  const Node node = load({"a.yaml", "b.yaml"}, {}, diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty());
  return to_flow_yaml(node);
}

TEST(Merge, MapsMergeByKeyAndAllElseReplaces) {
  EXPECT_EQ(merged("train: {steps: 1, metrics: [a, b]}", "train: {metrics: [c]}\nrun: {seed: 2}"),
            "{train: {steps: 1, metrics: [c]}, run: {seed: 2}}");
}

TEST(Merge, NullStaysAndMeansTheDefault) {
  EXPECT_EQ(merged("evaluate: {datasets: {dev: {a: 1}, test: {b: 2}}}", "evaluate: {datasets: {dev: null}}"),
            "{evaluate: {datasets: {dev: null, test: {b: 2}}}}");
}

TEST(Merge, MeshAndLayoutsAreReplacedWhole) {
  EXPECT_EQ(merged("mesh: {rows: 2, cols: 4}\nlayout: {batch: rows, hidden: cols}\ndevices: [cpu]",
                   "mesh: {all: 8}\nlayout: {batch: all}"),
            "{devices: [cpu], mesh: {all: 8}, layout: {batch: all}}");
}

TEST(Merge, AnotherTypeReplacesWhole) {
  EXPECT_EQ(merged("optimizer: {type: adam, beta1: 0.5}", "optimizer: {type: sgd}"),
            "{optimizer: {type: sgd}}");
  EXPECT_EQ(merged("optimizer: {type: adam, beta1: 0.5}", "optimizer: {type: adam, clip_norm: 1}"),
            "{optimizer: {type: adam, beta1: 0.5, clip_norm: 1}}");
  EXPECT_EQ(merged("optimizer: {type: adam, beta1: 0.5}", "optimizer: {clip_norm: 1}"),
            "{optimizer: {type: adam, beta1: 0.5, clip_norm: 1}}");
  EXPECT_EQ(merged("batch_size: {tokens: 5}", "batch_size: {type: dynamic}"), "{batch_size: {type: dynamic}}")
      << "appears";
  EXPECT_EQ(merged("optimizer: {type: adam, beta1: 1}", "optimizer: {type: null, clip_norm: 1}"),
            "{optimizer: {type: null, clip_norm: 1}}")
      << "goes";
}

TEST(Merge, OptionsAfterABareWordKeepTheType) {
  EXPECT_EQ(merged("optimizer: adam", "optimizer: {clip_norm: 1}"),
            "{optimizer: {type: adam, clip_norm: 1}}");
}

TEST(Merge, AVariableIsMergedAsTheValueThatItHasInTheEnd) {
  EXPECT_EQ(
      merged("vars: {t: {steps: 1, batch_size: $b}, b: 2}\ntrain: $t", "train: {log_every: 3}\nvars: {b: 4}"),
      "{train: {steps: 1, batch_size: 4, log_every: 3}}");
  EXPECT_EQ(merged("vars: {t: {steps: 1}, u: $t}\ntrain: $u", "vars: {t: {steps: 7}}\ntrain: {log_every: 3}"),
            "{train: {steps: 7, log_every: 3}}");
  EXPECT_EQ(merged("train: {steps: 1, batch_size: 2}", "vars: {t: {steps: 7}}\ntrain: $t"),
            "{train: {steps: 7, batch_size: 2}}");
  EXPECT_EQ(merged("vars: {o: adam}\noptimizer: $o", "optimizer: {clip_norm: 1}"),
            "{optimizer: {type: adam, clip_norm: 1}}");
  EXPECT_EQ(
      merged("vars: {t: adam}\noptimizer: {type: $t, beta1: 0.5}", "optimizer: {type: adam, clip_norm: 1}"),
      "{optimizer: {type: adam, beta1: 0.5, clip_norm: 1}}");
  EXPECT_EQ(merged("vars: {o: {type: adam, beta1: 0.5}}\noptimizer: $o", "optimizer: {type: sgd}"),
            "{optimizer: {type: sgd}}");
  EXPECT_EQ(merged("vars: {b: {one: [relu]}}\nmodel: {blocks: $b}", "model: {blocks: {two: [$x]}}"),
            "{model: {blocks: {one: [relu], two: [$x]}}}");
}

TEST(Include, IsRelativeToTheFileAndBelowIt) {
  Files files;
  files.write("configs/base.yaml", "train: {steps: 1, epochs: 2}\nmesh: {a: 2}");
  files.write("configs/more.yaml", "include: base.yaml\nrun: {seed: 3}");
  files.write("runs/a.yaml", "include: [../configs/more.yaml, ../configs/base.yaml]\ntrain: {steps: 5}\n");
  Diagnostics diagnostics;
  EXPECT_EQ(to_flow_yaml(load({"runs/a.yaml"}, {}, diagnostics)),
            "{train: {steps: 5, epochs: 2}, run: {seed: 3}, mesh: {a: 2}}");
  EXPECT_FALSE(diagnostics.has_errors());
}

TEST(Include, ErrorsPointAtTheIncludedFile) {
  Files files;
  files.write("base.yaml", "a: 1\na: 2\n");
  files.write("a.yaml", "include: base.yaml\nb: 1\nb: 1\n");
  Diagnostics diagnostics;
  load({"a.yaml"}, {}, diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ElementsAre(::testing::StartsWith("a.yaml:3:1: `b` occurs twice"),
                                                  ::testing::StartsWith("base.yaml:2:1: `a` occurs twice")));
}

TEST(Include, CyclesAndMissingFilesAreErrors) {
  Files files;
  files.write("a.yaml", "include: [b.yaml, nowhere.yaml]\n");
  files.write("b.yaml", "include: a.yaml\n");
  Diagnostics diagnostics;
  load({"a.yaml", "absent.yaml", "."}, {}, diagnostics);
  EXPECT_THAT(errors_of(diagnostics),
              ElementsAre(::testing::StartsWith("a.yaml:1:19: `nowhere.yaml`: there is no such file"),
                          ::testing::StartsWith("b.yaml:1:10: `a.yaml` includes itself"),
                          "absent.yaml: there is no such file", ::testing::StartsWith(".: is a directory")));
}

TEST(Include, OfAPipeOrADeviceIsAnErrorAtOnce) {
  Files files;
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);  // a pipe that nobody writes to
  files.write("a.yaml", "include: [pipe, /dev/zero]\n");
  Diagnostics diagnostics;
  load({"a.yaml", "/dev/zero"}, {}, diagnostics);
  EXPECT_THAT(
      errors_of(diagnostics),
      ElementsAre(
          ::testing::StartsWith(
              "a.yaml:1:11: `pipe`: is no regular file; only files can be included; name a pipe on the "
              "command line"),
          ::testing::StartsWith("a.yaml:1:17: `/dev/zero`: is no regular file"),
          "/dev/zero: is larger than 1 MiB, too large for a configuration"));
}

TEST(Include, ThePipeOfACommandLineIsRead) {
  Files files;
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  files.write("base.yaml", "a: 1\n");
  std::thread writer([] { std::ofstream("pipe") << "include: base.yaml\nb: 2\n"; });
  Diagnostics diagnostics;
  EXPECT_EQ(to_flow_yaml(load({"pipe"}, {}, diagnostics)), "{a: 1, b: 2}");
  writer.join();
}

TEST(Load, RootMustBeAMap) {
  EXPECT_THAT(
      load_errors("- a\n"),
      ElementsAre(::testing::StartsWith("a.yaml:1:1: a configuration is a map of sections, not a list")));
  EXPECT_THAT(load_errors("steps:100\n"),
              ElementsAre(::testing::StartsWith(
                  "a.yaml:1:1: `steps:100` has no blank after the colon; write `steps: 100`")));
  EXPECT_EQ(loaded(""), "{}");
}

TEST(Arguments, SetKeys) {
  EXPECT_EQ(loaded("train: {steps: 1}", {"train.steps=20", "run.mode=infer", "a.b.c=[1, {d: 2}]"}),
            "{train: {steps: 20}, run: {mode: infer}, a: {b: {c: [1, {d: 2}]}}}");
}

TEST(Arguments, AreTextsUnlessTheyBeginLikeALiteral) {
  EXPECT_EQ(loaded("", {"a=*.gz", "b=-", "c=x: y # z", "d=null", "e=\"\"", "f=a=b", "g=~/x"}),
            R"({a: "*.gz", b: "-", c: "x: y # z", d: null, e: "", f: a=b, g: "~/x"})");
}

TEST(Arguments, AppendToAList) {
  EXPECT_EQ(loaded("metrics: [loss]", {"metrics+=bleu", "metrics+=[chrf, ter]", "new+=1"}),
            "{metrics: [loss, bleu, chrf, ter], new: [1]}");
}

TEST(Arguments, AppendToTheListOfAVariable) {
  EXPECT_EQ(loaded("vars: {l: [a, b]}\nx: $l", {"x+=c"}), "{x: [a, b, c]}");
  EXPECT_EQ(loaded("vars: {l: [a, b]}\nx: [z]\ny: $l", {"x+=$l"}), "{x: [z, a, b], y: [a, b]}");
}

TEST(Arguments, SetKeysBelowAVariable) {
  EXPECT_EQ(loaded("vars: {o: {type: adam, no_decay: [bias]}}\noptimizer: $o", {"optimizer.clip_norm=1"}),
            "{optimizer: {type: adam, no_decay: [bias], clip_norm: 1}}");
  EXPECT_EQ(
      loaded("vars: {t: {steps: $n, batch_size: 50}, n: 20}\ntrain: $t", {"train.steps=30", "vars.n=5"}),
      "{train: {steps: 30, batch_size: 50}}");
  EXPECT_EQ(
      loaded("vars: {t: {steps: 20, batch_size: 50}}\ntrain: $t", {"train.steps=30", "vars.t.batch_size=7"}),
      "{train: {steps: 30, batch_size: 7}}");
  EXPECT_EQ(loaded("x: $t", {"x.a=3", "vars.t={a: 1, b: 2}"}), "{x: {a: 3, b: 2}}")
      << "used, though replaced";
  EXPECT_EQ(loaded("vars: {o: adam}\noptimizer: $o", {"optimizer.clip_norm=1"}),
            "{optimizer: {type: adam, clip_norm: 1}}");
  EXPECT_EQ(loaded("vars: {o: da}\noptimizer: a${o}m", {"optimizer.clip_norm=1"}),
            "{optimizer: {type: adam, clip_norm: 1}}");
  EXPECT_EQ(loaded("vars: {r: {batch: a}}\nlayout: $r", {"layout.hidden=null"}),
            "{layout: {batch: a, hidden: null}}");
  EXPECT_EQ(loaded("vars: {r: \"batch:a\"}\nlayout: $r", {"layout.hidden=b"}),
            "{layout: {batch: a, hidden: b}}");
  EXPECT_EQ(loaded("vars: {p: \"5$$\", t: {price: $p}}\nx: $t", {"x.y=1"}), "{x: {price: 5$$, y: 1}}");
}

TEST(Arguments, AddressEntriesThatAreVariables) {
  const std::string layers = "vars: {d: {dense: {name: l1, size: 4}}, l: [$d, {dense: {name: l2}}]}\n";
  for (const char* list : {"m: {layers: [$d, {dense: {name: l2}}]}", "m: {layers: $l}"}) {
    EXPECT_EQ(loaded(layers + list, {"m.layers.0.activation=tanh"}),
              "{m: {layers: [{dense: {name: l1, size: 4, activation: tanh}}, {dense: {name: l2}}]}}");
    EXPECT_EQ(loaded(layers + list, {"m.layers.l1.activation=tanh"}),
              "{m: {layers: [{dense: {name: l1, size: 4, activation: tanh}}, {dense: {name: l2}}]}}");
    EXPECT_EQ(loaded(layers + list, {"m.layers.dense.size=8"}),
              "{m: {layers: [{dense: {name: l1, size: 8}}, {dense: {name: l2, size: 8}}]}}");
  }
}

TEST(Arguments, AddressEntriesWhoseNamesAreVariables) {
  const std::string layers =
      "vars: {n: l1, i: 2, kind: dense, o: {name: l3}}\n"
      "m: {layers: [{dense: {name: $n}}, {dense: {name: l$i}}, {$kind: $o}]}";
  EXPECT_EQ(loaded(layers, {"m.layers.l1.size=4", "m.layers.l2.size=5", "m.layers.l3.size=6"}),
            "{m: {layers: [{dense: {name: l1, size: 4}}, {dense: {name: l2, size: 5}}, {dense: {name: l3, "
            "size: 6}}]}}");
  EXPECT_EQ(loaded(layers, {"m.layers.dense.size=4", "m.layers.2.dense.bias=false"}),
            "{m: {layers: [{dense: {name: l1, size: 4}}, {dense: {name: l2, size: 4}}, {dense: {name: l3, "
            "size: 4, bias: false}}]}}");
  EXPECT_THAT(
      load_errors(layers, {"m.layers.l4.size=4"}),
      ElementsAre(::testing::StartsWith("argument 2: `m.layers` has no entry `l4`; one of `l1`, `dense`,")));
}

TEST(Arguments, AddressEntriesOfBlocks) {
  EXPECT_EQ(loaded("vars: {b: {one: [{dense: {size: 1}}]}}\nmodel: {blocks: $b}",
                   {"model.blocks.one.dense.size=2"}),
            "{model: {blocks: {one: [{dense: {size: 2}}]}}}");
  EXPECT_EQ(loaded("vars: {act: relu}\nmodel: {blocks: {b: [$act, $argument, {dense: {size: 1}}]}}",
                   {"model.blocks.b.dense.size=2"}),
            "{model: {blocks: {b: [$act, $argument, {dense: {size: 2}}]}}}");
}

TEST(Arguments, BelowAVariableWhoseValueIsNotKnown) {
  EXPECT_THAT(load_errors("vars: {o: $p, p: {a: 1}}\nx: $o", {"vars.o.b.c=2"}),
              ElementsAre("argument 2: `vars.o` is the variable `$p`; set `vars.p.b.c`\n"
                          "      | vars.o.b.c=2\n"
                          "      |      ^"));
  EXPECT_THAT(
      load_errors("model: {blocks: {b: [{dense: {output: $o}}]}}", {"model.blocks.b.dense.output.x=2"}),
      ElementsAre(
          ::testing::StartsWith("argument 2: `model.blocks.b.dense.output` is the variable `$o`; set "
                                "`model.blocks.b.dense.output` as a whole: `$o` may be an argument")));
  EXPECT_THAT(load_errors("vars: {d: {dense: {size: 1}}}\nmodel: {blocks: {b: [relu, $d]}}",
                          {"model.blocks.b.dense.size=2"}),
              ElementsAre(::testing::StartsWith("argument 2: `model.blocks.b.1` is the variable `$d`; set "
                                                "`model.blocks.b.1` as a whole: `$d` may be an argument")));
  EXPECT_THAT(load_errors("vars: {l: [$d, {dense: {size: 1}}], d: relu}\nx: $l", {"vars.l.dense.size=2"}),
              ElementsAre(::testing::StartsWith(
                  "argument 2: `vars.l` has an entry `$d`, whose value is not known here: it may be `dense`, "
                  "too; address entries by index, such as `vars.l.0`")));
  EXPECT_THAT(load_errors("vars: {o: {a: 1}}\nx: $p", {"x.a=2"}),
              ElementsAre(::testing::StartsWith("a.yaml:2:4: unknown variable `p`; only `o` is known here")));
  EXPECT_THAT(load_errors("vars: {o: $p, p: $o}\nx: $p", {"x.a=2"}),
              ElementsAre(::testing::HasSubstr("refers to itself")));
}

TEST(Arguments, ThatOpenVariablesCannotMakeMoreThanMemoryHolds) {
  std::string large = "x", many;
  for (int i = 0; i < 200; ++i) large += ", x";
  for (int i = 0; i < 200; ++i) many += "$d, ";
  EXPECT_THAT(
      load_errors("vars: {d: {dense: {l: [" + large + "]}}}\nlayers: [" + many + "]", {"layers.dense.a=1"}),
      ElementsAre(::testing::HasSubstr("variables make the configuration too large")));
}

TEST(Arguments, SetOneRuleOfALayout) {
  EXPECT_EQ(loaded("layout: {batch: rows}", {"layout.hidden=cols"}), "{layout: {batch: rows, hidden: cols}}");
  EXPECT_EQ(loaded("layout: \"batch:rows;hidden:cols\"", {"layout.hidden=rows"}),
            "{layout: {batch: rows, hidden: rows}}");
  EXPECT_EQ(loaded("layout: {batch: rows}", {"layout={hidden: cols}"}), "{layout: {hidden: cols}}");
}

TEST(Arguments, PairsMayHaveLists) {
  EXPECT_EQ(loaded("a: 1", {"layout=vocab:[v,b];batch:b", "layout.batch=[x, y]"}),
            "{a: 1, layout: {vocab: [v, b], batch: [x, y]}}");
}

/// Returns the dimensions that `shared_layout` covers, for the files shared.yaml and a.yaml and arguments.
std::string shared_of(const std::string& shared, const std::string& own,
                      const std::vector<std::string>& arguments = {}) {
  Files files;
  files.write("shared.yaml", shared);
  files.write("a.yaml", own);
  Diagnostics diagnostics;
  const Node root = load({"a.yaml", "shared.yaml"}, arguments, diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty());
  const Node* names = root.find("shared_layout");
  return names == nullptr ? "none" : to_flow_yaml(*names);
}

TEST(SharedLayout, IsAboutTheRulesOfItsFileOnly) {
  const std::string layout = "shared_layout: true\nlayout: {batch: all, heads: all}\n";
  EXPECT_EQ(shared_of(layout, "{}"), "[batch, heads]");
  EXPECT_EQ(shared_of(layout, "{}", {"layout.heads=x", "layout.hiden=x"}), "[batch]");
  EXPECT_EQ(shared_of(layout, "{}", {"layout=heads:all"}), "none");
  EXPECT_EQ(shared_of("layout: {batch: all}", "shared_layout: true\nparameter_layout: {hidden: all}"),
            "[hidden]");
  EXPECT_EQ(shared_of("layout: {hidden: all}", "shared_layout: true\nparameter_layout: {hidden: all}"),
            "none");
  EXPECT_EQ(shared_of("shared_layout: [heads]\nlayout: \"batch:all;heads:all\"", "{}"), "[heads]");
  EXPECT_EQ(shared_of("include: a.yaml\nlayout: {batch: all}", layout), "none");
  EXPECT_EQ(shared_of("include: a.yaml\nmesh: {all: 4}", layout), "[batch, heads]");
}

TEST(SharedLayout, IsTrueFalseOrDimensionsInAFile) {
  EXPECT_THAT(
      load_errors("shared_layout: yess"),
      ElementsAre(::testing::HasSubstr("a.yaml:1:16: `shared_layout` must be true, false or a list of "
                                       "dimensions, not the text `yess`")));
  EXPECT_THAT(load_errors("{}", {"shared_layout=true"}),
              ElementsAre(::testing::HasSubstr("`shared_layout` stands in files only")));
}

TEST(Arguments, SetOptionsOfABareWordAndTypes) {
  EXPECT_EQ(loaded("optimizer: adam", {"optimizer.clip_norm=1"}), "{optimizer: {type: adam, clip_norm: 1}}");
  EXPECT_EQ(loaded("optimizer: {type: adam, beta1: 1}", {"optimizer.type=sgd"}), "{optimizer: {type: sgd}}");
  EXPECT_EQ(loaded("optimizer: {type: adam, beta1: 1}", {"optimizer=sgd"}), "{optimizer: sgd}");
}

constexpr const char* kModel =
    "model: {block: [SelfAttention, {DenseReluDense: {d_ff: 8}}, SelfAttention, {dense: {name: out, bias: "
    "true}}]}";

TEST(Arguments, AddressListEntriesByLayerNameAndIndex) {
  EXPECT_EQ(loaded(kModel, {"model.block.SelfAttention.dropout=0.2"}),
            "{model: {block: [{SelfAttention: {dropout: 0.2}}, {DenseReluDense: {d_ff: 8}}, {SelfAttention: "
            "{dropout: 0.2}}, "
            "{dense: {name: out, bias: true}}]}}");
  EXPECT_EQ(loaded(kModel, {"model.block.out.bias=false", "model.block.1.d_ff=9", "model.block.0=Other"}),
            "{model: {block: [Other, {DenseReluDense: {d_ff: 9}}, SelfAttention, {dense: {name: out, bias: "
            "false}}]}}");
  EXPECT_EQ(loaded("l: [{repeat: {times: 2, layers: [{activation: relu}]}}, {name: b, x: 1}]",
                   {"l.repeat.layers.activation=gelu", "l.b.x=2", "l.0.repeat.times=3"}),
            "{l: [{repeat: {times: 3, layers: [{activation: gelu}]}}, {name: b, x: 2}]}");
}

TEST(Arguments, AddressThatMatchesNothing) {
  EXPECT_THAT(
      load_errors(kModel, {"model.block.SelfAtention.dropout=1", "model.block.9.x=1", "model.block.zzz=1"}),
      ElementsAre("argument 2: `model.block` has no entry `SelfAtention`; did you mean `SelfAttention`?\n"
                  "      | model.block.SelfAtention.dropout=1\n"
                  "      |             ^~~~~~~~~~~~",
                  "argument 3: `model.block` has no entry 9; entries are 0 to 3\n"
                  "      | model.block.9.x=1\n"
                  "      |             ^",
                  "argument 4: `model.block` has no entry `zzz`; one of `SelfAttention`, `DenseReluDense`, "
                  "`out`, `dense`\n"
                  "      | model.block.zzz=1\n"
                  "      |             ^~~"));
}

TEST(Arguments, BadOnes) {
  EXPECT_THAT(
      load_errors("a: {b: 1}", {"train", "a..b=1", "a.b=", "a+=1", "include=b.yaml", "x={b:1}", "c=[1"}),
      ElementsAre(
          "argument 2: `train` is neither a file nor `key=value`; write for example `train.steps=100`",
          "argument 3: `a..b` is not a path of keys; write for example `train.steps=100`",
          "argument 4: `a.b=` has no value; `a.b=null` for the default, `a.b=\"\"` for an empty text",
          ::testing::StartsWith("argument 5: `a` is a map; `+=` appends to a list; write `a.NAME=...`"),
          "argument 6: `include` stands in files only; name the file before the arguments",
          ::testing::StartsWith("argument 7: `b:1` is a key without a value; write a blank after the colon"),
          ::testing::StartsWith("argument 8: `[` is not closed; close it with `]`")));
}

TEST(Arguments, LaterOnesWinAndNullRemoves) {
  EXPECT_EQ(loaded("d: {dev: {x: 1}}", {"d.dev.x=2", "d.dev.x=3", "d.test=null"}),
            "{d: {dev: {x: 3}, test: null}}");
}

}  // namespace
}  // namespace mtf::config
