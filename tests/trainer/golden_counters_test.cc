// Compares the counters of explain with those of Mesh TensorFlow for the same models on the same layouts. What
// both count alike is equal to the element; what our programs do in another way is listed with its reason.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include "engine/spmd/program_facts.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr const char* kCountedToy =
    "{type: regression, input: x, target: y, layer_defaults: {dense: {bias: false}}, layers: ["
    "{dense: {name: layer_1, output: {hidden_odd: 32}}}, {dense: {name: layer_2, output: {hidden_even: "
    "32}}}, "
    "{dense: {name: layer_3, output: {io: 16}}}]}";
constexpr const char* kCountedLanguageModel =
    "{type: lm, d_model: 16, max_length: 16, vocab_divisor: 16, num_layers: 2, "
    "block: [{SelfAttention: {num_heads: 4, key_value_size: 4}}, {DenseReluDense: {hidden_size: 32}}]}";

/// Contractions of one shape that only one of the two systems counts.
struct Difference {
  const char* reason;
  int64_t times;
  Shape volume;
};

/// What the original counts as einsum and our programs do not.
std::vector<Difference> einsums_of_the_original(const std::string& model) {
  const auto shape = [](const char* text) { return Shape::parse(text); };
  if (model == "toy") {
    return {
        {"the gradient by the model's input, which nothing needs", 1, shape("batch:8,io:16,hidden_odd:32")},
        {"products without a sum: the gradient of the square", 1, shape("batch:8,io:16")}};
  }
  return {{"tokens are looked up as a product with one-hot vectors", 3,
           shape("batch:4,length:8,vocab:32,d_model:16")},
          {"products without a sum: norms, masks", 35, shape("batch:4,length:8,d_model:16")},
          {"products without a sum: norms, the loss", 21, shape("batch:4,length:8")},
          {"products without a sum: scaled queries", 4, shape("batch:4,length:8,heads:4,d_kv:4")},
          {"products without a sum: the softmax", 4, shape("batch:4,heads:4,length:8,memory_length:8")},
          {"products without a sum: the sum of the softmax", 2, shape("batch:4,length:8,heads:4")},
          {"products without a sum: the activation", 2, shape("batch:4,length:8,d_ff:32")},
          {"products without a sum: the loss", 4, shape("batch:4,length:8,vocab:32")}};
}

/// What our programs reduce beside the sums of the original: a partial sum of a layer without activation goes
/// through the next layer, and is reduced behind it as well as before it, where the backward pass needs it.
std::vector<Difference> sums_of_ours(const std::string& model, const std::string& layout) {
  const char* reason = "the partial sum of a linear layer goes through the next one";
  if (model != "toy") return {};
  if (layout.find("hidden_odd:") != std::string::npos) return {{reason, 1, Shape::parse("batch:8,io:16")}};
  if (layout.find("io:") != std::string::npos)
    return {{reason, 1, Shape::parse("batch:8,hidden_even:32")},
            {reason, 1, Shape::parse("batch:8,hidden_odd:32")}};
  return {};
}

/// A result of the original, and the same model in our program.
class CountedCase {
 public:
  explicit CountedCase(const YAML::Node& result)
      : model(result["model"].as<std::string>()),
        mesh(result["mesh_shape"].as<std::string>()),
        layout(result["layout"].as<std::string>()),
        layouts_(mesh.empty() ? Layouts::single() : layouts(mesh, layout)) {
    for (const auto& entry : result["counters"])
      golden[entry.first.as<std::string>()] = entry.second.as<double>();
    const bool toy = model == "toy";
    std::vector<Feature> features;
    if (toy) {
      features = {{"x", {{"io", 16}}, DType::kFloat32, 0}, {"y", {{"io", 16}}, DType::kFloat32, 0}};
    } else {
      features = {{"targets", {{"length", 8}}, DType::kInt32, 32}};
    }
    TrainStepOptions options;
    options.batch_size = toy ? 8 : 4;
    step_ = build_train_step(*parse_model(toy ? kCountedToy : kCountedLanguageModel), features, options);
  }

  Diagnostics problems() const {
    Diagnostics diagnostics;
    check_layouts(*step_.graph, layouts_, diagnostics);
    return diagnostics;
  }
  void explain_program() {
    facts = program_facts(partition(*step_.graph, layouts_));
    for (const auto& [name, counter] : counter_totals(facts.counters)) ours[name] = counter.elements;
  }

  /// Returns the elements on all positions together, or once.
  double elements(const Difference& difference, bool unique) const {
    double result = static_cast<double>(difference.times * difference.volume.size());
    if (unique) return result;
    result *= static_cast<double>(layouts_.mesh.size());
    for (const Dimension& d : difference.volume)
      result /= static_cast<double>(LayoutMap(layouts_.mesh, layouts_.activation).parts(d.name));
    return result;
  }
  double elements(const std::vector<Difference>& differences, bool unique) const {
    double result = 0;
    for (const Difference& difference : differences) result += elements(difference, unique);
    return result;
  }

