#include "trainer/programs/convert/bert.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "data/class_names.h"
#include "data/labelled/conll.h"
#include "data/labelled/labelled_text.h"
#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/with_article.h"
#include "trainer/predict/predict.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/bert_names.h"
#include "trainer/programs/convert/bert_vocabulary.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {
namespace {

const StoredTensor* find_bert(const HuggingFaceFiles& files, const std::string& name, BertFamily family) {
  for (const std::string& one : names_in_files(name, family)) {
    if (const StoredTensor* tensor = files.find(one)) return tensor;
  }
  return nullptr;
}

/// The tensor of a variable's name under another head than that of `bert`.
std::string tensor_under(const BertConfig& bert, BertHead head, const std::string& variable) {
  BertConfig other = bert;
  other.head = head;
  const std::optional<BertTensor> tensor = bert_tensor(variable, other);
  return tensor ? tensor->name : std::string();
}

/// What the tensors say of the model's head.
void settle_head(const HuggingFaceFiles& files, BertConfig& bert) {
  const auto find = [&](BertHead head, const std::string& variable) {
    return find_bert(files, tensor_under(bert, head, variable), bert.family);
  };
  const StoredTensor* const of_texts = find(BertHead::kClassifier, "classifier/kernel");
  const StoredTensor* const of_tags = find(BertHead::kTagger, "classifier/kernel");
  const bool has_pooler = find(BertHead::kClassifier, "pooler/kernel") != nullptr;
  if (of_texts && has_pooler && !of_texts->shape.empty()) {
    bert.labels = of_texts->shape[0];
    if (bert.head != BertHead::kRegression)  // one number is no class
      bert.head = bert.labels == 1 ? BertHead::kRegression : BertHead::kClassifier;
  } else if (of_tags && !of_tags->shape.empty()) {
    bert.labels = of_tags->shape[0];
    bert.head = BertHead::kTagger;
  } else if (files.find("qa_outputs.weight")) {
    bert.head = BertHead::kSpans;
  } else {
    // An encoder alone is one of a masked language model, which will start from it.
    const bool pairs = bert.family == BertFamily::kBert &&
                       (has_pooler || find(BertHead::kPretraining, "next_sentence/kernel"));
    bert.head = pairs ? BertHead::kPretraining : BertHead::kMaskedLm;
    bert.without_head = std::ranges::none_of(
        files.names(), [&](const std::string& name) { return is_of_pretraining(name, bert.family); });
  }
  if (bert.family == BertFamily::kDistilBert && !is_of_texts(bert.head)) bert.classifier_dropout.reset();
}

/// What the tensors of a ModernBERT say of its head: those of classes, tags and answers have one name.
void settle_modern_head(const HuggingFaceFiles& files, const std::string& config_file, BertConfig& bert) {
  const StoredTensor* const last = files.find("classifier.weight");
  if (!last || last->shape.empty()) {
    bert.head = BertHead::kMaskedLm;
    bert.without_head = std::ranges::none_of(
        files.names(), [&](const std::string& name) { return is_of_pretraining(name, bert.family); });
    return;
  }
  if (bert.head == BertHead::kMaskedLm)
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("{}: `architectures` does not say what `classifier.weight` predicts", config_file),
        "ModernBertForSequenceClassification, ModernBertForTokenClassification or "
        "ModernBertForQuestionAnswering");
  if (has_classifier(bert.head)) bert.labels = last->shape[0];
  if (bert.head == BertHead::kClassifier && bert.labels == 1) bert.head = BertHead::kRegression;
}

/// Returns the value of a variable from the tensor of a file; `file_ids`: the rows of tensors that have one for each id.
HostTensor imported_value(const Variable& variable, const BertTensor& theirs, const StoredTensor& stored,
                          const std::vector<int32_t>& file_ids, const std::string& from) {
  if (theirs.part) return value_of_part(variable, stored, *theirs.part, theirs.transposed, from);
  if (!theirs.has_row_of_each_id) return value_of(variable, stored, theirs.transposed, from);
  check_stored(stored, variable.shape.sizes(), from);
  return value_of(variable, rows_by_id(stored, file_ids, std::nullopt).tensor, theirs.transposed, from);
}

