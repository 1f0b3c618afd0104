#include "trainer/programs/convert/generation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "data/vocabulary/marian_tokens.h"
#include "data/vocabulary/special_tokens.h"
#include "data/vocabulary/vocabulary_options.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// Options that change what is written, and that decoding here does not have, with the value that changes nothing.
const std::vector<std::pair<const char*, nlohmann::json>>& foreign_options() {
  static const std::vector<std::pair<const char*, nlohmann::json>> options = {
      {"begin_suppress_tokens", nullptr},
      {"constraints", nullptr},
      {"diversity_penalty", 0},
      {"dola_layers", nullptr},
      {"early_stopping", false},
      {"encoder_no_repeat_ngram_size", 0},
      {"encoder_repetition_penalty", 1},
      {"epsilon_cutoff", 0},
      {"eta_cutoff", 0},
      {"exponential_decay_length_penalty", nullptr},
      {"force_words_ids", nullptr},
      {"forced_decoder_ids", nullptr},
      {"guidance_scale", 1},
      {"num_beam_groups", 1},
      {"penalty_alpha", nullptr},
      {"renormalize_logits", false},
      {"sequence_bias", nullptr},
      {"token_healing", false},
      {"top_h", nullptr},
      {"typical_p", 1},
      {"watermarking_config", nullptr}};
  return options;
}

/// The keys that a Generation is made of.
constexpr std::array kOptions = {"do_sample",
                                 "num_beams",
                                 "temperature",
                                 "top_k",
                                 "top_p",
                                 "min_p",
                                 "length_penalty",
                                 "repetition_penalty",
                                 "no_repeat_ngram_size",
                                 "min_length",
                                 "max_length",
                                 "min_new_tokens",
                                 "max_new_tokens",
                                 "suppress_tokens",
                                 "bad_words_ids",
                                 "num_return_sequences",
                                 "forced_eos_token_id",
                                 "stop_strings"};

/// The value of `early_stopping` with which a search ends as it does here.
constexpr const char* kSearchGoesOn = "never";

double share(const HuggingFaceJson& json, const char* key, double otherwise) {
  return json.has(key) && json.at(key) == 1 ? 1 : json.number(key, otherwise);
}

std::optional<int64_t> tokens_in(const HuggingFaceJson& json, const char* key) {
  return json.has(key) ? std::optional(json.size(key, 0, 0)) : std::nullopt;
}

std::vector<int32_t> parse_ids(const HuggingFaceJson& json, const char* key) {
  std::vector<int32_t> ids;
  if (!json.has(key)) return ids;
  const nlohmann::json& list = json.at(key);
  const auto is_id = [](const nlohmann::json& id) { return id.is_number_unsigned() && id <= INT32_MAX; };
  if (!list.is_array() || !std::ranges::all_of(list, is_id))
    json.fail(fmt::format("`{}` is {}, no list of ids", key, list.dump()));
  return list.get<std::vector<int32_t>>();
}

/// The ids of `eos_token_id`, which is one or a list, without `end`.
std::vector<int32_t> parse_stop_tokens(const HuggingFaceJson& json, std::optional<int32_t> end) {
  constexpr const char* key = "eos_token_id";
  std::vector<int32_t> ids;
  if (json.has(key) && json.at(key).is_array()) {
    ids = parse_ids(json, key);
  } else if (const std::optional<int32_t> id = parse_token_id(json, key, INT32_MAX)) {
    ids = {*id};
  }
  if (end) std::erase(ids, *end);
  return ids;
}

/// True if the last token at `max_length` is `end`. Another one, which decoding here does not force, becomes a note.
bool parse_forced_end(const HuggingFaceJson& json, const std::string& path, std::optional<int32_t> end,
                      std::vector<std::string>& notes) {
  constexpr const char* key = "forced_eos_token_id";
  if (!json.has(key)) return false;
  const nlohmann::json& given = json.at(key);
  if (end && (given == *end || given == nlohmann::json::array({*end}))) return true;
  notes.push_back(fmt::format("{}: `{}: {}` is left out: only the token that ends texts can be forced{}",
                              path, key, given.dump(), end ? fmt::format(", which is {}", *end) : ""));
  return false;
}

