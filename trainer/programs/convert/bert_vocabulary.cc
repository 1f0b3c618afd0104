#include "trainer/programs/convert/bert_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>
#include <optional>

#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/base/error.h"
#include "engine/config/load.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_files.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPieces = "vocab.txt";
/// The longest word that Hugging Face's tokeniser divides into pieces.
constexpr int64_t kLongestWord = 100;
/// The tokens that begin a row and hide others, as most models of a family have them.
struct UsualTokens {
  const char *start, *mask;
};
UsualTokens usual_tokens(BertFamily family) {
  return is_roberta(family) ? UsualTokens{"<s>", "<mask>"} : UsualTokens{"[CLS]", "[MASK]"};
}

/// The lines of vocab.txt, if tokenizer.json alone has them.
std::optional<std::vector<std::string>> pieces_of_tokenizer(const std::string& from) {
  const std::string file = from + "/" + kTokenizer;
  if (fs::exists(from + "/" + kPieces) || !fs::exists(file)) return std::nullopt;
  const TokenizerIds tokens(file);
  if (tokens.model_type() != "WordPiece") return std::nullopt;
  std::vector<std::string> pieces;
  for (int64_t id = 0; id < tokens.size(); ++id) {
    const std::optional<std::string> token = tokens.token(id);
    if (!token)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{} has no token with the id {}", file, id),
                  "pieces with consecutive ids");
    pieces.push_back(*token);
  }
  return pieces;
}

std::string wordpiece_of(const std::string& from, const ImportTarget& target, int64_t rows,
                         HuggingFaceImport& import) {
  WordPieceOptions options;
  int64_t pieces = rows;
  std::string path = target.path + "/" + kPieces;
  if (const auto lines = pieces_of_tokenizer(from); lines && !target.is_file) {
    pieces = std::ssize(*lines);
    import.files.emplace_back(kPieces, fmt::format("{}\n", fmt::join(*lines, "\n")));
  } else {
    if (const std::string file = from + "/" + kPieces; fs::exists(file)) {
      options.path.text = file;
      pieces = read_vocabulary(options)->size();
    }
    path = vocabulary_path(from, kPieces, target, import);
  }
  if (pieces > rows)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}/{} has {} pieces, and the embedding only {} rows",
                                                    from, kPieces, pieces, rows));
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
                                 config::to_flow_yaml(config::Node::scalar(path, {}, true)), pieces,
                                 options.lowercase, kLongestWord);
  if (options.strip_accents) text += fmt::format(", strip_accents: {}", *options.strip_accents);
  if (!options.chinese_characters) text += ", chinese_characters: false";
  return text + "}";
}

/// The tokeniser of a RoBERTa or a ModernBERT, in which padding becomes id 0 and what ends a row id 1.
std::string tokenizer_vocabulary_of(const std::string& from, const ImportTarget& target, BertConfig& bert,
                                    HuggingFaceImport& import) {
  const HuggingFaceJson json = tokenizer_config_of(from);
  const std::optional<TokenizerIds> tokens = tokenizer_ids_of(from, bert.vocab_size, import);
  const auto pad = static_cast<int32_t>(bert.padding());
  std::string padding = fmt::format("id {}", pad), end = fmt::format("id {}", bert.end);
  if (tokens) {
    if (const std::optional<std::string> separator = special_token(json, "sep_token")) {
      const std::optional<int32_t> id = tokens->id(*separator);
      if (!id) json.fail(fmt::format("`sep_token` {} is no token of {}", *separator, kTokenizer));
      bert.end = *id;
    }
    padding = token_of(*tokens, pad, from);
    end = token_of(*tokens, static_cast<int32_t>(bert.end), from);
    if (bert.end == pad) json.fail(fmt::format("`sep_token` {} is the token of padding", end));
    const UsualTokens usual = usual_tokens(bert.family);
    bert.start_token = special_token(json, "cls_token").value_or(usual.start);
    bert.mask_token = special_token(json, "mask_token").value_or(usual.mask);
    if (bert.start_token == usual.start) bert.start_token.clear();
    if (bert.mask_token == usual.mask) bert.mask_token.clear();
  }
  const std::string path = add_tokenizer_files(from, target, import);
  return vocabulary_text(path, padding, end, bert.vocab_size);
}

/// The vocabulary of the texts, if it is one of Hugging Face's.
std::optional<HuggingFaceOptions> tokenizer_of(const Config& config) {
  if (!config.data.vocabulary) return std::nullopt;
  const LanguageVocabulary language = by_side(*config.data.vocabulary).inputs;
  const auto* const vocabulary = language.get_if<HuggingFaceOptions>();
  return vocabulary ? std::optional(*vocabulary) : std::nullopt;
}

