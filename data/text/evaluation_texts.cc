#include "data/text/evaluation_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/paths.h"
#include "data/text/line_reader.h"
#include "data/text/text_reader.h"

namespace mtf {
namespace {

std::string text_of(const TextField& field, const std::shared_ptr<const Vocabulary>& vocabulary) {
  return field.has_ids && vocabulary ? vocabulary->decode(field.ids) : field.text;
}

std::vector<std::string> read_lines(const std::string& path, const TextLimit& limit, TextProblems& problems) {
  std::vector<std::string> lines;
  try {
    LineReader reader(path, problems, limit);
    while (const auto line = reader.next()) lines.emplace_back(*line);
  } catch (const Error& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
  }
  return lines;
}

}  // namespace

EvaluationTexts read_evaluation_texts(const TextSourceOptions& options,
                                      const std::vector<config::Path>& references,
                                      const TextVocabularies& vocabularies, const Mark& mark,
                                      const TextLimit& limit) {
  std::vector<Problem> missing;
  const TextFiles files = find_text_files(options, mark, missing, limit);
  const std::vector<std::string> reference_files = find_regular_files(references, missing);
  if (!missing.empty()) throw Error(std::move(missing));

  TextProblems problems;
  TextReader reader(files, {}, problems);
  const std::vector<Side> sides = options.sides();
  const auto has = [&](Side side) { return std::ranges::find(sides, side) != sides.end(); };
  EvaluationTexts texts;
  if (reference_files.empty() && has(Side::kTargets)) texts.references.emplace_back();
  int64_t examples = 0;
  for (TextExample example; reader.next(example); ++examples) {
    if (has(Side::kInputs)) texts.inputs.push_back(text_of(example.inputs, vocabularies.inputs));
    if (!texts.references.empty())
      texts.references[0].push_back(text_of(example.targets, vocabularies.targets));
  }
  for (const std::string& path : reference_files) {
    std::vector<std::string>& lines = texts.references.emplace_back(read_lines(path, limit, problems));
    if (static_cast<int64_t>(lines.size()) == examples) continue;
    problems.add({ErrorKind::kData,
                  {},
                  fmt::format("{} has {} lines, and {} has {} examples", path, lines.size(),
                              fmt::join(files.groups.front(), ", "), examples),
                  "one reference in each line, for each example",
                  {}});
  }
  problems.throw_if_any();
  return texts;
}

}  // namespace mtf