/// Adds the words of one token of `bad_words_ids`.
void parse_bad_words(const HuggingFaceJson& json, const std::string& path, std::vector<int32_t>& ids,
                     std::vector<std::string>& notes) {
  constexpr const char* key = "bad_words_ids";
  if (!json.has(key)) return;
  for (const nlohmann::json& word : json.at(key)) {
    if (word.is_array() && word.size() == 1 && word[0].is_number_unsigned() && word[0] <= INT32_MAX) {
      ids.push_back(word[0].get<int32_t>());
    } else {
      notes.push_back(fmt::format("{}: `{}` has {}, which decoding here does not forbid: only single tokens",
                                  path, key, word.dump()));
    }
  }
}

std::string length_penalty_text(double alpha, double plus) {
  return fmt::format("length_penalty: {{alpha: {}, plus: {}}}", alpha, plus);
}

/// Tokens of a decoder that its lengths count and that are written here as what a text begins with.
int64_t forced(const GenerationLengths& lengths) { return lengths.given ? *lengths.given - 1 : 0; }

std::string method_text(const Generation& generation, const GenerationLengths& lengths,
                        std::vector<std::string>& notes) {
  const bool is_beam = generation.num_beams > 1;
  if (is_beam) {
    if (generation.do_sample)
      notes.emplace_back("`do_sample` with `num_beams`: beams are searched here, and not drawn");
    std::string text = fmt::format("method: beam, beam_size: {}", generation.num_beams);
    if (generation.num_return_sequences > 1)
      text += fmt::format(", n_best: {}", std::min(generation.num_return_sequences, generation.num_beams));
    if (generation.length_penalty >= 0)
      return text + ", " +
             length_penalty_text(generation.length_penalty, static_cast<double>(forced(lengths)));
    notes.push_back(fmt::format("`length_penalty` {} is below 0: texts are ranked by their probability",
                                generation.length_penalty));
    return text + ", length_penalty: 0";
  }
  if (!generation.do_sample) return "method: greedy";
  std::string text = "method: {type: sample";
  if (generation.temperature != 1) text += fmt::format(", temperature: {}", generation.temperature);
  if (generation.top_k > 0) text += fmt::format(", top_k: {}", generation.top_k);
  if (generation.top_p < 1) text += fmt::format(", top_p: {}", generation.top_p);
  if (generation.min_p > 0) text += fmt::format(", min_p: {}", generation.min_p);
  if (generation.num_return_sequences > 1)
    text += fmt::format(", samples: {}", generation.num_return_sequences);
  return text + "}";
}

std::string lengths_text(const Generation& generation, const GenerationLengths& lengths,
                         std::vector<std::string>& notes) {
  std::string text;
  std::optional<int64_t> most, least;
  if (generation.max_new_tokens) {
    most = *generation.max_new_tokens - forced(lengths);
  } else if (generation.max_length && *generation.max_length < lengths.most) {
    if (lengths.given) {
      most = *generation.max_length - *lengths.given;
    } else {
      notes.push_back(
          fmt::format("`max_length` {} counts the prompt, and `infer.max_length` does not: it is "
                      "left out",
                      *generation.max_length));
    }
  }
  if (generation.min_new_tokens) least = *generation.min_new_tokens - forced(lengths);
  if (generation.min_length > 0) {
    if (lengths.given) {
      least = std::max(least.value_or(0), generation.min_length - *lengths.given);
    } else {
      notes.push_back(
          fmt::format("`min_length` {} counts the prompt, and `infer.min_length` does not: it is "
                      "left out",
                      generation.min_length));
    }
  }
  if (most) *most = std::max<int64_t>(*most, 1);
  if (most) text += fmt::format(", max_length: {}", *most);
  if (least && *least > 0) text += fmt::format(", min_length: {}", most ? std::min(*least, *most) : *least);
  return text;
}

using PieceOfId = std::function<std::optional<std::string>(int32_t)>;

