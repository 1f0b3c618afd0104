#include "trainer/programs/convert/t5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/generation.h"
#include "trainer/programs/convert/t5_config.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKind = "T5";
/// Its decoder begins with padding.
constexpr GenerationLengths kT5Lengths = {.given = 1};
constexpr const char* kEmbedding = "shared.weight";
constexpr const char* kSoftmax = "lm_head.weight";
constexpr const char *kVocabulary = "spiece.model", *kByteTokenizer = "ByT5Tokenizer",
                     *kAddedTokens = "added_tokens_decoder";
/// What Hugging Face's tokeniser of bytes has where its file does not say.
constexpr int64_t kUsualByteExtraIds = 125;

/// Other names of the embedding, and a tensor that no layer reads.
constexpr std::array<std::string_view, 2> kEmbeddingAliases = {"encoder.embed_tokens.weight",
                                                               "decoder.embed_tokens.weight"};
constexpr std::string_view kUnused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

/// Returns the tensor of a layer's variable, such as "q" of "SelfAttention".
std::optional<HuggingFaceTensor> tensor_of_layer(const std::string& kind, const std::string& variable) {
  const auto one_of = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, variable) != words.end();
  };
  if (kind == "rms_norm" && variable == "scale") return HuggingFaceTensor{"layer_norm.weight", false};
  const bool attention = kind == "SelfAttention" || kind == "EncDecAttention";
  if (attention && one_of({"q", "k", "v", "o"}))
    return HuggingFaceTensor{kind + "." + variable + ".weight", true};
  if (kind == "SelfAttention" && variable == "relative_attention_bias")
    return HuggingFaceTensor{kind + "." + variable + ".weight", true};
  if (kind == "DenseReluDense" && one_of({"wi/kernel", "wi_0/kernel", "wi_1/kernel", "wo/kernel"}))
    return HuggingFaceTensor{fmt::format("{}.{}.weight", kind, variable.substr(0, variable.find('/'))), true};
  return std::nullopt;
}

const StoredTensor& embedding_of(const HuggingFaceFiles& files) {
  for (const std::string_view alias : kEmbeddingAliases) {
    if (files.find(kEmbedding)) break;
    if (const StoredTensor* tensor = files.find(std::string(alias))) return *tensor;
  }
  return files.at(kEmbedding);
}

/// Sets t5.tied by comparing the tensors of softmax and embedding, since newer versions of config.json say
/// `tied` for all models. Scaled logits are always tied to the embedding.
void settle_softmax(const HuggingFaceFiles& files, const std::string& from, T5Config& t5) {
  const StoredTensor* softmax = files.find(kSoftmax);
  const bool apart = softmax && !std::ranges::equal(softmax->data, embedding_of(files).data);
  if (apart && t5.scaled_logits)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}: `{}` is another matrix than `{}`, and config.json says that they are one",
                            from, kSoftmax, kEmbedding),
                "`\"tie_word_embeddings\": false` where the logits have no scale");
  t5.tied = !apart && (t5.tied || t5.scaled_logits);
}

/// Returns the number of sentinels <extra_id_N> that the tokeniser adds, `usual` where it does not say.
int64_t extra_ids_of(const HuggingFaceJson& tokenizer, int64_t usual) {
  constexpr const char* key = "extra_ids";
  return tokenizer.has(key) && tokenizer.at(key) == 0 ? 0 : tokenizer.size(key, usual);
}

/// Returns the sentinels of a run in the order of their ids: the last one is <extra_id_0>.
std::vector<std::string> sentinels(int64_t extra_ids) {
  std::vector<std::string> pieces;
  for (int64_t number = extra_ids - 1; number >= 0; --number) pieces.push_back(extra_piece(number));
  return pieces;
}

/// Returns the tokens that the tokeniser adds from `id` on, in the order of their ids.
std::vector<std::string> added_tokens(const HuggingFaceJson& tokenizer, int64_t id) {
  std::vector<std::string> tokens;
  if (!tokenizer.has(kAddedTokens)) return tokens;
  const nlohmann::json& added = tokenizer.at(kAddedTokens);
  for (auto token = added.find(fmt::to_string(id)); token != added.end();
       token = added.find(fmt::to_string(++id))) {
    const auto content = token->find("content");
    tokens.push_back(content != token->end() && content->is_string() ? content->get<std::string>() : "");
  }
  return tokens;
}