  /// Returns the einsums of the original that our program does by another operation or under the same name.
  double contractions(bool unique) const {
    const auto of = [&](const std::string& name) {
      const auto found = ours.find(unique ? name + "_unique" : name);
      return found == ours.end() ? 0 : found->second;
    };
    // Attention is one operation. Its gradient computes the scores again, one of five contractions.
    double result = of("einsum") + of("attention") + of("attention_gradient") * 4 / 5;
    for (const ContractionFact& c : facts.contractions) {
      // Where d_model is split the gradient of a norm has sums of products as einsums; the original's are
      // among its products without a sum.
      if (!c.origin.layer.path().ends_with("rms_norm")) continue;
      const double positions = unique ? 1 : static_cast<double>(layouts_.mesh.size());
      result -= (unique ? c.unique_flops : c.flops * positions) / 2;
    }
    return result;
  }

  std::string model, mesh, layout;
  std::map<std::string, double> golden, ours;
  ProgramFacts facts;

 private:
  Layouts layouts_;
  TrainStep step_;
};

/// The operations whose sums over mesh dimensions the original counts under another name.
const std::map<std::string, std::string>& names_of_the_original() {
  static const std::map<std::string, std::string> names = {
      {"rms_norm_parameter_gradient_op", "einsum_op"},  // a product of dy and x, summed
      {"gather_op", "einsum_op"},                       // a product with one-hot vectors
      {"cross_entropy_sums_op", "reduce_op"},
  };
  return names;
}

void expect_same_reductions(const CountedCase& c) {
  std::map<std::string, double> expected, actual;
  for (const auto& [name, elements] : c.golden) {
    if (name.starts_with("allreduce")) expected[name] = elements;
  }
  for (const auto& [name, elements] : c.ours) {
    if (!name.starts_with("allreduce")) continue;
    const size_t slash = name.rfind('/');
    const auto other =
        names_of_the_original().find(slash == std::string::npos ? name : name.substr(slash + 1));
    actual[other == names_of_the_original().end() ? name : name.substr(0, slash + 1) + other->second] +=
        elements;
  }
  if (const double more = c.elements(sums_of_ours(c.model, c.layout), false); more > 0) {
    const std::string axis = c.mesh.find(';') == std::string::npos ? "[0]" : "[1]";
    for (const std::string& name :
         {std::string("allreduce"), "allreduce/" + axis, "allreduce/" + axis + "/einsum_op"})
      actual[name] -= more;
  }
  EXPECT_EQ(actual, expected);
}

TEST(GoldenCounters, CountWhatMeshTensorFlowCounts) {
  const YAML::Node golden = YAML::LoadFile(MTF_SOURCE_DIR "/tests/golden/15_layout_counters/case.yaml");
  int compared = 0;
  for (const YAML::Node& result : golden["results"]) {
    CountedCase c(result);
    SCOPED_TRACE(fmt::format("{} on {} with {}", c.model, c.mesh, c.layout));
    if (result["error"]) {
      EXPECT_TRUE(c.problems().has_errors());
      continue;
    }
    ASSERT_FALSE(c.problems().has_errors());
    c.explain_program();
    for (const char* name : {"variables", "variables/trainable"})
      EXPECT_EQ(c.ours.at(name), c.golden.at(name));
    expect_same_reductions(c);
    const std::vector<Difference> differences = einsums_of_the_original(c.model);
    EXPECT_EQ(c.contractions(false) + c.elements(differences, false), c.golden.at("einsum"));
    EXPECT_EQ(c.contractions(true) + c.elements(differences, true), c.golden.at("einsum_unique"));
    EXPECT_GE(c.ours.at("einsum"), c.ours.at("einsum_unique"));
    ++compared;
  }
  EXPECT_EQ(compared, 12);
}

TEST(GoldenCounters, ALoopCountsItsBodyAsOftenAsItRuns) {
  const auto model = parse_model(kCountedToy);
  const std::vector<Feature> features = {{"x", {{"io", 16}}, DType::kFloat32, 0},
                                         {"y", {{"io", 16}}, DType::kFloat32, 0}};
  std::map<int64_t, ProgramCounters> totals;
  for (const int64_t microbatches : {1, 4}) {
    TrainStepOptions options;
    options.batch_size = 8;
    options.microbatches = microbatches;
    const TrainStep step = build_train_step(*model, features, options);
    totals[microbatches] =
        counter_totals(program_facts(partition(*step.graph, layouts("x:2", "batch:x"))).counters);
  }
  for (const char* name : {"einsum", "einsum_unique", "allreduce/[0]/einsum_op"})
    EXPECT_EQ(totals[4].at(name).elements, totals[1].at(name).elements) << name;
}

}  // namespace
}  // namespace mtf::testing