/// The ids of the file in the order of the ids of `data.vocabulary`.
std::vector<int32_t> imported_ids(const BertConfig& bert) {
  FileIds ids{.size = bert.vocab_size, .begin = kPadId, .end = kEosId};
  if (has_tokenizer(bert.family)) {
    ids.begin = static_cast<int32_t>(bert.padding());
    ids.end = static_cast<int32_t>(bert.end);
  }
  return file_ids_of(ids);
}

/// The variable with a vector for each token.
constexpr const char* kWords = "embedding/embedding";

/// Sets the sizes that the weights have, and whether there is a classifier of pairs.
void add_sizes(const ModelWeights& model, BertConfig& bert) {
  for (const ModelWeight& weight : model.weights) {
    if (weight.value.shape.rank() == 0) continue;
    const Shape& shape = weight.value.shape;
    if (weight.name == kWords) {
      bert.vocab_size = shape[0].size;
      bert.hidden = shape[shape.rank() - 1].size;
    } else if (weight.name == "positions/positional_embedding") {
      bert.max_positions = shape[0].size;
    } else if (weight.name == "token_types/embedding") {
      bert.token_types = shape[0].size;
    } else if (weight.name == "classifier/kernel") {
      bert.labels = shape[shape.rank() - 1].size;
    } else if (weight.name == "pooler/kernel" && bert.head == BertHead::kMaskedLm &&
               bert.family == BertFamily::kBert) {
      bert.head = BertHead::kPretraining;  // nothing else of a masked language model reads it
    }
  }
}

/// True for the name of a variable in the heads of pretraining.
bool is_of_heads(const std::string& variable, const BertConfig& bert) {
  const std::optional<BertTensor> theirs = bert_tensor(variable, bert);
  return theirs && is_of_pretraining(theirs->name, bert.family);
}

/// Writes the weights; those of an encoder alone without the prefix of its tensors.
void write_bert(const ModelWeights& model, const BertConfig& bert, const std::vector<int32_t>& file_ids,
                const std::string& from, const std::string& directory) {
  const std::string_view encoder = encoder_prefix(bert.family);
  std::vector<WrittenTensor> tensors;
  for (const ModelWeight& weight : model.weights) {
    std::optional<BertTensor> theirs = bert_tensor(weight.name, bert);
    if (!theirs)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{}: {} has no variable `{}`", from,
                                                      with_article(name_of(bert.family)), weight.name));
    if (bert.without_head && theirs->name.starts_with(encoder)) theirs->name.erase(0, encoder.size());
    WrittenTensor tensor = written_tensor(weight, *theirs);
    if (theirs->has_row_of_each_id) order_rows(tensor, file_ids, bert.vocab_size);
    if (theirs->part) {
      add_part(tensor, output_axis(tensor.shape, theirs->transposed), *theirs->part, tensors);
    } else {
      tensors.push_back(std::move(tensor));
    }
  }
  write_tensors(tensors, directory);
}

/// The names of the labels that the model's training data had, or that data.train gives.
std::vector<std::string> label_names_of(const ModelWeights& model, const Config& config) {
  if (std::vector<std::string> prepared = prepared_classes(model.preparation); !prepared.empty())
    return prepared;
  const SourceChoice* const train = training_source(config);
  if (train == nullptr) return {};
  if (const auto* texts = train->get_if<LabelledTextOptions>()) return texts->classes;
  if (const auto* sentences = train->get_if<ConllOptions>()) return sentences->classes;
  return {};
}

