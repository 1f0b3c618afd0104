#include "trainer/decode/paired_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/base/error.h"

namespace mtf {
namespace {

// Process 0 broadcasts kWaits while it waits for input, or pairs of lines, each line with kEnd.
constexpr std::string_view kWaits = "waits";
constexpr char kEnd = '\n';
/// The name of the collective operation in messages.
constexpr const char* kName = "lines that process 0 reads";

std::string message_of(const LinePairs& pairs) {
  std::string message;
  for (const LinePair& pair : pairs) message += pair.first + kEnd + pair.second + kEnd;
  return message;
}

LinePairs pairs_of(std::string_view message) {
  const auto next_line = [&] {
    const size_t end = message.find(kEnd);
    std::string line(message.substr(0, end));
    message.remove_prefix(end + 1);
    return line;
  };
  LinePairs pairs;
  while (!message.empty()) {
    std::string first = next_line();
    pairs.push_back({std::move(first), next_line()});
  }
  return pairs;
}

}  // namespace

PairedLines::PairedLines(Communicator& communicator, const LineFiles& files)
    : communicator_(communicator), files_(files) {
  if (communicator.process() != 0) return;
  first_.emplace(files.first, files.limit);
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

void PairedLines::lines_differ(std::string_view how) const {
  throw Error(
      ErrorKind::kData,
      fmt::format("{} has {} lines than {}", input_name(files_.second), how, input_name(files_.first)),
      files_.hint);
}

void PairedLines::others_wait() const {
  if (communicator_.processes() > 1) broadcast(communicator_, std::string(kWaits), kName);
}

LinePairs PairedLines::read(size_t most) {
  const auto tell = [&] { others_wait(); };
  LinePairs pairs;
  for (std::string& line : first_->take(most, tell)) pairs.push_back({std::move(line), ""});
  if (!second_) return pairs;
  if (pairs.empty() && !second_->take(1, tell).empty()) lines_differ("more");
  for (size_t i = 0; i < pairs.size();) {
    std::vector<std::string> more = second_->take(pairs.size() - i, tell);
    if (more.empty()) lines_differ("fewer");
    for (std::string& line : more) pairs[i++].second = std::move(line);
  }
  return pairs;
}

}  // namespace mtf