/// Returns what finds the piece of an id of the tokeniser's file.
PieceOfId pieces_of(const std::string& directory) {
  const auto file = [&](const char* name) {
    const std::string path = directory + "/" + name;
    return fs::exists(path) ? path : "";
  };
  if (const std::string path = file(kTokenizer); !path.empty()) {
    // Pieces of a vocabulary are tokens as texts, without the characters that stand for bytes. Any token may be its end here.
    const TokenizerIds tokens(path);
    int32_t end = 0;
    while (!tokens.token(end) && end < tokens.size()) ++end;
    HuggingFaceOptions options;
    options.path.text = path;
    options.end = token_of(tokens, end, directory);
    const std::shared_ptr<const Vocabulary> pieces = read_vocabulary(options);
    const std::vector<int32_t> file_ids = file_ids_of({.size = tokens.size(), .end = end});
    return [pieces, file_ids](int32_t id) -> std::optional<std::string> {
      const auto row = static_cast<int32_t>(std::ranges::find(file_ids, id) - file_ids.begin());
      const std::string piece = row < std::ssize(file_ids) ? pieces->piece(row) : "";
      return piece.empty() ? std::nullopt : std::optional(piece);
    };
  }
  if (const std::string path = file("spiece.model"); !path.empty()) {
    SentencePieceOptions options;
    options.path.text = path;
    const std::shared_ptr<const Vocabulary> pieces = read_vocabulary(options);
    return [pieces](int32_t id) {
      return id < pieces->size() ? std::optional(pieces->piece(id)) : std::nullopt;
    };
  }
  const bool has_pieces = !file("source.spm").empty() || !file("sentencepiece.bpe.model").empty();
  if (const std::string path = file("vocab.json"); has_pieces && !path.empty()) {
    const auto tokens = std::make_shared<const MarianTokens>(read_marian_tokens(path));
    return [tokens](int32_t id) {
      const std::string token = tokens->token(id);
      return token.empty() ? std::nullopt : std::optional(token);
    };
  }
  return [](int32_t) { return std::nullopt; };
}

}  // namespace

Generation parse_generation(const std::string& text, const std::string& path, std::optional<int32_t> end,
                            std::vector<std::string>& notes) {
  const HuggingFaceJson json(text, path);
  Generation generation;
  generation.stop_tokens = parse_stop_tokens(json, end);
  generation.is_given = !generation.stop_tokens.empty() ||
                        std::ranges::any_of(kOptions, [&](const char* key) { return json.has(key); });
  generation.do_sample = json.flag("do_sample", false);
  generation.num_beams = json.size("num_beams", 1);
  generation.temperature = json.positive("temperature", 1);
  generation.top_k = json.size("top_k", generation.top_k, 0);
  generation.top_p = share(json, "top_p", 1);
  generation.min_p = share(json, "min_p", 0);
  if (json.has("length_penalty")) {
    if (!json.at("length_penalty").is_number())
      json.fail(fmt::format("`length_penalty` is {}, no number", json.at("length_penalty").dump()));
    generation.length_penalty = json.at("length_penalty").get<double>();
  }
  generation.repetition_penalty = json.positive("repetition_penalty", 1);
  generation.no_repeat_ngram_size = json.size("no_repeat_ngram_size", 0, 0);
  generation.min_length = json.size("min_length", 0, 0);
  generation.max_length = tokens_in(json, "max_length");
  generation.min_new_tokens = tokens_in(json, "min_new_tokens");
  generation.max_new_tokens = tokens_in(json, "max_new_tokens");
  generation.suppress_tokens = parse_ids(json, "suppress_tokens");
  generation.num_return_sequences = json.size("num_return_sequences", 1);
  generation.forces_end = parse_forced_end(json, path, end, notes);
  parse_bad_words(json, path, generation.suppress_tokens, notes);
  std::ranges::sort(generation.suppress_tokens);
  const auto same = std::ranges::unique(generation.suppress_tokens);
  generation.suppress_tokens.erase(same.begin(), same.end());
  if (json.has("stop_strings")) {
    const nlohmann::json& stop = json.at("stop_strings");
    if (stop.is_string()) {
      generation.stop_strings = {stop.get<std::string>()};
    } else if (stop.is_array() &&
               std::ranges::all_of(stop, [](const nlohmann::json& one) { return one.is_string(); })) {
      generation.stop_strings = stop.get<std::vector<std::string>>();
    } else {
      json.fail(fmt::format("`stop_strings` is {}, no list of texts", stop.dump()));
    }
    std::erase(generation.stop_strings, "");
  }
  std::vector<std::string> foreign;
  for (const auto& [key, neutral] : foreign_options()) {
    if (json.has(key) && json.at(key) != neutral && json.at(key) != kSearchGoesOn)
      foreign.push_back(fmt::format("`{}: {}`", key, json.at(key).dump()));
  }
  if (!foreign.empty())
    notes.push_back(fmt::format("{}: {} {} left out, which decoding here does not have", path,
                                fmt::join(foreign, ", "), foreign.size() == 1 ? "is" : "are"));
  return generation;
}