/// The weights, with the default transform's norm under the name that a list gives it.
ModelWeights with_listed_transform(const ModelWeights& model) {
  constexpr std::string_view scope = "predictions/", norm = "predictions/layer_norm_";
  ModelWeights listed = model;
  for (ModelWeight& weight : listed.weights) {
    if (weight.name.starts_with(norm)) weight.name.insert(scope.size(), "layer_norm/");
  }
  return listed;
}

/// Throws Error (kCheckpoint) for an output layer with a matrix or a bias of its own.
void check_copies(const HuggingFaceFiles& files, BertFamily family, const std::string& from) {
  for (const std::string& name : files.names()) {
    const std::optional<std::string> original = original_of(name, family);
    const StoredTensor* const stored = original ? find_bert(files, *original, family) : nullptr;
    if (stored && !are_equal(files.at(name), *stored))
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: `{}` is another tensor than `{}`, and {} has one here", from, name,
                              stored->name, with_article(name_of(family))));
  }
}

}  // namespace

HuggingFaceImport import_bert(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  BertConfig bert = parse_bert_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  if (bert.family == BertFamily::kModernBert) {
    settle_modern_head(files, config_file, bert);
  } else {
    settle_head(files, bert);
  }
  HuggingFaceImport import;
  const bool has_names = bert.head == BertHead::kClassifier || bert.head == BertHead::kTagger;
  bert.label_names =
      settled_label_names(has_names ? bert.label_names : std::vector<std::string>(), bert.labels,
                          tensor_under(bert, bert.head, "classifier/kernel"), config_file, import.notes);
  ModelSurroundings around{.vocabulary = {}, .target = target, .source = from};
  around.vocabulary = settle_bert_vocabulary(from, target, bert, import);
  import.model.config = bert_yaml(bert, around);
  import.model.preparation = preparation_of(bert.label_names);
  const std::vector<int32_t> file_ids = imported_ids(bert);
  std::set<std::string> used;
  std::vector<std::string> missing;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const std::optional<BertTensor> theirs = bert_tensor(variable.name, bert);
    MTF_CHECK(theirs, "{} has the variable {}", with_article(name_of(bert.family)), variable.name);
    const StoredTensor* stored = find_bert(files, theirs->name, bert.family);
    if (!stored && bert.without_head && is_of_pretraining(theirs->name, bert.family)) {
      missing.push_back(variable.name);
      continue;
    }
    if (!stored) stored = &files.at(theirs->name);
    used.insert(stored->name);
    import.model.weights.push_back(
        {variable.name, imported_value(variable, *theirs, *stored, file_ids, from)});
  }
  if (!missing.empty())
    import.notes.push_back(fmt::format("{} has an encoder alone; a run that starts from it trains anew: {}",
                                       from, fmt::join(missing, ", ")));
  check_copies(files, bert.family, from);
  files.check_unused(
      used, [&](const std::string& name) { return is_unread(name, bert.family); }, name_of(bert.family));
  return import;
}

std::vector<std::string> export_bert(const ModelWeights& model, const std::string& from,
                                     const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  BertConfig bert = bert_of(config);
  add_sizes(model, bert);
  bert.label_names = label_names_of(model, config);
  const bool pretrains = bert.head == BertHead::kMaskedLm || bert.head == BertHead::kPretraining;
  bert.without_head = pretrains && std::ranges::none_of(model.weights, [&](const ModelWeight& weight) {
                        return is_of_heads(weight.name, bert);
                      });
  const ExportedBertVocabulary vocabulary = exported_bert_vocabulary(config, bert.vocab_size, bert);
  const ModelSurroundings around{.vocabulary = vocabulary.yaml, .target = {from}, .source = from};
  write_bert(model, bert, vocabulary.file_ids, from, directory);
  check_weights(
      with_listed_transform(model), bert_yaml(bert, around), from,
      [&](const std::string& variable) { return bert.without_head && is_of_heads(variable, bert); });
  write_text_file(directory + "/config.json", bert_json(bert));
  write_bert_vocabulary(config, bert, directory, notes);
  return notes;
}

}  // namespace mtf
