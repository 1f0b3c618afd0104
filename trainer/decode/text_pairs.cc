#include "trainer/decode/text_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mtf {
namespace {

TextFiles text_files_of(const TextColumns& columns, const TextLimit& limit) {
  std::vector<Problem> missing;
  TextFiles files =
      find_text_files(*columns.source.get_if<TextSourceOptions>(), columns.mark, missing, limit);
  if (!missing.empty()) throw Error(std::move(missing));
  return files;
}

}  // namespace

const TextSourceOptions& texts_of(const SourceChoice& source, std::string_view key, const Mark& mark) {
  const auto* const texts = source.get_if<TextSourceOptions>();
  if (texts == nullptr)
    throw Error(
        ErrorKind::kConfig, mark,
        fmt::format("`{}` is a source of type {}, and the model reads and writes texts", key, source.type()),
        "a source of type text, parallel, tsv, jsonl, chat or tfrecord");
  if (texts->objective)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`{}` has an `objective`, which makes other examples of the texts", key),
                "leave it out: the texts are read as they are");
  if (texts->has_preferences())
    throw Error(
        ErrorKind::kConfig, mark,
        fmt::format("`{}` is a source of type {}, whose prompts have two answers each", key, source.type()),
        "a source of one text for each prompt, such as chat or jsonl");
  return *texts;
}

bool has_side(const TextSourceOptions& source, Side side) {
  const std::vector<Side> sides = source.sides();
  return std::ranges::find(sides, side) != sides.end() || source.has_answers();
}

int64_t check_texts(const TextColumns& columns, const TextLimit& limit) {
  const TextFiles files = text_files_of(columns, limit);
  TextProblems problems;
  TextReader reader(files, {}, problems);
  int64_t count = 0;
  for (TextExample example; reader.next(example);) ++count;
  problems.throw_if_any();
  return count;
}

TextPairs::TextPairs(const TextColumns& columns, const TextLimit& limit)
    : columns_(columns), files_(text_files_of(columns, limit)) {
  reader_.emplace(files_, BySide<int64_t>{}, problems_);
}

std::string TextPairs::text(const TextExample& example, Side side) const {
  if (columns_.source.get_if<TextSourceOptions>()->has_answers())
    return std::string(side == Side::kInputs ? example.targets.prompt() : example.targets.answer());
  const TextField& field = example[side];
  const auto& vocabulary = columns_.vocabularies[side];
  return field.has_ids && vocabulary ? vocabulary->decode(field.ids) : field.text;
}

LinePairs TextPairs::take(size_t most) {
  LinePairs pairs;
  for (TextExample example; pairs.size() < most && reader_->next(example);) {
    LinePair& pair = pairs.emplace_back();
    pair.first = text(example, columns_.first);
    if (columns_.second) pair.second = text(example, *columns_.second);
    const bool is_answer =
        columns_.first == Side::kTargets && columns_.source.get_if<TextSourceOptions>()->has_answers();
    if (is_answer && pair.first.empty())
      throw Error(ErrorKind::kData, columns_.mark,
                  fmt::format("conversation {} ends without an answer to score", ++number_),
                  "conversations that end with what the model says");
    ++number_;
    const size_t prompt = example.targets.prompt().size();
    for (const TextPart& part : example.targets.parts) {
      if (part.end <= prompt) pair.prompt_parts.push_back(part.end);
    }
  }
  problems_.throw_if_any();
  return pairs;
}

}  // namespace mtf