/// Returns the number of sentinels of a ByT5. By itself its tokeniser numbers them upwards, which a run cannot.
int64_t byte_sentinels(const HuggingFaceJson& tokenizer, const std::string& from,
                       std::vector<std::string>& notes) {
  const int64_t bytes = vocabulary_size(BytesOptions{});
  const std::vector<std::string> added = added_tokens(tokenizer, bytes);
  if (!added.empty() && added == sentinels(std::ssize(added))) return std::ssize(added);
  if (!added.empty() || extra_ids_of(tokenizer, kUsualByteExtraIds) > 0)
    notes.push_back(
        fmt::format("{} numbers <extra_id_0>, <extra_id_1>, ... upwards from {}, and a vocabulary downwards: "
                    "texts have no <extra_id_N>",
                    from, bytes));
  return 0;
}

/// Returns the number of sentinels behind `pieces` others.
int64_t piece_sentinels(const HuggingFaceJson& tokenizer, const std::string& from, int64_t pieces,
                        int64_t rows, std::vector<std::string>& notes) {
  const int64_t extra_ids = extra_ids_of(tokenizer, kUsualExtraIds);
  if (pieces + extra_ids <= rows) return extra_ids;
  notes.push_back(fmt::format(
      "{}: the embedding has no rows for {} <extra_id_N> behind {} pieces: texts have none but pieces", from,
      extra_ids, pieces));
  return 0;
}

/// Returns the value of `data.vocabulary`; files to copy and notes are added to `import`.
std::string vocabulary_of(const std::string& from, const ImportTarget& target, int64_t rows,
                          HuggingFaceImport& import) {
  const auto check = [&](int64_t ids, const std::string& vocabulary) {
    if (ids <= rows) return;
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} pieces, and the embedding only {} rows", vocabulary, ids, rows));
  };
  const HuggingFaceJson tokenizer = tokenizer_config_of(from);
  const std::string file = from + "/" + kVocabulary;
  if (!fs::exists(file) && tokenizer.text("tokenizer_class", "") == kByteTokenizer) {
    const int64_t extra_ids = byte_sentinels(tokenizer, from, import.notes);
    check(vocabulary_size(BytesOptions{}) + extra_ids, "the vocabulary of bytes");
    return extra_ids == 0 ? "bytes" : fmt::format("{{type: bytes, extra_ids: {}}}", extra_ids);
  }
  int64_t pieces = rows, extra_ids = 0;
  if (fs::exists(file)) {
    SentencePieceOptions options;
    options.path.text = file;
    pieces = read_vocabulary(options)->size();
    check(pieces, file);
    extra_ids = piece_sentinels(tokenizer, from, pieces, rows, import.notes);
  }
  const config::Node path =
      config::Node::scalar(vocabulary_path(from, kVocabulary, target, import), {}, true);
  return fmt::format("{{type: sentencepiece, path: {}, size: {}{}}}", config::to_flow_yaml(path), pieces,
                     extra_ids == 0 ? "" : fmt::format(", extra_ids: {}", extra_ids));
}

