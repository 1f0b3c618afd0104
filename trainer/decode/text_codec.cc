#include "trainer/decode/text_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/text/lowercase.h"
#include "data/text/token_words.h"
#include "engine/base/counted.h"
#include "engine/base/print_message.h"
#include "trainer/decode/text_rules.h"
#include "trainer/session/inputs_parts.h"

namespace mtf {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

const TextDecoder& decoder_of(const Session& session) {
  const TextDecoder* decoder = session.model ? session.model->decoder() : nullptr;
  if (decoder == nullptr) {
    throw Error(ErrorKind::kConfig, session.config.mark("model"), "this model does not write texts",
                session.model == nullptr || session.model->features_of_prediction().empty()
                    ? "`type: lm`, `delimited_lm` or `bitransformer`"
                    : "run.mode=infer with `infer.format: jsonl` gives the probabilities of its predictions");
  }
  if (!session.vocabularies.targets || (decoder->has_encoder() && !session.vocabularies.inputs)) {
    throw Error(ErrorKind::kConfig, session.config.mark("data"), "`data.vocabulary` is missing",
                "for example {type: sentencepiece, path: FILE}");
  }
  return *decoder;
}

}  // namespace

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

void warn_of_cuts(int64_t lines) {
  if (lines == 0) return;
  print_message("warning: {} longer than the model has positions: cut\n", counted(lines, "line"));
}

TextCodec::TextCodec(const Session& session, const DecodeOptions& options)
    : decoder_(decoder_of(session)),
      vocabularies_(session.vocabularies),
      options_(options),
      lowercase_(session.config.data.lowercase),
      ends_prompts_(mtf::ends_prompts(session)) {
  ids_of_pieces(options_.suppress_tokens, written());  // throws before anything is read
  stop_tokens_ = ids_of_pieces(options_.stop_tokens, written());
}

std::vector<int32_t> TextCodec::encode(const Vocabulary& vocabulary, std::string_view text) const {
  return vocabulary.encode(lowercase_ ? to_lower_case(text) : std::string(text));
}

GivenText TextCodec::given(std::string_view line, std::string_view prefix, uint64_t number, bool& was_cut,
                           std::span<const size_t> parts) const {
  GivenText given;
  given.number = number;
  const std::optional<int64_t> longest = decoder_.longest_text();
  const auto most = static_cast<size_t>(longest.value_or(int64_t{1} << 40));
  if (has_encoder()) {
    given.inputs = encode(*vocabularies_.inputs, line);
    was_cut |= given.inputs.size() + 1 > most;
    given.inputs.resize(std::min(given.inputs.size(), most - 1));
    given.inputs.push_back(kEosId);
  } else {
    size_t begin = 0;
    const auto add = [&](size_t end) {
      const std::vector<int32_t> ids = encode(*vocabularies_.targets, line.substr(begin, end - begin));
      given.prefix.insert(given.prefix.end(), ids.begin(), ids.end());
      begin = end;
    };
    for (const size_t end : parts) add(end);
    if (begin < line.size() || parts.empty()) add(line.size());
    if (ends_prompts_) given.prefix.push_back(kEosId);
    given.prompt = std::ssize(given.prefix);
  }
  if (!prefix.empty()) {
    const std::vector<int32_t> begins = encode(*vocabularies_.targets, prefix);
    given.prefix.insert(given.prefix.end(), begins.begin(), begins.end());
  }
  given.is_blank = has_encoder() && is_blank(line) && given.prefix.empty();
  if (has_encoder() && given.prefix.empty() && written().first_token())
    given.prefix.push_back(*written().first_token());
  if (given.prefix.size() + 1 > most) {
    was_cut = true;
    const int64_t cut = std::ssize(given.prefix) - static_cast<int64_t>(most - 1);
    given.prefix.erase(given.prefix.begin(), given.prefix.begin() + cut);
    given.prompt = std::max<int64_t>(0, given.prompt - cut);
  }
  given.limit =
      options_.limit(static_cast<int64_t>(has_encoder() ? given.inputs.size() : given.prefix.size()));
  return given;
}

std::vector<GivenText> TextCodec::given_lines(const std::vector<std::string>& lines) const {
  std::vector<GivenText> given;
  for (const std::string& line : lines) {
    bool was_cut = false;
    given.push_back(this->given(line, "", given.size(), was_cut));
  }
  return given;
}

std::vector<int32_t> TextCodec::written_ids(std::string_view line, bool& was_cut) const {
  std::vector<int32_t> ids = encode(written(), line);
  const auto most = static_cast<size_t>(decoder_.longest_text().value_or(int64_t{1} << 40)) - 1;
  was_cut |= ids.size() > most;
  ids.resize(std::min(ids.size(), most));
  return ids;
}

std::vector<int32_t> TextCodec::words(const Vocabulary& vocabulary, std::string_view line,
                                      std::span<const int32_t> ids) const {
  const bool has_end = !ids.empty() && ids.back() == kEosId;
  const std::span<const int32_t> of_text = ids.first(ids.size() - (has_end ? 1 : 0));
  std::vector<int32_t> words =
      words_of_tokens(vocabulary, lowercase_ ? to_lower_case(line) : std::string(line), of_text);
  words.resize(ids.size(), kNoWord);
  return words;
}

std::vector<int32_t> TextCodec::input_words(std::string_view line, std::span<const int32_t> ids) const {
  return words(read(), line, ids);
}

std::vector<int32_t> TextCodec::written_words(std::string_view line, std::span<const int32_t> ids) const {
  return words(written(), line, ids);
}

bool TextCodec::is_stop_token(int32_t token) const {
  return std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
}

std::string TextCodec::text(const GivenText& given, const Hypothesis& hypothesis, bool with_prefix) const {
  std::vector<int32_t> ids;
  std::ranges::copy_if(given.prefix, std::back_inserter(ids), [](int32_t id) { return id != kEosId; });
  const size_t given_size = options_.stop.empty() ? 0 : written().decode(ids).size();
  std::span<const int32_t> tokens = hypothesis.tokens;
  if (!tokens.empty() && is_stop_token(tokens.back())) tokens = tokens.first(tokens.size() - 1);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  const std::string all = with_prefix || !options_.stop.empty() ? written().decode(ids) : "";
  const size_t cut = all.size() - first_stop(all, given_size, options_.stop);
  std::string text = with_prefix ? all : written().decode(tokens);
  text.resize(text.size() - std::min(cut, text.size()));
  return text;
}

}  // namespace mtf