std::string generation_file_of(const std::string& directory, std::vector<std::string>& notes) {
  const std::string generation_file = directory + "/generation_config.json",
                    config_file = directory + "/config.json";
  const HuggingFaceJson config(read_text_file(config_file), config_file);
  constexpr const char* tasks = "task_specific_params";
  if (config.has(tasks) && config.at(tasks).is_object() && !config.at(tasks).empty()) {
    std::vector<std::string> names;
    for (const auto& [name, options] : config.at(tasks).items()) names.push_back(name);
    notes.push_back(fmt::format("{}: `{}` ({}) is left out: options of decoding and prefixes of single tasks",
                                config_file, tasks, fmt::join(names, ", ")));
  }
  return fs::exists(generation_file) ? generation_file : config_file;
}

Generation read_generation(const std::string& directory, std::optional<int32_t> end,
                           std::vector<std::string>& notes) {
  const std::string file = generation_file_of(directory, notes);
  return parse_generation(read_text_file(file), file, end, notes);
}

std::string infer_text(const Generation& generation, const GenerationLengths& lengths,
                       const std::function<std::optional<std::string>(int32_t)>& token,
                       std::vector<std::string>& notes) {
  if (!generation.is_given) return {};
  std::string text = method_text(generation, lengths, notes);
  text += lengths_text(generation, lengths, notes);
  if (generation.forces_end) text += ", force_end: true";
  if (generation.no_repeat_ngram_size > 0)
    text += fmt::format(", no_repeat_ngram_size: {}", generation.no_repeat_ngram_size);
  if (generation.repetition_penalty != 1)
    text += fmt::format(", repetition_penalty: {}", generation.repetition_penalty);
  const auto add_pieces = [&](const char* key, const std::vector<int32_t>& ids, const char* theirs) {
    std::vector<std::string> pieces;
    std::vector<int32_t> unknown;
    for (const int32_t id : ids) {
      if (const std::optional<std::string> piece = token(id)) {
        pieces.push_back(quoted(*piece));
      } else {
        unknown.push_back(id);
      }
    }
    if (!pieces.empty()) text += fmt::format(", {}: [{}]", key, fmt::join(pieces, ", "));
    if (!unknown.empty())
      notes.push_back(
          fmt::format("{} ids of no token, which are left out: {}", theirs, fmt::join(unknown, ", ")));
  };
  add_pieces("suppress_tokens", generation.suppress_tokens, "`suppress_tokens` and `bad_words_ids` have");
  add_pieces("stop_tokens", generation.stop_tokens, "`eos_token_id` has");
  if (!generation.stop_strings.empty()) {
    std::vector<std::string> stop;
    for (const std::string& words : generation.stop_strings) stop.push_back(quoted(words));
    text += fmt::format(", stop: [{}]", fmt::join(stop, ", "));
  }
  return text;
}

Generation generation_of(const DecodeOptions& infer, const GenerationLengths& lengths,
                         const std::function<std::optional<int32_t>(const config::Name&)>& id,
                         std::vector<std::string>& notes) {
  Generation generation;
  generation.is_given = true;
  generation.num_beams = infer.is_beam() ? infer.beam_size : 1;
  if (const SampleMethod* method = infer.sampling()) {
    generation.do_sample = method->temperature > 0;
    if (generation.do_sample) generation.temperature = method->temperature;
    generation.top_k = method->top_k;
    generation.top_p = method->top_p;
    generation.min_p = method->min_p;
    generation.num_return_sequences = infer.hypotheses();
    if (method->presence_penalty != 0 || method->frequency_penalty != 0)
      notes.emplace_back("`presence_penalty` and `frequency_penalty` are left out: transformers has neither");
  }
  if (generation.num_beams > 1) {
    generation.num_return_sequences = infer.n_best;
    const LengthPenalty penalty = infer.penalty_of_length();
    generation.length_penalty = penalty.alpha;
    if (penalty.alpha > 0 && penalty.plus != static_cast<double>(forced(lengths)))
      notes.push_back(
          fmt::format("`length_penalty` {}: transformers ranks by the length alone to this power, and not "
                      "the length + {}",
                      penalty.alpha, penalty.plus));
  }
  generation.repetition_penalty = infer.repetition_penalty;
  generation.no_repeat_ngram_size = infer.no_repeat_ngram_size;
  generation.forces_end = infer.force_end;
  generation.stop_strings = infer.stop;
  const auto* most = std::get_if<int64_t>(&infer.max_length);
  if (lengths.given) {
    if (most) generation.max_length = *most + *lengths.given;
    if (infer.min_length > 0) generation.min_length = infer.min_length + *lengths.given;
  } else {
    if (most) generation.max_new_tokens = *most;
    if (infer.min_length > 0) generation.min_new_tokens = infer.min_length;
  }
  const auto add_ids = [&](const char* key, const std::vector<config::Name>& pieces,
                           std::vector<int32_t>& ids) {
    for (const config::Name& piece : pieces) {
      if (const std::optional<int32_t> found = id(piece)) {
        ids.push_back(*found);
      } else {
        notes.push_back(
            fmt::format("`{}`: {} is left out, which is no token of the tokeniser", key, piece.text));
      }
    }
  };
  add_ids("suppress_tokens", infer.suppress_tokens, generation.suppress_tokens);
  add_ids("stop_tokens", infer.stop_tokens, generation.stop_tokens);
  std::ranges::sort(generation.suppress_tokens);
  return generation;
}

