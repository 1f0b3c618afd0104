#include "trainer/decode/paired_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "engine/base/error.h"

namespace mtf {
namespace {

// Process 0 broadcasts kWaits while it waits for input, or pairs of texts, each as LENGTH:TEXT, with the ends of parts as a
// third text.
constexpr std::string_view kWaits = "waits";
/// The name of the collective operation in messages.
constexpr const char* kName = "lines that process 0 reads";

std::string message_of(const LinePairs& pairs) {
  std::string message;
  for (const LinePair& pair : pairs) {
    for (const std::string& text :
         {pair.first, pair.second, fmt::format("{}", fmt::join(pair.prompt_parts, " "))})
      message += fmt::format("{}:{}", text.size(), text);
  }
  return message;
}

LinePairs pairs_of(std::string_view message) {
  const auto next_line = [&] {
    const size_t begin = message.find(':') + 1;
    const size_t size = std::stoull(std::string(message.substr(0, begin - 1)));
    std::string line(message.substr(begin, size));
    message.remove_prefix(begin + size);
    return line;
  };
  LinePairs pairs;
  while (!message.empty()) {
    LinePair& pair = pairs.emplace_back();
    pair.first = next_line();
    pair.second = next_line();
    std::istringstream parts(next_line());
    for (size_t end = 0; parts >> end;) pair.prompt_parts.push_back(end);
  }
  return pairs;
}

/// `how`: what the second file has, "more" or "fewer" lines.
[[noreturn]] void lines_differ(const LineFiles& files, std::string_view how) {
  throw Error(ErrorKind::kData,
              fmt::format("{} has {} lines than {}", input_name(files.second), how,
                          files.texts ? "the source has examples" : input_name(files.first)),
              files.hint);
}

}  // namespace

void check_lines(const LineFiles& files) {
  const std::optional<int64_t> first =
      files.texts ? check_texts(*files.texts, files.limit) : check_lines(files.first, files.limit);
  if (files.second.empty()) return;
  const std::optional<int64_t> second = check_lines(files.second, files.limit);
  if (first && second && *first != *second) lines_differ(files, *second > *first ? "more" : "fewer");
}

PairedLines::PairedLines(Communicator& communicator, const LineFiles& files)
    : communicator_(communicator), files_(files) {
  if (communicator.process() != 0) return;
  if (files.texts) {
    texts_.emplace(*files.texts, files.limit);
  } else {
    first_.emplace(files.first, files.limit);
  }
  if (!files.second.empty()) second_.emplace(files.second, files.limit);
}

LinePairs PairedLines::take(size_t most) {
  if (communicator_.processes() == 1) return read(most);

  if (communicator_.process() == 0) {
    LinePairs pairs = read(most);
    broadcast(communicator_, message_of(pairs), kName);
    return pairs;
  }
  std::string message;
  do {
    message = broadcast(communicator_, "", kName);
  } while (message == kWaits);
  return pairs_of(message);
}

void PairedLines::others_wait() const {
  if (communicator_.processes() > 1) broadcast(communicator_, std::string(kWaits), kName);
}

LinePairs PairedLines::read(size_t most) {
  const auto tell = [&] { others_wait(); };
  LinePairs pairs;
  if (texts_) {
    pairs = texts_->take(most);
  } else {
    for (std::string& line : first_->take(most, tell)) pairs.push_back({std::move(line), "", {}});
  }
  if (!second_) return pairs;
  if (pairs.empty() && !second_->take(1, tell).empty()) lines_differ(files_, "more");
  for (size_t i = 0; i < pairs.size();) {
    std::vector<std::string> more = second_->take(pairs.size() - i, tell);
    if (more.empty()) lines_differ(files_, "fewer");
    for (std::string& line : more) pairs[i++].second = std::move(line);
  }
  return pairs;
}

}  // namespace mtf
