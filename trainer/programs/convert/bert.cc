#include "trainer/programs/convert/bert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "data/class_names.h"
#include "data/labelled/conll.h"
#include "data/labelled/labelled_text.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/config/load.h"
#include "trainer/predict/predict.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBert = "BERT";
constexpr const char* kVocabularyFile = "vocab.txt";
/// What begins the names of the encoder's tensors, unless the file has the encoder alone, and of the heads of pretraining.
constexpr std::string_view kEncoder = "bert.", kHeads = "cls.";
constexpr const char *kWords = "bert.embeddings.word_embeddings.weight",
                     *kPlaces = "bert.embeddings.position_embeddings.weight",
                     *kTypes = "bert.embeddings.token_type_embeddings.weight",
                     *kPooler = "bert.pooler.dense.weight", *kClassifier = "classifier.weight";
/// The longest word that Hugging Face's tokeniser divides into pieces.
constexpr int64_t kLongestWord = 100;

/// Tensors that say what others say, and one of indices.
constexpr std::array<std::string_view, 3> kRepeated = {
    "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids"};

/// Names that do not depend on the block: of ours, the tensor, and whether it is transposed.
const std::map<std::string, HuggingFaceTensor>& outer_names() {
  static const std::map<std::string, HuggingFaceTensor> names = {
      {"embedding/embedding", {kWords}},
      {"token_types/embedding", {kTypes}},
      {"positions/positional_embedding", {kPlaces}},
      {"layer_norm/layer_norm_scale", {"bert.embeddings.LayerNorm.weight"}},
      {"layer_norm/layer_norm_bias", {"bert.embeddings.LayerNorm.bias"}},
      {"pooler/kernel", {kPooler, true}},
      {"pooler/bias", {"bert.pooler.dense.bias"}},
      {"predictions/dense/kernel", {"cls.predictions.transform.dense.weight", true}},
      {"predictions/dense/bias", {"cls.predictions.transform.dense.bias"}},
      {"predictions/layer_norm/layer_norm_scale", {"cls.predictions.transform.LayerNorm.weight"}},
      {"predictions/layer_norm/layer_norm_bias", {"cls.predictions.transform.LayerNorm.bias"}},
      {"predictions/layer_norm_scale", {"cls.predictions.transform.LayerNorm.weight"}},
      {"predictions/layer_norm_bias", {"cls.predictions.transform.LayerNorm.bias"}},
      {"predictions/output_bias", {"cls.predictions.bias"}},
      {"next_sentence/kernel", {"cls.seq_relationship.weight", true}},
      {"next_sentence/bias", {"cls.seq_relationship.bias"}},
      {"classifier/kernel", {kClassifier, true}},
      {"classifier/bias", {"classifier.bias"}},
      {"qa_outputs/kernel", {"qa_outputs.weight", true}},
      {"qa_outputs/bias", {"qa_outputs.bias"}}};
  return names;
}

/// Names behind transformer/block_007/ and behind bert.encoder.layer.7.
const std::map<std::string, HuggingFaceTensor>& block_names() {
  static const std::map<std::string, HuggingFaceTensor> names = {
      {"layer_000/SelfAttention/q", {"attention.self.query.weight", true}},
      {"layer_000/SelfAttention/q_bias", {"attention.self.query.bias"}},
      {"layer_000/SelfAttention/k", {"attention.self.key.weight", true}},
      {"layer_000/SelfAttention/k_bias", {"attention.self.key.bias"}},
      {"layer_000/SelfAttention/v", {"attention.self.value.weight", true}},
      {"layer_000/SelfAttention/v_bias", {"attention.self.value.bias"}},
      {"layer_000/SelfAttention/o", {"attention.output.dense.weight", true}},
      {"layer_000/SelfAttention/o_bias", {"attention.output.dense.bias"}},
      {"layer_000/layer_norm/layer_norm_scale", {"attention.output.LayerNorm.weight"}},
      {"layer_000/layer_norm/layer_norm_bias", {"attention.output.LayerNorm.bias"}},
      {"layer_001/DenseReluDense/wi/kernel", {"intermediate.dense.weight", true}},
      {"layer_001/DenseReluDense/wi/bias", {"intermediate.dense.bias"}},
      {"layer_001/DenseReluDense/wo/kernel", {"output.dense.weight", true}},
      {"layer_001/DenseReluDense/wo/bias", {"output.dense.bias"}},
      {"layer_001/layer_norm/layer_norm_scale", {"output.LayerNorm.weight"}},
      {"layer_001/layer_norm/layer_norm_bias", {"output.LayerNorm.bias"}}};
  return names;
}

