#include "trainer/report/metrics.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/fault.h"
#include "engine/base/json.h"

namespace mtf {
namespace {

/// Returns the step of a line of json_line(); nullopt if the line is incomplete. In a flat object no string
/// can contain `"step":`, since its quotes would be escaped.
std::optional<int64_t> step_of(std::string_view line) {
  constexpr std::string_view key = "\"step\":";
  if (!line.starts_with('{') || !line.ends_with('}')) return std::nullopt;
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  int64_t step = 0;
  const auto result = std::from_chars(line.data() + at + key.size(), line.data() + line.size(), step);
  if (result.ec != std::errc()) return std::nullopt;
  return step;
}

}  // namespace

JsonLines::JsonLines(std::string path) : file_(std::move(path)) {}

MetricList metric_list(std::string name, std::vector<double> values, int64_t entries) {
  MetricList list{std::move(name), std::vector<double>(static_cast<size_t>(entries)), std::move(values)};
  const double layers = static_cast<double>(list.all.size()) / static_cast<double>(entries);
  for (size_t i = 0; i < list.all.size(); ++i) list.mean[i % list.mean.size()] += list.all[i];
  for (double& number : list.mean) number = to_six_digits(number / layers);
  return list;
}

void JsonLines::write(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts,
                      const std::vector<MetricList>& lists) {
  if (const int error = fault_point("metrics.line")) throw_not_written(file_.path(), error);
  file_.write(json_line(numbers, texts, lists) + '\n');
}

std::string json_line(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts,
                      const std::vector<MetricList>& lists) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const auto& [name, text] : texts) line[name] = text;
  for (const auto& [name, number] : numbers) {
    if (std::abs(number) < 0x1p53 && number == std::floor(number) && !(number == 0 && std::signbit(number))) {
      line[name] = static_cast<int64_t>(number);
    } else {
      line[name] = number;
    }
  }
  for (const MetricList& list : lists) line[list.name] = list.mean;
  return json_text(line);
}

void cut_json_lines(const std::string& path, int64_t step) {
  if (const int error = fault_point("resume.cut")) throw_not_written(path, error);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) return;
  std::vector<char> buffer(1 << 20);
  std::ifstream file;
  file.rdbuf()->pubsetbuf(buffer.data(), std::ssize(buffer));
  file.open(path, std::ios::binary);
  std::vector<ByteRange> kept;
  std::string line;
  int64_t begin = 0;
  while (std::getline(file, line) && !file.eof()) {  // eof: the line has no newline
    const int64_t end = begin + std::ssize(line) + 1;
    const std::optional<int64_t> line_step = step_of(line);
    if (line_step && *line_step <= step) add_range(kept, {begin, end});
    begin = end;
  }
  if (!file.eof())
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read: {}", path, system_message(errno)));
  keep_ranges(path, kept);
}

}  // namespace mtf
