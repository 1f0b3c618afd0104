#include "engine/comm/rendezvous/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/json.h"
#include "engine/base/parse_number.h"

namespace mtf {

namespace {

std::string error_key(int rank) { return fmt::format("error/{}", rank); }

}  // namespace

void publish(Store& store, int rank, const Error& error) {
  const ErrorKind kind = error.exit_code() == 2 ? ErrorKind::kConfig : error.kind();
  const nlohmann::json report = {
      {"order", store.add("failures", 1)}, {"kind", static_cast<int>(kind)}, {"text", error.what()}};
  store.set(error_key(rank), json_text(report));
  store.set("failed", std::to_string(rank));
}

std::string left_key(int rank) { return fmt::format("left/{}", rank); }

std::optional<int> failed_rank(Store& store, int size) {
  const std::optional<std::string> text = store.get("failed", Milliseconds(0));
  if (!text) return {};
  const auto rank = parse_number<int>(*text);
  if (!rank || *rank < 0 || *rank >= size) return {};
  if (!read_failure(store, *rank) || store.get(left_key(*rank), Milliseconds(0))) return {};
  return rank;
}

std::optional<FailureReport> read_failure(Store& store, int rank) {
  const std::optional<std::string> text = store.get(error_key(rank), Milliseconds(0));
  if (!text) return {};
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  try {
    const FailureReport report{json.at("order"), static_cast<ErrorKind>(json.at("kind").get<int>()),
                               json.at("text")};
    const bool is_known = report.kind >= ErrorKind::kUsage && report.kind <= ErrorKind::kPeerLost;
    return is_known ? std::optional(report) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

Error error_of_text(ErrorKind kind, const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  return Error({Problem{kind, {}, text.substr(0, end), {}, text.substr(std::min(end + 1, text.size()))}});
}

}  // namespace mtf
