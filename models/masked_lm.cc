// Masked language models: a list of layers from the tokens of a row to vectors, of which those of hidden tokens tell which
// tokens these were. Where the data have pairs of texts, the vector of the first token says whether they belong together.
//
//   type: masked_lm
//   layers: [embedding: {output: {d_model: 768}}, token_types, positions: learned, layer_norm, transformer: {...}]
//
// Devlin et al., BERT, 2019. Variables: those of the layers; predictions/.. of the list `transform`,
// predictions/output_bias; those of the list `next_sentence`, by default pooler/.. and next_sentence/...
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"
#include "layers/dense.h"
#include "layers/embedding.h"
#include "layers/normalization.h"
#include "layers/registry.h"
#include "models/logit_soft_cap.h"
#include "models/model.h"
#include "models/sequential.h"
#include "models/token_loss.h"

namespace mtf {
namespace {

struct MaskedLmModelOptions final : ModelOptions, SequentialOptions {
  static constexpr std::string_view type_name = "masked_lm";
  static constexpr bool type_required = true;
  static constexpr std::array common_names = {CommonName{"bert", "`masked_lm`"},
                                              CommonName{"mlm", "`masked_lm`"},
                                              CommonName{"roberta", "`masked_lm`"}};
  MaskedLmModelOptions() { input = "inputs"; }

  config::Node transform;
  config::Node next_sentence;
  std::optional<double> logit_soft_cap;
  TokenLossOptions loss;

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};

void describe(config::Visitor& visit, MaskedLmModelOptions& options) {
  describe_sequential(visit, options);
  visit("transform", options.transform,
        "list of layers between the vectors of hidden tokens and their logits (default: dense with gelu, "
        "layer_norm)");
  visit("next_sentence", options.next_sentence,
        "list of layers from the vectors of a row of two texts to two logits (default: pooler, dense)");
  describe_logit_soft_cap(visit, options.logit_soft_cap);
  describe_token_loss(visit, options.loss);
}

constexpr const char *kTargets = "targets", *kPlaces = "targets_place", *kNextSentence = "next_sentence";
constexpr const char *kNextSentenceLoss = "next_sentence_loss",
                     *kNextSentenceAccuracy = "next_sentence_accuracy";

/// Features: `input`, targets [predictions], which are 0 where nothing is predicted, and targets_place, their indices in the
/// row; next_sentence [], 0 for texts that belong together. Loss: that of token_loss.h, and in training the mean
/// cross-entropy `next_sentence`, both with z_loss.
class MaskedLmModel final : public Model {
 public:
  MaskedLmModel(const MaskedLmModelOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {layers_.input(), kTargets, kPlaces}; }
  std::vector<std::string> optional_features() const override {
    std::vector<std::string> names = layers_.optional_features();
    names.emplace_back(kNextSentence);
    return names;
  }
  std::vector<std::string> metrics() const override {
    std::vector<std::string> names = token_metrics();
    names.insert(names.end(), {kNextSentenceLoss, kNextSentenceAccuracy});
    return names;
  }
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  /// hidden: [batch, predictions, model] -> [batch, predictions, vocabulary], in the scope `outer`.
  Tensor logits(Context& context, const LayerTensor& hidden, const std::string& outer) const;
  LayerTensor transformed(Context& context, const LayerTensor& hidden) const;
  /// Adds loss and metrics of pairs.
  void add_next_sentence(Context& context, const LayerTensor& hidden, const Tensor& labels,
                         ModelOutput& output) const;

