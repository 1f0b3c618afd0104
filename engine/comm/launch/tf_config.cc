#include "engine/comm/launch/tf_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void reject_tf_config(const std::string& what) {
  throw Error(
      ErrorKind::kUsage, "the environment variable TF_CONFIG " + what,
      R"(for example {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}})");
}

Jobs jobs_of(const Json& cluster) {
  if (!cluster.is_object()) reject_tf_config("has a `cluster` that is no map of jobs");
  Jobs jobs;
  std::set<std::string> seen;
  for (const auto& [name, tasks] : cluster.items()) {
    auto& addresses = jobs.emplace_back(name, std::vector<std::string>()).second;
    if (!tasks.is_array()) reject_tf_config(fmt::format("has a job `{}` that is no list of addresses", name));
    for (const Json& address : tasks) {
      if (!address.is_string() || !parse_host_port(address.get<std::string>()))
        reject_tf_config(fmt::format("has {} in job `{}`, which is no HOST:PORT", address.dump(), name));
      if (!seen.insert(address.get<std::string>()).second)
        reject_tf_config(fmt::format("has two tasks with the address {}", address.dump()));
      addresses.push_back(address.get<std::string>());
    }
  }
  return jobs;
}

/// Parses a whole number, which may be written as text.
int64_t index_of(const Json& index) {
  const std::string text = index.is_string() ? index.get<std::string>() : index.dump();
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    reject_tf_config(fmt::format("has a `task` with index {}, which is no whole number", index.dump()));
  return std::stoll(text);
}

}  // namespace

std::optional<TfConfig> parse_tf_config(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    reject_tf_config(fmt::format("is no JSON from character {} on", error.byte));
  }
  if (!json.is_object()) reject_tf_config("is no JSON map");
  if (!json.contains("cluster") && !json.contains("task")) return std::nullopt;
  if (!json.contains("cluster")) reject_tf_config("has `task` and no `cluster`");
  if (!json.contains("task")) reject_tf_config("has `cluster` and no `task`");
  const Json& task = json["task"];
  if (json["cluster"] == Json::object() && task == Json::object()) return std::nullopt;
  if (!task.is_object() || !task.contains("type") || !task["type"].is_string())
    reject_tf_config("has a `task` without `type`");
  if (!task.contains("index")) reject_tf_config("has a `task` without `index`");
  return TfConfig{jobs_of(json["cluster"]), task["type"].get<std::string>(), index_of(task["index"])};
}

}  // namespace mtf
