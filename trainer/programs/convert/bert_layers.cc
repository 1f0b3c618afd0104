#include "trainer/programs/convert/bert_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/config/load.h"
#include "layers/embeddings/vocab.h"

namespace mtf {
namespace {

/// The options of `embedding` that determine what a BERT computes.
struct BertEmbedding {
  Shape output;
  std::optional<int64_t> size;
  int64_t vocab_divisor = 128;
  Embedding embedding;
};
void describe(config::Visitor& visit, BertEmbedding& options) {
  visit("output", options.output, "");
  visit("size", options.size, "");
  visit("vocab_divisor", options.vocab_divisor, "");
  visit("embedding", options.embedding, "");
}

}  // namespace

BertLayersReader::BertLayersReader(const Config& config, std::string_view kind)
    : model_(config.model), mark_(config.mark("model")), list_mark_(mark_), kind_(kind) {}

void BertLayersReader::refuse(const Mark& mark, const std::string& what, const std::string& right) const {
  throw Error(ErrorKind::kConfig, mark, fmt::format("the model is no {}: {}", kind_, what), right);
}

void BertLayersReader::require(bool holds, const Mark& mark, const std::string& what,
                               const std::string& right) const {
  if (!holds) refuse(mark, what, right);
}

void BertLayersReader::read_head() {
  const config::Node* type = model_.find("type");
  const std::string name = type ? type->text() : "";
  if (name == "masked_lm") {
    bert_.head = BertHead::kMaskedLm;
  } else if (name == "classifier") {
    bert_.head = BertHead::kClassifier;
  } else if (name == "regression") {
    bert_.head = BertHead::kRegression;
  } else if (name == "tagger") {
    bert_.head = BertHead::kTagger;
  } else if (name == "spans") {
    bert_.head = BertHead::kSpans;
  } else {
    refuse(mark_, fmt::format("its type is {}", name), "masked_lm, classifier, regression, tagger or spans");
  }
  const config::Node* scope = model_.find("name");
  require(!scope || scope->text().empty(), mark_, "its variables have a scope", "no `name`");
  const config::Node* cap = model_.find("logit_soft_cap");
  require(!cap || cap->is_null(), cap ? cap->mark() : mark_, "its logits have a soft cap",
          "no `logit_soft_cap`");
}

void BertLayersReader::read_list() {
  const config::Node* layers = model_.find("layers");
  if (!layers) return;
  list_ = layer_entries(*layers);
  list_mark_ = layers->mark();
}

const LayerEntry* BertLayersReader::find(std::string_view name) const {
  const auto found = std::ranges::find(list_, name, &LayerEntry::name);
  return found == list_.end() ? nullptr : &*found;
}

double BertLayersReader::dropout_at(size_t index) const {
  if (index >= list_.size() || list_[index].name != "dropout") return 0;
  return layer<ConvertedDropout>(list_[index]).rate;
}

void BertLayersReader::leave_dropout_out() {
  std::erase_if(list_, [](const LayerEntry& entry) { return entry.name == "dropout"; });
}

void BertLayersReader::read_embedding(const LayerEntry& entry, bool has_dense) {
  const auto embedding = layer<BertEmbedding>(entry);
  const auto* vocab = embedding.embedding.get_if<VocabEmbedding>();
  require(vocab && !vocab->scale_like_classifier && (has_dense || !vocab->scale_logits), entry.mark,
          "it has another embedding", "embedding: {type: vocab, scale_logits: false}");
  read_initializer(vocab->initializer);
}

void BertLayersReader::add_epsilon(double epsilon, const Mark& mark) {
  require(!has_epsilon_ || epsilon == bert_.epsilon, mark, "its norms have several `epsilon`",
          "one for all: `layer_defaults: {layer_norm: {epsilon: 1e-12}}`");
  has_epsilon_ = true;
  bert_.epsilon = epsilon;
}

void BertLayersReader::read_initializer(const std::optional<InitializerOptions>& initializer) {
  const auto* normal = initializer ? std::get_if<TruncatedNormalInitializer>(&*initializer) : nullptr;
  if (normal && normal->stddev < 1) bert_.initializer_range = normal->stddev;
}

}  // namespace mtf
