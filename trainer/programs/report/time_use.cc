#include "trainer/programs/report/time_use.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/profile.h"
#include "trainer/programs/report/json_lines.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestEvent = 1 << 16;
constexpr size_t kMostNames = 10'000;  ///< names of spans that are told apart
constexpr size_t kShown = 12;

struct Use {
  int64_t count = 0;
  double seconds = 0;
};

/// Shares the time of one thread out among its spans. Spans come in order of their begin, outer ones first.
class ThreadTime {
 public:
  void add(const std::string& name, const std::string& category, double begin, double end) {
    close_until(begin);
    if (category == name_of(ProfileCategory::kStep) && open_.empty()) ++steps_;
    open_.push_back({name, category, begin, end, 0});
  }
  void finish() { close_until(std::numeric_limits<double>::infinity()); }

  int64_t steps() const { return steps_; }
  double seconds() const { return seconds_; }
  const std::map<std::string, Use>& categories() const { return categories_; }
  const std::map<std::pair<std::string, std::string>, Use>& names() const { return names_; }

 private:
  struct Span {
    std::string name, category;
    double begin, end;
    double inner;  ///< seconds of the spans directly in it
  };

  void close_until(double time) {
    while (!open_.empty() && open_.back().end <= time) {
      const Span span = std::move(open_.back());
      open_.pop_back();
      const double all = span.end - span.begin, own = std::max(0.0, all - span.inner);
      if (open_.empty()) {
        seconds_ += all;
      } else {
        open_.back().inner += all;
      }
      count(categories_[span.category], own);
      const std::pair key(span.name, span.category);
      if (names_.size() < kMostNames || names_.contains(key)) count(names_[key], own);
    }
  }
  static void count(Use& use, double seconds) {
    ++use.count;
    use.seconds += seconds;
  }

  std::vector<Span> open_;
  int64_t steps_ = 0;
  double seconds_ = 0;
  std::map<std::string, Use> categories_;
  std::map<std::pair<std::string, std::string>, Use> names_;
};

/// Returns the event of a line, which may end with a comma; null if it holds none.
Json event_of(std::string_view line) {
  if (line.ends_with(',')) line.remove_suffix(1);
  if (!line.starts_with('{')) return {};
  Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return event.is_object() ? event : Json();
}

std::string text_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

Json longest_names(const ThreadTime& time) {
  std::vector<std::pair<std::pair<std::string, std::string>, Use>> names(time.names().begin(),
                                                                         time.names().end());
  std::ranges::sort(names, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  if (names.size() > kShown) names.resize(kShown);
  Json result = Json::array();
  for (const auto& [name, use] : names) {
    result.push_back({{"name", name.first.substr(0, 200)},
                      {"category", name.second},
                      {"count", use.count},
                      {"seconds", use.seconds}});
  }
  return result;
}

}  // namespace

Json time_use_of(const std::string& path) {
  ThreadTime time;
  double main_thread = -1;
  for_each_line(path, kLongestEvent, [&](std::string_view line) {
    const Json event = event_of(line);
    if (event.is_null()) return;
    const std::string phase = text_of(event, "ph");
    const std::optional<double> thread = number_of(event, "tid");
    if (phase == "M" && text_of(event, "name") == "thread_name" && event.contains("args") &&
        event["args"].is_object() && text_of(event["args"], "name") == kMainTrack) {
      main_thread = thread.value_or(-1);
    }
    const std::optional<double> begin = number_of(event, "ts"), length = number_of(event, "dur");
    if (phase != "X" || thread != main_thread || !begin || !length) return;
    time.add(text_of(event, "name"), text_of(event, "cat"), *begin / 1e6, (*begin + *length) / 1e6);
  });
  time.finish();
  if (time.seconds() == 0) return {};
  Json categories = Json::object();
  for (const auto& [name, use] : time.categories()) categories[name] = use.seconds;
  return {{"seconds", time.seconds()},
          {"steps", time.steps()},
          {"categories", std::move(categories)},
          {"longest", longest_names(time)}};
}

}  // namespace mtf
