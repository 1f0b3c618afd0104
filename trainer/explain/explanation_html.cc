#include "trainer/explain/explanation_html.h"

#include <cmath>
#include <map>
#include <set>

#include "engine/base/counted.h"
#include "engine/base/json.h"
#include "trainer/explain/explanation_json.h"
#include "trainer/explain/name_pattern.h"
#include "trainer/html/page.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

bool is_text(const Json& object, const std::string& key) {
  return object.contains(key) && object[key].is_string();
}

std::string key_of(Json object, const std::vector<std::string>& names) {
  object.erase("message");
  for (const std::string& name : names) {
    if (is_text(object, name)) object[name] = without_numbers(object[name].get<std::string>());
  }
  return json_text(object);
}

/// Returns the object of several that differ only in numbers.
Json merged(const Json& list, const std::vector<size_t>& members, const std::vector<std::string>& names) {
  Json object = list[members[0]];
  for (const std::string& name : names) {
    if (!is_text(object, name)) continue;
    std::vector<std::string> texts;
    for (const size_t member : members) texts.push_back(list[member][name].get<std::string>());
    object[name] = name_pattern(texts);
  }
  object["count"] = members.size();
  return object;
}

/// Makes a schedule short: a list `origins` has the layers, phases and kinds that its items name, which have
/// numbers instead, and consecutive local work of one layer and phase is [origin, seconds], or with stages of a pipeline
/// [origin, seconds, lane].
class ShortSchedule {
 public:
  Json items(const Json& schedule) {
    Json result = Json::array();
    for (const Json& item : schedule) {
      if (item.contains("body")) {
        result.push_back({{"repeat", item["repeat"]}, {"body", items(item["body"])}});
      } else if (item.contains("start")) {
        result.push_back({{"start", item["start"]},
                          {"bytes_sent", whole(item["bytes_sent"])},
                          {"seconds", short_number(item["seconds"])},
                          {"processor", short_number(item["processor"])},
                          {"of", origin(item)}});
        for (const char* key : {"lane", "to"}) {
          if (item.contains(key)) result.back()[key] = item[key];
        }
      } else if (item.contains("wait")) {
        result.push_back(item);
      } else {
        Json origin_only = item;
        origin_only.erase("kind");
        const size_t of = origin(origin_only);
        Json work = Json::array({of, item["seconds"]});
        if (item.contains("lane")) work.push_back(item["lane"]);
        if (!result.empty() && is_same_work(result.back(), work)) {
          result.back()[1] = result.back()[1].get<double>() + item["seconds"].get<double>();
        } else {
          result.push_back(std::move(work));
        }
      }
    }
    for (Json& item : result) {
      if (item.is_array()) item[1] = short_number(item[1]);
    }
    return result;
  }
  Json take_origins() { return std::move(origins_); }

 private:
  /// In deeper models repeated layers share their origins.
  static constexpr size_t kMostOrigins = 5000;

  size_t origin(const Json& item) {
    Json origin = Json::object();
    for (const char* key : {"kind", "mesh_dimensions", "layer", "phase"}) {
      if (item.contains(key)) origin[key] = item[key];
    }
    if (origins_.size() >= kMostOrigins)
      origin["layer"] = without_numbers(origin["layer"].get<std::string>());
    const std::string key = json_text(origin);
    const auto [found, added] = numbers_.emplace(key, origins_.size());
    if (added) origins_.push_back(std::move(origin));
    return found->second;
  }
  static bool is_same_work(const Json& a, const Json& b) {
    return a.is_array() && a.size() == b.size() && a[0] == b[0] && (a.size() == 2 || a[2] == b[2]);
  }
  static int64_t whole(const Json& number) { return std::llround(number.get<double>()); }
  /// Seconds with six digits.
  static double short_number(const Json& number) { return to_six_digits(number.get<double>()); }

  std::map<std::string, size_t> numbers_;
  Json origins_ = Json::array();
};

/// The collectives of a step by kind and mesh dimensions: how many, and the bytes that a position sends by phase. The
/// tensors of a bucket travel in one.
Json collective_kinds(const Json& collectives) {
  std::map<std::string, Json> kinds;
  std::set<int64_t> counted;
  for (const Json& c : collectives) {
    Json& kind = kinds[c["kind"].get<std::string>() + c["mesh_dimensions"].dump()];
    if (kind.is_null()) {
      kind = {{"kind", c["kind"]}, {"over", c["mesh_dimensions"]}, {"count", 0}, {"bytes", 0.0}};
      kind["phases"] = Json::object();
    }
    const auto times = c["times"].get<int64_t>();
    const double bytes = c["bytes_sent"].get<double>() * static_cast<double>(times);
    if (counted.insert(c["message"].get<int64_t>()).second)
      kind["count"] = kind["count"].get<int64_t>() + times;
    kind["bytes"] = kind["bytes"].get<double>() + bytes;
    Json& phase = kind["phases"][c["phase"].get<std::string>()];
    phase = (phase.is_null() ? 0 : phase.get<double>()) + bytes;
  }
  Json result = Json::array();
  for (auto& [key, kind] : kinds) result.push_back(std::move(kind));
  return result;
}

}  // namespace

Json folded(const Json& list, const std::vector<std::string>& names) {
  std::map<std::string, std::vector<size_t>> alike;
  for (size_t i = 0; i < list.size(); ++i) alike[key_of(list[i], names)].push_back(i);
  std::vector<Json> objects(list.begin(), list.end());
  std::vector<bool> dropped(list.size(), false);
  for (Json& object : objects) object["count"] = 1;
  for (const auto& [key, members] : alike) {
    if (members.size() < kFewestFolded) continue;
    objects[members[0]] = merged(list, members, names);
    for (size_t i = 1; i < members.size(); ++i) dropped[members[i]] = true;
  }
  Json result = Json::array();
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!dropped[i]) result.push_back(std::move(objects[i]));
  }
  return result;
}

std::string explain_html(const Explanation& explanation, bool tensors) {
  Json document = explanation_document(explanation, tensors);
  document["collective_kinds"] = collective_kinds(document["collectives"]);
  document.erase("counters");
  for (const char* key : {"variables", "tensors", "contractions", "collectives", "layers"}) {
    if (document.contains(key)) document[key] = folded(document[key], {"name", "layer", "variable"});
  }
  ShortSchedule schedule;
  document["schedule"] = schedule.items(document["schedule"]);
  document["origins"] = schedule.take_origins();
  return html_page(explanation.run.name + ": a training step before it runs",
                   {"mesh.js", "tiling.js", "time_line.js", "explain.js"}, document);
}

}  // namespace mtf