std::function<std::optional<std::string>(int32_t)> tokens_of(const std::string& directory) {
  return [directory, find = PieceOfId()](int32_t id) mutable {
    if (!find) find = pieces_of(directory);
    return find(id);
  };
}

std::function<std::optional<int32_t>(const config::Name&)> written_token_ids(const Config& config) {
  const auto none = [](const config::Name&) { return std::nullopt; };
  if (!config.data.vocabulary || (config.infer.suppress_tokens.empty() && config.infer.stop_tokens.empty()))
    return none;
  const LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
  const auto of_rows = [](std::shared_ptr<const Vocabulary> pieces, std::vector<int32_t> file_ids) {
    return [pieces = std::move(pieces), file_ids = std::move(file_ids)](const config::Name& piece) {
      const int32_t id = required_piece(piece.text, *pieces, piece.mark);
      return std::optional(file_ids.empty() ? id : file_ids.at(static_cast<size_t>(id)));
    };
  };
  if (const auto* vocabulary = language.get_if<HuggingFaceOptions>()) {
    const FileIds ids = file_ids_in(*vocabulary, config.mark("data.vocabulary"));
    return of_rows(read_vocabulary(*vocabulary), file_ids_of(ids));
  }
  if (const auto* vocabulary = language.get_if<MarianOptions>()) {
    const auto tokens = std::make_shared<const MarianTokens>(
        read_marian_tokens(vocabulary->ids.text, vocabulary->added_tokens));
    return [tokens](const config::Name& piece) { return tokens->id(piece.text); };
  }
  if (const auto* vocabulary = language.get_if<SentencePieceOptions>();
      vocabulary && !vocabulary->is_trained())
    return of_rows(read_vocabulary(*vocabulary), {});
  return none;
}

void add_generation(const Generation& generation, nlohmann::ordered_json& json) {
  const Generation usual;
  const auto add = [&](const char* key, const auto& value, const auto& otherwise) {
    if (value != otherwise) json[key] = value;
  };
  add("do_sample", generation.do_sample, usual.do_sample);
  json["num_beams"] = generation.num_beams;
  if (generation.do_sample) {
    add("temperature", generation.temperature, usual.temperature);
    json["top_k"] = generation.top_k;
    add("top_p", generation.top_p, usual.top_p);
    add("min_p", generation.min_p, usual.min_p);
  }
  add("length_penalty", generation.length_penalty, usual.length_penalty);
  add("repetition_penalty", generation.repetition_penalty, usual.repetition_penalty);
  add("no_repeat_ngram_size", generation.no_repeat_ngram_size, usual.no_repeat_ngram_size);
  add("min_length", generation.min_length, usual.min_length);
  const auto add_tokens = [&](const char* key, const std::optional<int64_t>& tokens) {
    if (tokens) json[key] = *tokens;
  };
  add_tokens("max_length", generation.max_length);
  add_tokens("min_new_tokens", generation.min_new_tokens);
  add_tokens("max_new_tokens", generation.max_new_tokens);
  add("suppress_tokens", generation.suppress_tokens, usual.suppress_tokens);
  add("num_return_sequences", generation.num_return_sequences, usual.num_return_sequences);
  add("stop_strings", generation.stop_strings, usual.stop_strings);
  if (generation.forces_end) json["forced_eos_token_id"] = json.at("eos_token_id");
  if (generation.stop_tokens.empty()) return;
  std::vector<int32_t> ends = {json.at("eos_token_id").get<int32_t>()};
  std::ranges::copy(generation.stop_tokens, std::back_inserter(ends));
  json["eos_token_id"] = ends;
}

}  // namespace mtf
