#include "trainer/metrics.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"

namespace mtf {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

}  // namespace

JsonLines::JsonLines(std::string path) : path_(std::move(path)), file_(path_) {
  if (!file_) fail(path_);
}

void JsonLines::write(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts) {
  file_ << json_line(numbers, texts) << '\n' << std::flush;
  if (!file_) fail(path_);
}

std::string json_line(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts) {
  nlohmann::ordered_json line;
  for (const auto& [name, text] : texts) line[name] = text;
  for (const auto& [name, number] : numbers) {
    if (std::abs(number) < 0x1p53 && number == std::floor(number)) {
      line[name] = static_cast<int64_t>(number);
    } else {
      line[name] = number;
    }
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mtf
