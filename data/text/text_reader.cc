#include "data/text/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/paths.h"
#include "data/text/text_formats.h"

namespace mtf {

std::vector<std::vector<std::string>> ParallelOptions::file_groups(const Mark& mark,
                                                                   std::vector<Problem>& problems) const {
  const size_t problems_before = problems.size();
  const std::vector<std::string> of_inputs = find_regular_files(inputs, problems);
  const std::vector<std::string> of_targets = find_regular_files(targets, problems);
  const std::vector<std::string> of_links = find_regular_files(alignments, problems);
  if (problems.size() > problems_before) return {};
  if (of_inputs.empty() || of_inputs.size() != of_targets.size()) {
    problems.push_back(
        {ErrorKind::kConfig,
         mark,
         fmt::format("{} files of inputs and {} of targets", of_inputs.size(), of_targets.size()),
         "one file of targets for each file of inputs",
         {}});
    return {};
  }
  if (!alignments.empty() && of_links.size() != of_inputs.size()) {
    problems.push_back(
        {ErrorKind::kConfig,
         mark,
         fmt::format("{} files of inputs and {} of alignments", of_inputs.size(), of_links.size()),
         "one file of alignments for each file of inputs",
         {}});
    return {};
  }
  std::vector<std::vector<std::string>> groups;
  for (size_t i = 0; i < of_inputs.size(); ++i) {
    groups.push_back({of_inputs[i], of_targets[i]});
    if (!of_links.empty()) groups.back().push_back(of_links[i]);
  }
  return groups;
}

std::vector<std::vector<std::string>> FilesOfTexts::file_groups(const Mark& mark,
                                                                std::vector<Problem>& problems) const {
  const size_t problems_before = problems.size();
  std::vector<std::vector<std::string>> groups;
  for (std::string& file : find_regular_files(path, problems)) groups.push_back({std::move(file)});
  if (groups.empty() && problems.size() == problems_before)
    problems.push_back({ErrorKind::kConfig, mark, "`path` names no file", "a path, a list or a glob", {}});
  return groups;
}

TextFiles find_text_files(const TextSourceOptions& options, const Mark& mark, std::vector<Problem>& problems,
                          const TextLimit& limit) {
  return {options.choice(), options.file_groups(mark, problems), limit};
}

bool TextField::empty() const {
  return has_ids ? ids.empty() : text.find_first_not_of(" \t\n\v\f\r") == std::string::npos;
}

size_t TextField::end_of_prompt() const {
  const auto unlearned =
      std::find_if(parts.rbegin(), parts.rend(), [](const TextPart& part) { return !part.learned; });
  return unlearned == parts.rend() ? 0 : unlearned->end;
}

TextReader::TextReader(const TextFiles& files, const BySide<int64_t>& vocabulary_sizes,
                       TextProblems& problems)
    : files_(files), vocabulary_sizes_(vocabulary_sizes), problems_(problems), limit_(files.limit) {
  limit_.longest = &longest_;
  for (const std::vector<std::string>& group : files.groups) {
    for (const std::string& file : group) {
      std::error_code error;
      const auto size = std::filesystem::file_size(file, error);
      if (!error) bytes_ += static_cast<int64_t>(size);
    }
  }
}

bool TextReader::next(TextExample& example) {
  while (format_ || next_group_ < files_.groups.size()) {
    try {
      if (!format_) {
        const FormatContext context{files_.groups[next_group_++], limit_, vocabulary_sizes_, problems_,
                                    blank_lines_};
        format_ = files_.source().open_format(context);
      }
      if (format_->next(example)) return true;
      bytes_of_groups_ += format_->bytes_read();
    } catch (const Error& error) {  // the rest of the file is skipped; other files may have problems, too
      for (const Problem& problem : error.problems()) problems_.add(problem);
    }
    format_.reset();
  }
  return false;
}

int64_t TextReader::bytes_read() const { return bytes_of_groups_ + (format_ ? format_->bytes_read() : 0); }

void for_each_text(const TextFiles& files, const std::function<void(Side, std::string_view)>& use) {
  TextProblems problems;
  TextReader reader(files, {}, problems);
  const std::vector<Side> sides = files.source().sides();
  for (TextExample example; reader.next(example);) {
    for (const Side side : sides) {
      if (!example[side].has_ids && !example[side].empty()) use(side, example[side].text);
    }
  }
  problems.throw_if_any();
}

}  // namespace mtf
