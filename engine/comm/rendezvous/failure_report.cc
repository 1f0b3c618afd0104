#include "engine/comm/rendezvous/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace mtf {

namespace {

std::string error_key(int rank) { return fmt::format("error/{}", rank); }

}  // namespace

void publish(Store& store, int rank, const Error& error) {
  const ErrorKind kind = error.exit_code() == 2 ? ErrorKind::kConfig : error.kind();
  const nlohmann::json report = {
      {"order", store.add("failures", 1)}, {"kind", static_cast<int>(kind)}, {"text", error.what()}};
  store.set(error_key(rank), report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  store.set("failed", std::to_string(rank));
}

std::optional<int> failed_rank(Store& store) {
  const std::optional<std::string> rank = store.get("failed", Milliseconds(0));
  if (!rank) return {};
  return std::atoi(rank->c_str());
}

std::optional<FailureReport> read_failure(Store& store, int rank) {
  const std::optional<std::string> text = store.get(error_key(rank), Milliseconds(0));
  if (!text) return {};
  const nlohmann::json report = nlohmann::json::parse(*text);
  return FailureReport{report.at("order"), static_cast<ErrorKind>(report.at("kind").get<int>()),
                       report.at("text")};
}

Error error_of_text(ErrorKind kind, const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  return Error({Problem{kind, {}, text.substr(0, end), {}, text.substr(std::min(end + 1, text.size()))}});
}

}  // namespace mtf