  MaskedLmModelOptions options_;
  Sequential layers_;
  LayerList transform_, next_sentence_;
};

/// [pooler, dense: {name: next_sentence, output: {next_sentence: 2}, kernel_initializer: ..}]
config::Node usual_next_sentence() {
  using config::Entry;
  using config::Node;
  const auto map = [](const std::string& key, const Node& value) {
    return Node::map({Entry{key, {}, value}});
  };
  const Node initializer = Node::map(
      {Entry{"type", {}, Node::scalar("truncated_normal")}, Entry{"stddev", {}, Node::scalar("0.02")}});
  const Node options = Node::map({Entry{"name", {}, Node::scalar("next_sentence")},
                                  Entry{"output", {}, map("next_sentence", Node::scalar("2"))},
                                  Entry{"kernel_initializer", {}, initializer}});
  return Node::list({Node::scalar("pooler"), map("dense", options)});
}

MaskedLmModel::MaskedLmModel(const MaskedLmModelOptions& options, Diagnostics& diagnostics)
    : options_(options), layers_(options, diagnostics) {
  LayerParser parser(options.layer_defaults, options.blocks, diagnostics);
  if (!options.transform.is_null()) transform_ = parser.parse(options.transform);
  next_sentence_ =
      parser.parse(options.next_sentence.is_null() ? usual_next_sentence() : options.next_sentence);
}

LayerTensor MaskedLmModel::transformed(Context& context, const LayerTensor& hidden) const {
  if (!options_.transform.is_null()) return transform_(context, hidden);
  const Shape model = context.made(hidden);
  const DenseArguments arguments{
      .over = model, .activation = Activation::kGelu, .kernel_initializer = TruncatedNormalInitializer{0.02}};
  return {layer_norm(context, dense(context, "dense", hidden, model, arguments), model[0].name), model};
}

Tensor MaskedLmModel::logits(Context& context, const LayerTensor& hidden, const std::string& outer) const {
  const InputEmbedding& table = context.input_embedding();
  if (!table.embedding)
    throw Error(ErrorKind::kConfig, layers_.mark(), "a masked language model has no embedding of its input",
                "`layers` that begin with `embedding: {output: {d_model: 768}}`");
  Tensor x, bias;
  {
    const auto name = context.graph().scope(layers_.name());
    const auto scope = context.graph().scope("predictions");
    x = transformed(context, hidden);
    bias = context.variable("output_bias", Shape{table.vocabulary}, Initializer::zeros());
  }
  if (!x.shape().contains(table.model))
    throw Error(ErrorKind::kConfig, layers_.mark(),
                fmt::format("logits by the embedding need {}={}, and the layers make {}", table.model.name,
                            table.model.size, x.shape().to_string()),
                "layers that end with the dimension of the embedding");
  const auto scope =
      context.graph().scope(outer.empty() ? table.scope : table.scope.substr(outer.size() + 1));
  const Tensor y = table.embedding->logits(context, x);
  return capped_logits(add(y, bias, y.shape()), options_.logit_soft_cap);
}

void MaskedLmModel::add_next_sentence(Context& context, const LayerTensor& hidden, const Tensor& labels,
                                      ModelOutput& output) const {
  const LayerTensor logits = next_sentence_(context, hidden);
  const Shape made = context.made(logits);
  if (made.rank() != 1 || made[0].size != 2 || !same_dimensions(logits.shape() - made, labels.shape()))
    throw Error(ErrorKind::kConfig, next_sentence_.last_mark(),
                fmt::format("the layers of `next_sentence` make {}", logits.shape().to_string()),
                "two logits for each row: end with `dense: {output: {next_sentence: 2}}`");
  const std::string& classes = made[0].name;
  const auto scope = context.graph().scope("loss");
  const CrossEntropyOptions terms{.z_loss = context.training() ? options_.loss.z_loss : 0};
  const Tensor losses = softmax_cross_entropy(logits, labels, classes, terms).loss;
  if (context.training()) return context.add_loss("next_sentence", reduce_mean(losses, Shape{}));
  output.metrics[kNextSentenceLoss] = {losses};
  output.metrics[kNextSentenceAccuracy] = {cast(equal(argmax(logits, classes), labels), DType::kFloat32)};
}

ModelOutput MaskedLmModel::build(Context& context, const Features& features) const {
  const Tensor& targets = layers_.feature(features, config::Name(kTargets));
  const Tensor& places = layers_.feature(features, config::Name(kPlaces));
  const LayerTensor hidden = layers_(context, features);
  ModelOutput output;
  const Shape made = context.made(hidden);
  const std::string outer = context.graph().scoped("");
  const auto logits_of = [&](const Tensor& states) { return logits(context, {states, made}, outer); };
  const std::string scope = layers_.name().empty() ? "loss" : layers_.name() + "/loss";
  token_loss(context, options_.loss,
             {gather(hidden, places, "length"), logits_of, context.input_embedding().vocabulary.name, scope},
             targets, {}, output);
  const auto name = context.graph().scope(layers_.name());
  const auto next_sentence = features.find(kNextSentence);
  // A teacher teaches tokens alone, and its weights may be without a classifier of pairs.
  if (next_sentence != features.end() && !context.is_applied())
    add_next_sentence(context, hidden, next_sentence->second, output);
  return output;
}

std::unique_ptr<Model> MaskedLmModelOptions::make(Diagnostics& diagnostics) const {
  return std::make_unique<MaskedLmModel>(*this, diagnostics);
}

const config::Registration<ModelOptions, MaskedLmModelOptions> masked_lm_model;

}  // namespace
}  // namespace mtf