/// Writes the files of the vocabulary if Hugging Face has a tokeniser of its kind; otherwise adds a note.
void export_vocabulary(const Config& config, const std::string& run, const std::string& directory,
                       std::vector<std::string>& notes) {
  const auto left_out = [&](const std::string& why) {
    notes.push_back(fmt::format("without files of the vocabulary: {}", why));
  };
  if (!config.data.vocabulary) return left_out("the configuration has none");
  if (are_apart(*config.data.vocabulary)) return left_out("a T5 has one for inputs and targets");
  LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
  nlohmann::ordered_json tokenizer;
  if (const auto* bytes = language.get_if<BytesOptions>()) {
    tokenizer = {{"tokenizer_class", kByteTokenizer}, {"extra_ids", 0}};
    int64_t id = vocabulary_size(BytesOptions{});
    for (const std::string& sentinel : sentinels(bytes->extra_ids))
      tokenizer[kAddedTokens][fmt::to_string(id++)] = {{"content", sentinel},  {"lstrip", false},
                                                       {"normalized", false},  {"rstrip", false},
                                                       {"single_word", false}, {"special", true}};
  } else if (auto* pieces = language.get_if<SentencePieceOptions>()) {
    if (pieces->is_trained())
      pieces->path.text = trained_vocabulary_path(*config.data.vocabulary, Side::kTargets, run);
    if (!fs::exists(pieces->path.text)) return left_out(fmt::format("there is no {}", pieces->path.text));
    write_text_file(directory + "/" + kVocabulary, read_text_file(pieces->path.text));
    tokenizer = {{"tokenizer_class", "T5Tokenizer"}, {"extra_ids", pieces->extra_ids}};
  } else {
    return left_out("it is neither SentencePiece's nor bytes");
  }
  tokenizer.update({{"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  write_text_file(directory + "/" + kTokenizerConfig, tokenizer.dump(2) + "\n");
}

}  // namespace

std::optional<HuggingFaceTensor> t5_tensor(const std::string& variable) {
  if (variable == "shared/embedding") return HuggingFaceTensor{kEmbedding, false};
  if (variable == "decoder/logits/kernel") return HuggingFaceTensor{kSoftmax, true};
  const std::vector<std::string> parts = parts_of(variable);
  const std::string& side = parts[0];
  if (side != "encoder" && side != "decoder") return std::nullopt;
  if (parts.size() == 3 && parts[1] == "rms_norm" && parts[2] == "scale")
    return HuggingFaceTensor{side + ".final_layer_norm.weight", false};
  if (parts.size() < 5) return std::nullopt;
  const std::optional<int> block = number_of(parts[1], "block"), layer = number_of(parts[2], "layer");
  const std::string rest = parts.size() == 5 ? parts[4] : parts[4] + "/" + parts[5];
  const std::optional<HuggingFaceTensor> tensor = tensor_of_layer(parts[3], rest);
  if (!block || !layer || !tensor || parts.size() > 6) return std::nullopt;
  return HuggingFaceTensor{fmt::format("{}.block.{}.layer.{}.{}", side, *block, *layer, tensor->name),
                           tensor->transposed};
}

HuggingFaceImport import_t5(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  T5Config t5 = parse_t5_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  settle_softmax(files, from, t5);
  HuggingFaceImport import;
  ModelSurroundings around{.vocabulary = {}, .target = target, .source = from};
  around.vocabulary = vocabulary_of(from, target, t5.vocab_size, import);
  around.infer =
      infer_text(read_generation(from, kEosId, import.notes), kT5Lengths, tokens_of(from), import.notes);
  import.model.config = t5_yaml(t5, around);
  std::set<std::string> used;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const std::optional<HuggingFaceTensor> theirs = t5_tensor(variable.name);
    MTF_CHECK(theirs, "a T5 has the variable {}", variable.name);
    const StoredTensor& stored = theirs->name == kEmbedding ? embedding_of(files) : files.at(theirs->name);
    used.insert(stored.name);
    import.model.weights.push_back({variable.name, value_of(variable, stored, theirs->transposed, from)});
  }
  const auto ignored = [](const std::string& name) {
    return name == kUnused || name == kSoftmax ||
           std::ranges::find(kEmbeddingAliases, name) != kEmbeddingAliases.end();
  };
  files.check_unused(used, ignored, kKind);
  return import;
}

std::vector<std::string> export_t5(const ModelWeights& model, const std::string& from,
                                   const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  T5Config t5 = t5_of(config);
  for (const ModelWeight& weight : model.weights) {
    const std::optional<HuggingFaceTensor> theirs = t5_tensor(weight.name);
    if (theirs && theirs->name == kEmbedding) t5.vocab_size = weight.value.shape[0].size;
  }
  const ModelSurroundings around{
      .vocabulary = fmt::format("{{type: sentencepiece, path: {}, size: {}}}", kVocabulary, t5.vocab_size),
      .target = {from},
      .source = from};
  write_tensors(model, t5_tensor, from, kKind, directory);
  check_weights(model, t5_yaml(t5, around), from);
  write_text_file(directory + "/config.json", t5_json(t5));
  nlohmann::ordered_json generation = {
      {"decoder_start_token_id", kPadId}, {"eos_token_id", kEosId}, {"pad_token_id", kPadId}};
  if (config.root.find("infer"))
    add_generation(generation_of(config.infer, kT5Lengths, written_token_ids(config), notes), generation);
  write_text_file(directory + "/generation_config.json", generation.dump(2) + "\n");
  export_vocabulary(config, model.directory, directory, notes);
  return notes;
}

}  // namespace mtf
