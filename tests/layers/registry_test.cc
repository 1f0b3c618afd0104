#include "layers/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/activation.h"
#include "layers/layer_entry.h"
#include "tests/layers/yaml_layers.h"
#include "tests/support/problem_texts.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> names(const LayerList& layers) {
  std::vector<std::string> result;
  for (const auto& item : layers.items()) result.push_back(item.name);
  return result;
}

TEST(LayerEntry, IsANameOrANameWithOptions) {
  Diagnostics diagnostics;
  const config::Node list = config::parse_yaml(
      "[relu, {dense: {bias: false}}, {batch_norm: }, {a: 1, b: 2}, [x]]", "a.yaml", diagnostics);
  EXPECT_EQ(layer_entry(list.elements()[0], diagnostics).name, "relu");
  EXPECT_EQ(layer_entry(list.elements()[1], diagnostics).name, "dense");
  EXPECT_EQ(layer_entry(list.elements()[1], diagnostics).options.find("bias")->text(), "false");
  EXPECT_TRUE(layer_entry(list.elements()[2], diagnostics).options.is_null());
  EXPECT_FALSE(diagnostics.has_errors());
  EXPECT_EQ(layer_entry(list.elements()[3], diagnostics).name, "");
  EXPECT_EQ(layer_entry(list.elements()[4], diagnostics).name, "");
  EXPECT_THAT(texts(diagnostics.errors()),
              ElementsAre(StartsWith("a.yaml:1:55: `b` is a second name in one layer"),
                          HasSubstr("a layer is `name` or `{name: {options}}`, not a list")));
}

TEST(LayerParser, NumbersLayersWithoutAName) {
  Diagnostics diagnostics;
  const LayerList layers = parse_layers(
      "[activation: relu, activation: relu, {activation: {function: relu, name: activation_1}}, scale: 2, "
      "activation: elu]",
      diagnostics);
  EXPECT_FALSE(diagnostics.has_errors());
  EXPECT_THAT(names(layers),
              ElementsAre("activation", "activation_2", "activation_1", "scale", "activation_3"));
}

TEST(LayerParser, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(problems_of("[dens: {output: {h: 2}}, dense: {otput: {h: 2}}, {dropout: often}, 7]"),
              AllOf(HasSubstr("layers.yaml:1:2: unknown layer `dens`; did you mean `dense`?"),
                    HasSubstr("unknown key `dense.otput`; did you mean `dense.output`?"),
                    HasSubstr("`dropout.rate` must be a number"), HasSubstr("unknown layer `7`")));
  EXPECT_THAT(problems_of("[transmogrify]"), HasSubstr("`mtf-train --list-layers` shows them all"));
}

TEST(LayerParser, FindsProblemsInNestedLists) {
  EXPECT_THAT(problems_of("[repeat: {times: 2, layers: [residual: {layers: [scal: 2]}]}]"),
              HasSubstr("layers.yaml:1:50: unknown layer `scal`; did you mean `scale`?"));
}

TEST(LayerParser, AppliesDefaultsBelowTheEntrysOwnOptions) {
  const YamlOptions options{.defaults = "{scale: {factor: 3}, dropout: {rate: 0.5, share: h}}"};
  EXPECT_EQ(YamlLayers("[scale]", {{"batch", 1}}, options).evaluate({1}), Values{3});
  EXPECT_EQ(YamlLayers("[scale: {factor: 2}]", {{"batch", 1}}, options).evaluate({1}), Values{2});
  EXPECT_EQ(YamlLayers("[scale: 2]", {{"batch", 1}}, options).evaluate({1}), Values{2});
  EXPECT_THAT(error_of("[dropout: 0.1]", {{"batch", 1}}, options), HasSubstr("there is no dimension `h`"));
  EXPECT_THAT(problems_of("[]", {.defaults = "{scael: {factor: 3}}"}),
              HasSubstr("defaults.yaml:1:2: unknown layer `scael`; did you mean `scale`?"));
}