void write_pieces(const WordPieceOptions& pieces, const BertConfig& bert, const std::string& directory) {
  write_text_file(directory + "/" + kPieces, read_text_file(pieces.path.text));
  nlohmann::ordered_json tokenizer = {{"tokenizer_class", "BertTokenizer"},
                                      {"do_lower_case", pieces.lowercase},
                                      {"tokenize_chinese_chars", pieces.chinese_characters},
                                      {"model_max_length", bert.max_positions}};
  if (pieces.strip_accents) tokenizer["strip_accents"] = *pieces.strip_accents;
  write_text_file(directory + "/" + kTokenizerConfig, tokenizer.dump(2) + "\n");
}

}  // namespace

std::string settle_bert_vocabulary(const std::string& from, const ImportTarget& target, BertConfig& bert,
                                   HuggingFaceImport& import) {
  if (has_tokenizer(bert.family)) return tokenizer_vocabulary_of(from, target, bert, import);
  return wordpiece_of(from, target, bert.vocab_size, import);
}

ExportedBertVocabulary exported_bert_vocabulary(const Config& config, int64_t rows, BertConfig& bert) {
  ExportedBertVocabulary made;
  bert.vocab_size = rows;
  if (!has_tokenizer(bert.family)) {
    made.yaml = fmt::format("{{type: wordpiece, path: {}, size: {}}}", kPieces, rows);
    made.file_ids.resize(static_cast<size_t>(rows));
    std::iota(made.file_ids.begin(), made.file_ids.end(), 0);
    return made;
  }
  // Positions of a RoBERTa begin behind the id of padding; a ModernBERT without a tokeniser has the ids of the run.
  const auto pad = static_cast<int32_t>(is_roberta(bert.family) ? bert.padding() : kPadId);
  FileIds ids{.size = rows, .begin = pad, .end = pad + 1};
  if (bert.family == BertFamily::kModernBert) bert.begin = ids.end;
  if (const std::optional<HuggingFaceOptions> vocabulary = tokenizer_of(config)) {
    const Mark mark = config.mark("data.vocabulary");
    ids = file_ids_in(*vocabulary, mark);
    if (!ids.begin)
      throw Error(ErrorKind::kConfig, mark, "an encoder's vocabulary has no padding",
                  "`begin`, the token of padding, such as [PAD]");
    if (is_roberta(bert.family) && ids.begin != pad)
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("padding has the id {} in {}, and positions begin with row {}", *ids.begin,
                              vocabulary->path.text, bert.first_position),
                  fmt::format("`begin`, the token with the id {}", pad));
    const TokenizerIds tokens(vocabulary->path.text);
    const std::string directory = fs::path(vocabulary->path.text).parent_path().string();
    const std::string start =
        special_token(tokenizer_config_of(directory), "cls_token").value_or(usual_tokens(bert.family).start);
    bert.begin = tokens.id(start).value_or(ids.end);
    if (tokens.model_type() == "Unigram") bert.family = BertFamily::kXlmRoberta;
  } else if (rows < pad + 2) {
    throw Error(
        ErrorKind::kConfig, config.mark("model"),
        fmt::format("positions begin with row {}, and there are {} tokens", bert.first_position, rows),
        "`first_position: 2` of the layer positions");
  }
  made.file_ids = file_ids_of_rows(ids, rows);
  bert.end = ids.end;
  if (bert.family == BertFamily::kModernBert) bert.modern.padding = *ids.begin;
  made.yaml = vocabulary_text(kTokenizer, "begin", "end", rows);
  return made;
}

void write_bert_vocabulary(const Config& config, const BertConfig& bert, const std::string& directory,
                           std::vector<std::string>& notes) {
  const auto left_out = [&](const std::string& why) {
    notes.push_back(fmt::format("without files of the vocabulary: {}", why));
  };
  if (!config.data.vocabulary) return left_out("the configuration has none");
  if (has_tokenizer(bert.family)) {
    const std::optional<HuggingFaceOptions> vocabulary = tokenizer_of(config);
    if (!vocabulary) return left_out("it is none of Hugging Face's");
    return copy_tokenizer(*vocabulary, directory);
  }
  const LanguageVocabulary language = by_side(*config.data.vocabulary).inputs;
  const auto* pieces = language.get_if<WordPieceOptions>();
  if (!pieces) return left_out("it is no WordPiece");
  if (!fs::exists(pieces->path.text)) return left_out(fmt::format("there is no {}", pieces->path.text));
  write_pieces(*pieces, bert, directory);
}

}  // namespace mtf
