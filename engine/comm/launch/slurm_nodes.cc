#include "engine/comm/launch/slurm_nodes.h"

#include <charconv>

namespace mtf {
namespace {

/// Removes a number from the front of `text` and returns it.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(rest - text.data());
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::optional<std::string> first_node(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    if (!take(list, "[")) {
      name += list.front();
      list.remove_prefix(1);
      continue;
    }
    const size_t close = list.find(']');
    const std::string_view range = list.substr(0, close);
    const std::string_view first = range.substr(0, range.find_first_of(",-"));
    const bool digits = first.find_first_not_of("0123456789") == std::string_view::npos;
    if (close == std::string_view::npos || first.empty() || !digits) return std::nullopt;
    name += first;
    list.remove_prefix(close + 1);
  }
  if (name.empty() || name.find_first_of("] \t") != std::string::npos) return std::nullopt;
  return name;
}

std::optional<int64_t> tasks_on_node(std::string_view counts, int64_t node) {
  do {
    const auto tasks = take_number(counts);
    if (!tasks) return std::nullopt;
    int64_t nodes = 1;
    if (take(counts, "(x")) {
      const auto times = take_number(counts);
      if (!times || !take(counts, ")")) return std::nullopt;
      nodes = *times;
    }
    if (node < nodes) return tasks;
    node -= nodes;
  } while (take(counts, ","));
  return std::nullopt;
}

}  // namespace mtf
