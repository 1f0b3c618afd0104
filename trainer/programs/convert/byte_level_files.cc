#include "trainer/programs/convert/byte_level_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr const char *kByteLevelIds = "vocab.json", *kByteLevelMerges = "merges.txt";

enum class ByteLevelKind { kGpt2, kRoberta, kQwen2 };

struct NamedKind {
  std::string_view name;
  ByteLevelKind kind;
};

/// By `tokenizer_class`, in which "Fast" at the end means nothing.
constexpr std::array kByteLevelClasses = {
    NamedKind{"GPT2Tokenizer", ByteLevelKind::kGpt2}, NamedKind{"CodeGenTokenizer", ByteLevelKind::kGpt2},
    NamedKind{"RobertaTokenizer", ByteLevelKind::kRoberta},
    NamedKind{"BartTokenizer", ByteLevelKind::kRoberta}, NamedKind{"Qwen2Tokenizer", ByteLevelKind::kQwen2}};
/// By `model_type`, where there is no class.
constexpr std::array kByteLevelModels = {
    NamedKind{"gpt2", ByteLevelKind::kGpt2},       NamedKind{"opt", ByteLevelKind::kGpt2},
    NamedKind{"phi", ByteLevelKind::kGpt2},        NamedKind{"starcoder2", ByteLevelKind::kGpt2},
    NamedKind{"roberta", ByteLevelKind::kRoberta}, NamedKind{"bart", ByteLevelKind::kRoberta},
    NamedKind{"qwen2", ByteLevelKind::kQwen2},     NamedKind{"qwen2_moe", ByteLevelKind::kQwen2},
    NamedKind{"qwen3", ByteLevelKind::kQwen2},     NamedKind{"qwen3_moe", ByteLevelKind::kQwen2}};

/// The words of a Qwen2.
constexpr const char* kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::optional<ByteLevelKind> kind_named(const std::string& name, const auto& kinds) {
  const auto found = std::ranges::find(kinds, name, &NamedKind::name);
  return found == kinds.end() ? std::nullopt : std::optional(found->kind);
}

HuggingFaceJson json_in(const std::string& directory, const char* name) {
  const std::string file = directory + "/" + name;
  return {fs::exists(file) ? read_text_file(file) : "{}", file};
}

std::optional<ByteLevelKind> byte_level_kind(const std::string& directory) {
  const std::string fast = "Fast";
  std::string given = tokenizer_config_of(directory).text("tokenizer_class", "");
  if (given.ends_with(fast)) given.resize(given.size() - fast.size());
  if (!given.empty()) return kind_named(given, kByteLevelClasses);
  return kind_named(json_in(directory, "config.json").text("model_type", ""), kByteLevelModels);
}

nlohmann::ordered_json read_merges(const std::string& path) {
  nlohmann::ordered_json merges = nlohmann::ordered_json::array();
  std::istringstream lines(read_text_file(path));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t blank = line.find(' ');
    if (blank == 0 || blank >= line.size() - 1 || line.find(' ', blank + 1) != std::string::npos)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{}:{}: the line is no merge", path, number),
                  "two pieces with a blank between them");
    merges.push_back({line.substr(0, blank), line.substr(blank + 1)});
  }
  return merges;
}

/// Tokens that stand in texts as they are, by their ids.
class AddedTokenList {
 public:
  AddedTokenList(const std::string& directory, const HuggingFaceJson& ids, ByteLevelKind kind)
      : ids_(ids),
        config_(tokenizer_config_of(directory)),
        map_(json_in(directory, "special_tokens_map.json")) {
    if (config_.has("added_tokens_decoder")) {
      for (const auto& [id, token] : config_.at("added_tokens_decoder").items())
        add(number_of_id(id), token, true);
    }
    const HuggingFaceJson added = json_in(directory, "added_tokens.json");
    for (const auto& [token, id] : added.all().items()) {
      if (!id.is_number_unsigned())
        added.fail(fmt::format("`{}` has the id {}", token, id.dump()), "a number");
      add(id.get<int64_t>(), {{"content", token}}, is_named_special(token));
    }
    const bool is_roberta = kind == ByteLevelKind::kRoberta;
    const char* const end = "<|endoftext|>";
    for (const auto& [key, otherwise] : std::initializer_list<std::pair<const char*, const char*>>{
             {"bos_token", is_roberta                      ? "<s>"
                           : kind == ByteLevelKind::kQwen2 ? ""
                                                           : end},
             {"eos_token", is_roberta ? "</s>" : end},
             {"unk_token", is_roberta ? "<unk>" : end},
             {"sep_token", is_roberta ? "</s>" : ""},
             {"pad_token", is_roberta                      ? "<pad>"
                           : kind == ByteLevelKind::kQwen2 ? end
                                                           : ""},
             {"cls_token", is_roberta ? "<s>" : ""},
             {"mask_token", is_roberta ? "<mask>" : ""}})
      add_special(key, otherwise, is_roberta);
    for (const HuggingFaceJson* json : {&config_, &map_}) {
      const char* const more = "additional_special_tokens";
      if (!json->has(more)) continue;
      for (const nlohmann::json& token : json->at(more)) add_known(as_object(token));
    }
  }