/// The names under which files may have a tensor: an encoder alone has no prefix, and in old files norms have gamma and beta.
std::vector<std::string> names_in_files(const std::string& name) {
  std::vector<std::string> names = {name};
  for (const auto& [now, before] :
       {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}) {
    if (name.ends_with(now))
      names.push_back(name.substr(0, name.size() - std::string_view(now).size()) + before);
  }
  if (name.starts_with(kEncoder)) {
    const std::vector<std::string> with(names);
    for (const std::string& one : with) names.push_back(one.substr(kEncoder.size()));
  }
  return names;
}

const StoredTensor* find_bert(const HuggingFaceFiles& files, const std::string& name) {
  for (const std::string& one : names_in_files(name)) {
    if (const StoredTensor* tensor = files.find(one)) return tensor;
  }
  return nullptr;
}

/// What the tensors say of the model's head.
void settle_head(const HuggingFaceFiles& files, BertConfig& bert) {
  const StoredTensor* classes = files.find(kClassifier);
  if (classes && !classes->shape.empty()) {
    bert.labels = classes->shape[0];
    if (!find_bert(files, kPooler)) {
      bert.head = BertHead::kTagger;
    } else if (bert.head != BertHead::kRegression) {  // one number is no class
      bert.head = bert.labels == 1 ? BertHead::kRegression : BertHead::kClassifier;
    }
  } else if (files.find("qa_outputs.weight")) {
    bert.head = BertHead::kSpans;
  } else {
    // An encoder alone is one of a masked language model, which will start from it.
    const bool pairs = files.find("cls.seq_relationship.weight") || find_bert(files, kPooler);
    bert.head = pairs ? BertHead::kPretraining : BertHead::kMaskedLm;
    bert.without_head =
        std::ranges::none_of(files.names(), [](const std::string& name) { return name.starts_with(kHeads); });
  }
}

/// Returns the value of `data.vocabulary`; files to copy and notes are added to `import`.
std::string wordpiece_of(const std::string& from, const ImportTarget& target, int64_t rows,
                         HuggingFaceImport& import) {
  WordPieceOptions options;
  int64_t pieces = rows;
  if (const std::string file = from + "/" + kVocabularyFile; fs::exists(file)) {
    options.path.text = file;
    pieces = read_vocabulary(options)->size();
    if (pieces > rows)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{} has {} pieces, and the embedding only {} rows", file, pieces, rows));
  }
  const config::Node path =
      config::Node::scalar(vocabulary_path(from, kVocabularyFile, target, import), {}, true);
  if (const std::string file = from + "/" + kTokenizerConfig; fs::exists(file)) {
    const HuggingFaceJson json(read_text_file(file), file);
    options.lowercase = json.flag("do_lower_case", options.lowercase);
    if (json.has("strip_accents")) options.strip_accents = json.flag("strip_accents", true);
    options.chinese_characters = json.flag("tokenize_chinese_chars", options.chinese_characters);
  } else {
    import.notes.push_back(
        fmt::format("{} has no {}: texts become lower case; `data.vocabulary.lowercase: false` if not", from,
                    kTokenizerConfig));
  }
  std::string text = fmt::format("{{type: wordpiece, path: {}, size: {}, lowercase: {}, longest_word: {}",
                                 config::to_flow_yaml(path), pieces, options.lowercase, kLongestWord);
  if (options.strip_accents) text += fmt::format(", strip_accents: {}", *options.strip_accents);
  if (!options.chinese_characters) text += ", chinese_characters: false";
  return text + "}";
}

void export_wordpiece(const Config& config, const BertConfig& bert, const std::string& directory,
                      std::vector<std::string>& notes) {
  const auto left_out = [&](const std::string& why) {
    notes.push_back(fmt::format("without files of the vocabulary: {}", why));
  };
  if (!config.data.vocabulary) return left_out("the configuration has none");
  const LanguageVocabulary language = by_side(*config.data.vocabulary).inputs;
  const auto* pieces = language.get_if<WordPieceOptions>();
  if (!pieces) return left_out("it is no WordPiece");
  if (!fs::exists(pieces->path.text)) return left_out(fmt::format("there is no {}", pieces->path.text));
  write_text_file(directory + "/" + kVocabularyFile, read_text_file(pieces->path.text));
  nlohmann::ordered_json tokenizer = {{"tokenizer_class", "BertTokenizer"},
                                      {"do_lower_case", pieces->lowercase},
                                      {"tokenize_chinese_chars", pieces->chinese_characters},
                                      {"model_max_length", bert.max_positions}};
  if (pieces->strip_accents) tokenizer["strip_accents"] = *pieces->strip_accents;
  write_text_file(directory + "/" + kTokenizerConfig, tokenizer.dump(2) + "\n");
}

