// The source `csv`: lines of numbers between commas, of which the last `targets` are to be predicted.
#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "data/input_file.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/text/text_settings.h"
#include "engine/base/parse_number.h"

namespace mtf {
namespace {

constexpr int64_t kLargestTable = int64_t{1} << 32;

/// The numbers of one line. `place` is for messages.
std::vector<float> numbers_of(std::string_view line, const std::string& place) {
  std::vector<float> numbers;
  while (true) {
    const std::string_view word = line.substr(0, line.find(','));
    const auto number = parse_number<float>(word);
    if (!number)
      throw Error(ErrorKind::kData, fmt::format("{}: `{}` is not a number", place, word),
                  "numbers between commas");
    numbers.push_back(*number);
    if (word.size() == line.size()) return numbers;
    line.remove_prefix(word.size() + 1);
  }
}

/// All lines of a file.
std::vector<std::vector<float>> rows_of(const std::string& path) {
  const std::string text = read_file(path, "a file of numbers", kLargestTable);
  std::vector<std::vector<float>> rows;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string place = fmt::format("{}:{}", path, rows.size() + 1);
    rows.push_back(numbers_of(std::string_view(text).substr(begin, end - begin), place));
    if (rows.back().size() != rows[0].size())
      throw Error(ErrorKind::kData, fmt::format("{}: {} numbers", place, rows.back().size()),
                  fmt::format("{} numbers, as in the first line", rows[0].size()));
    begin = end + 1;
  }
  if (rows.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: there are no lines", path), "one line at least");
  return rows;
}

/// Features `x` [inputs] and `y` [targets], both float32.
struct CsvOptions final : SourceOptions {
  static constexpr std::string_view type_name = "csv";
  static constexpr bool type_required = true;  // a map without `type` is a mistake
  std::vector<config::Path> path;
  int64_t targets = 1;

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    std::vector<Problem> missing;
    const std::vector<std::string> files = find_regular_files(path, missing);
    if (!missing.empty()) throw Error(std::move(missing));
    if (files.size() != 1)
      throw Error(ErrorKind::kData, context.mark, fmt::format("`path` names {} files", files.size()),
                  "one file");
    const std::vector<std::vector<float>> rows = rows_of(files[0]);
    const int64_t inputs = static_cast<int64_t>(rows[0].size()) - targets;
    if (inputs < 1)
      throw Error(ErrorKind::kData, context.mark,
                  fmt::format("{} has {} numbers in a line, `targets` of which are {}", files[0],
                              rows[0].size(), targets),
                  "less targets");
    std::vector<std::vector<std::byte>> values(2);
    for (const std::vector<float>& row : rows) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(row.data());
      values[0].insert(values[0].end(), bytes, bytes + inputs * sizeof(float));
      values[1].insert(values[1].end(), bytes + inputs * sizeof(float), bytes + row.size() * sizeof(float));
    }
    return std::make_unique<MemorySource>(
        std::vector<Feature>{{"x", {{"inputs", inputs}}, DType::kFloat32},
                             {"y", {{"targets", targets}}, DType::kFloat32}},
        std::move(values));
  }
  std::vector<config::Path*> paths() override { return pointers_to({&path}); }
};

void describe(config::Visitor& visit, CsvOptions& options) {
  visit("path", options.path, "a file of lines of numbers between commas, plain or .gz", config::required);
  visit("targets", options.targets, "the last so many numbers of a line are feature `y`, the others `x`",
        config::positive);
}

const config::Registration<SourceOptions, CsvOptions> csv;

}  // namespace
}  // namespace mtf