  nlohmann::ordered_json list() const {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const auto& [id, token] : tokens_) tokens.push_back(token);
    return tokens;
  }

 private:
  static nlohmann::json as_object(const nlohmann::json& token) {
    return token.is_object() ? token : nlohmann::json{{"content", token}};
  }

  int64_t number_of_id(const std::string& text) const {
    const bool is_number = !text.empty() && text.size() < 10 &&
                           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) config_.fail(fmt::format("`added_tokens_decoder` has the id {}", text), "a number");
    return std::stoll(text);
  }

  bool is_named_special(const std::string& token) const {
    for (const HuggingFaceJson* json : {&config_, &map_}) {
      for (const auto& [key, value] : json->all().items()) {
        if (!key.ends_with("_token") && key != "additional_special_tokens") continue;
        const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
        if (std::ranges::any_of(
                list, [&](const nlohmann::json& one) { return as_object(one)["content"] == token; }))
          return true;
      }
    }
    return false;
  }

  /// A token that the files do not name is that of the class. Before a mask blanks belong to it.
  void add_special(const char* key, const std::string& otherwise, bool is_roberta) {
    nlohmann::json token = {{"content", otherwise}};
    if (is_roberta && std::string_view(key) == "mask_token") token["lstrip"] = true;
    for (const HuggingFaceJson* json : {&map_, &config_})
      if (json->has(key)) token = as_object(json->at(key));
    add_known(token);
  }

  /// Adds a special token that has an id.
  void add_known(const nlohmann::json& token) {
    const auto content = token.find("content");
    if (content == token.end() || !content->is_string())
      config_.fail(fmt::format("{} is no token", token.dump()));
    const std::string text = content->get<std::string>();
    if (ids_.has(text.c_str()) && ids_.at(text.c_str()).is_number_unsigned())
      add(ids_.at(text.c_str()).get<int64_t>(), token, true);
  }

  /// The first one of an id counts.
  void add(int64_t id, const nlohmann::json& token, bool is_special) {
    if (!token.is_object() || !token.contains("content"))
      config_.fail(fmt::format("the added token {} is {}", id, token.dump()), "an object with `content`");
    const bool special = token.value("special", is_special);
    tokens_.try_emplace(id, nlohmann::ordered_json{{"id", id},
                                                   {"content", token["content"]},
                                                   {"single_word", token.value("single_word", false)},
                                                   {"lstrip", token.value("lstrip", false)},
                                                   {"rstrip", token.value("rstrip", false)},
                                                   {"normalized", token.value("normalized", !special)},
                                                   {"special", special}});
  }

  const HuggingFaceJson& ids_;
  HuggingFaceJson config_, map_;
  std::map<int64_t, nlohmann::ordered_json> tokens_;
};

nlohmann::ordered_json byte_level_step(bool has_blank_before, bool finds_words) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", has_blank_before},
          {"trim_offsets", true},
          {"use_regex", finds_words}};
}

/// What a RoBERTa writes around texts, for transformers; a model here knows it.
nlohmann::ordered_json roberta_rows(const HuggingFaceJson& ids, bool has_blank_before) {
  const auto token = [&](const char* text) {
    if (!ids.has(text)) ids.fail(fmt::format("there is no `{}`", text), "as in each RoBERTa and BART");
    return nlohmann::ordered_json::array({text, ids.at(text)});
  };
  return {{"type", "RobertaProcessing"},
          {"sep", token("</s>")},
          {"cls", token("<s>")},
          {"trim_offsets", true},
          {"add_prefix_space", has_blank_before}};
}

}  // namespace

std::optional<std::string> byte_level_tokenizer(const std::string& directory) {
  const std::string merges = directory + "/" + kByteLevelMerges, ids_file = directory + "/" + kByteLevelIds;
  if (!fs::exists(merges) || !fs::exists(ids_file)) return std::nullopt;
  const std::optional<ByteLevelKind> kind = byte_level_kind(directory);
  if (!kind) return std::nullopt;
  const HuggingFaceJson ids(read_text_file(ids_file), ids_file);
  const bool has_blank_before = tokenizer_config_of(directory).flag("add_prefix_space", false),
             is_qwen2 = *kind == ByteLevelKind::kQwen2;
  nlohmann::ordered_json words = byte_level_step(has_blank_before, !is_qwen2);
  if (is_qwen2)
    words = {{"type", "Sequence"},
             {"pretokenizers",
              {{{"type", "Split"},
                {"pattern", {{"Regex", kQwen2Words}}},
                {"behavior", "Isolated"},
                {"invert", false}},
               words}}};
  nlohmann::ordered_json rows = nullptr;
  if (*kind == ByteLevelKind::kRoberta) rows = roberta_rows(ids, has_blank_before);
  const nlohmann::ordered_json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", AddedTokenList(directory, ids, *kind).list()},
      {"normalizer", is_qwen2 ? nlohmann::ordered_json{{"type", "NFC"}} : nullptr},
      {"pre_tokenizer", words},
      {"post_processor", rows},
      {"decoder", byte_level_step(true, true)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", ""},
        {"end_of_word_suffix", ""},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", ids.all()},
        {"merges", read_merges(merges)}}}};
  return json.dump(2) + "\n";
}

}  // namespace mtf