TEST(LayerParser, ChecksDefaultsOfLayersThatAreNotUsed) {
  EXPECT_THAT(problems_of("[]", {.defaults = "{dropout: {rat: 0.5}}"}),
              HasSubstr("defaults.yaml:1:12: unknown key `dropout.rat`; did you mean `dropout.rate`?"));
  EXPECT_THAT(problems_of("[]", {.defaults = "{rms_norm: 3}"}),
              HasSubstr("defaults.yaml:1:12: the defaults of `rms_norm` are no map of options"));
  EXPECT_EQ(problems_of("[]", {.defaults = "{dropout: 0.5, block: {use: a, filters: 3}}"}), "");
}

TEST(LayerParser, GivesErrorsOfOperationsThePlaceOfTheInnermostLayer) {
  EXPECT_THAT(
      error_of("[scale: 2,\n residual: {layers: [activation: relu,\n  dropout: {rate: 0.1, share: q}]}]",
               {{"batch", 1}}),
      HasSubstr("layers.yaml:3:31: there is no dimension `q`"));
}

TEST(LayerParser, OperationsKnowScopeLayerAndPlace) {
  const YamlLayers net("[scale: 2, scale: 3]", {{"batch", 1}});
  const Provenance& last = net.y.operation().provenance();
  EXPECT_EQ(last.path(), "scale_1");
  EXPECT_EQ(net.y.operation().hints().layer, 1);
  EXPECT_EQ(last.scope.mark().to_string(), "layers.yaml:1:12");
}

TEST(ListLayers, ShowsFormulaAndOptionsOfEachLayer) {
  const std::string text = list_layers();
  for (const LayerKind& kind : layer_kinds()) {
    EXPECT_FALSE(kind.formula.empty()) << kind.name;
    EXPECT_THAT(text, HasSubstr("\n  " + kind.formula.substr(0, kind.formula.find('\n')) + "\n"));
  }
  EXPECT_THAT(text, AllOf(HasSubstr("dense\n"), HasSubstr("kernel_initializer"), HasSubstr("rate"),
                          HasSubstr("name")));
}

TEST(ListLayers, ShowsOneLayer) {
  EXPECT_THAT(list_layers("dropout"), AllOf(StartsWith("dropout\n"), Not(HasSubstr("layer_norm"))));
  const auto error = [](const std::string& name) {
    try {
      list_layers(name);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("droput"), "unknown layer `droput`; did you mean `dropout`?");
  EXPECT_EQ(error("ffn"), "unknown layer `ffn`; did you mean `DenseReluDense`?");
}

TEST(LayerParser, KnowsLayersByTheNamesOfOtherPrograms) {
  EXPECT_THAT(problems_of("[ffn]"), HasSubstr("did you mean `DenseReluDense`?"));
  EXPECT_THAT(problems_of("[LayerNorm]"), HasSubstr("did you mean `layer_norm`?"));
  EXPECT_THAT(problems_of("[MultiHeadAttention]"), HasSubstr("did you mean `SelfAttention`?"));
  EXPECT_EQ(problems_of("[activation: silu]"), "");
  EXPECT_THAT(problems_of("[activation: swiglu]"), HasSubstr("`[swish, linear]`"));
}

TEST(Activations, WithOtherNamesAreTheSame) {
  EXPECT_EQ(config::dump(Activation::kSwish).text(), "swish");
  Diagnostics diagnostics;
  const auto parsed = config::parse<Activation>(config::Node::scalar("silu"), diagnostics);
  EXPECT_EQ(parsed, Activation::kSwish);
}

TEST(Context, CastsVariablesToTheActivationType) {
  Graph graph;
  Context context(graph, Mode::kTrain, {.activation = DType::kBFloat16}, {"batch", 1});
  const Tensor w = context.variable("w", {{"h", 2}}, Initializer::zeros());
  EXPECT_EQ(w.dtype(), DType::kBFloat16);
  EXPECT_EQ(graph.find_variable("w")->dtype, DType::kFloat32);
}

}  // namespace
}  // namespace mtf::testing