/// Sets the sizes that the weights have, and whether there is a classifier of pairs.
void add_sizes(const ModelWeights& model, BertConfig& bert) {
  for (const ModelWeight& weight : model.weights) {
    const std::optional<HuggingFaceTensor> theirs = bert_tensor(weight.name);
    if (!theirs || weight.value.shape.rank() == 0) continue;
    const Shape& shape = weight.value.shape;
    if (theirs->name == kWords) {
      bert.vocab_size = shape[0].size;
      bert.hidden = shape[shape.rank() - 1].size;
    } else if (theirs->name == kPlaces) {
      bert.max_positions = shape[0].size;
    } else if (theirs->name == kTypes) {
      bert.token_types = shape[0].size;
    } else if (theirs->name == kClassifier) {
      bert.labels = shape[shape.rank() - 1].size;
    } else if (theirs->name == kPooler && bert.head == BertHead::kMaskedLm) {
      bert.head = BertHead::kPretraining;  // nothing else of a masked language model reads it
    }
  }
}

/// True for the name of a variable in the heads of pretraining.
bool is_of_heads(const std::string& variable) {
  const std::optional<HuggingFaceTensor> theirs = bert_tensor(variable);
  return theirs && theirs->name.starts_with(kHeads);
}

/// bert_tensor() of an encoder alone.
std::optional<HuggingFaceTensor> encoder_tensor(const std::string& variable) {
  std::optional<HuggingFaceTensor> tensor = bert_tensor(variable);
  if (tensor && tensor->name.starts_with(kEncoder)) tensor->name.erase(0, kEncoder.size());
  return tensor;
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

}  // namespace

std::optional<HuggingFaceTensor> bert_tensor(const std::string& variable) {
  if (const auto found = outer_names().find(variable); found != outer_names().end()) return found->second;
  const std::vector<std::string> parts = parts_of(variable);
  if (parts.size() < 4 || parts[0] != "transformer") return std::nullopt;
  const std::optional<int> block = number_of(parts[1], "block");
  const auto found = block_names().find(variable.substr(parts[0].size() + parts[1].size() + 2));
  if (!block || found == block_names().end()) return std::nullopt;
  return HuggingFaceTensor{fmt::format("{}encoder.layer.{}.{}", kEncoder, *block, found->second.name),
                           found->second.transposed};
}

HuggingFaceImport import_bert(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  BertConfig bert = parse_bert_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  settle_head(files, bert);
  HuggingFaceImport import;
  const bool has_names = bert.head == BertHead::kClassifier || bert.head == BertHead::kTagger;
  bert.label_names = settled_label_names(has_names ? bert.label_names : std::vector<std::string>(),
                                         bert.labels, kClassifier, config_file, import.notes);
  ModelSurroundings around{.vocabulary = {}, .target = target, .source = from};
  around.vocabulary = wordpiece_of(from, target, bert.vocab_size, import);
  import.model.config = bert_yaml(bert, around);
  import.model.preparation = preparation_of(bert.label_names);
  std::set<std::string> used;
  std::vector<std::string> missing;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const std::optional<HuggingFaceTensor> theirs = bert_tensor(variable.name);
    MTF_CHECK(theirs, "a BERT has the variable {}", variable.name);
    const StoredTensor* stored = find_bert(files, theirs->name);
    if (!stored && bert.without_head && theirs->name.starts_with(kHeads)) {
      missing.push_back(variable.name);
      continue;
    }
    if (!stored) stored = &files.at(theirs->name);
    used.insert(stored->name);
    import.model.weights.push_back({variable.name, value_of(variable, *stored, theirs->transposed, from)});
  }
  if (!missing.empty())
    import.notes.push_back(fmt::format("{} has an encoder alone; a run that starts from it trains anew: {}",
                                       from, fmt::join(missing, ", ")));
  const auto ignored = [&](const std::string& name) {
    return std::ranges::any_of(kRepeated, [&](std::string_view repeated) {
      return name == repeated || std::string(kEncoder) + name == repeated;
    });
  };
  files.check_unused(used, ignored, kBert);
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
  bert.without_head = pretrains && std::ranges::none_of(model.weights, is_of_heads, &ModelWeight::name);
  const ModelSurroundings around{
      .vocabulary = fmt::format("{{type: wordpiece, path: {}, size: {}}}", kVocabularyFile, bert.vocab_size),
      .target = {from},
      .source = from};
  write_tensors(model, bert.without_head ? encoder_tensor : bert_tensor, from, kBert, directory);
  check_weights(with_listed_transform(model), bert_yaml(bert, around), from,
                [&](const std::string& variable) { return bert.without_head && is_of_heads(variable); });
  write_text_file(directory + "/config.json", bert_json(bert));
  export_wordpiece(config, bert, directory, notes);
  return notes;
}

}  // namespace mtf
