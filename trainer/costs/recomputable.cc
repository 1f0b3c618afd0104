#include "trainer/costs/recomputable.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace mtf {
namespace {

/// The longest path that contains both.
std::string common_scope(const std::string& a, const std::string& b) {
  size_t length = 0;
  for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool ends = (i == a.size() || a[i] == '/') && (i == b.size() || b[i] == '/');
    if (ends) length = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, length);
}

struct ScopeCosts {
  double saved = 0, seconds = 0;
};

class ScopeTable {
 public:
  ScopeTable(const Program& program, const std::vector<ScheduleItem>& schedule) : program_(program) {
    read(program.instructions);
    for (const auto& [value, scope] : scopes_) {
      if (kept_.contains(value)) costs_[scope].saved += static_cast<double>(program.local_bytes(value));
    }
    add_seconds(schedule, 1);
  }

  /// The sums over the scope and those inside.
  ScopeCosts of(const std::string& scope) const {
    ScopeCosts sum;
    const auto add = [&sum](const ScopeCosts& costs) {
      sum.saved += costs.saved;
      sum.seconds += costs.seconds;
    };
    if (const auto own = costs_.find(scope); own != costs_.end()) add(own->second);
    const std::string prefix = scope.empty() ? "" : scope + "/";
    for (auto inner = costs_.lower_bound(prefix); inner != costs_.end() && inner->first.starts_with(prefix);
         ++inner) {
      if (inner->first != scope) add(inner->second);
    }
    return sum;
  }

 private:
  /// Finds the innermost scope that contains a result and all that the forward pass does with it, and what the backward
  /// pass reads.
  void read(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      read(instruction.body());
      if (instruction.is<action::Loop>() || instruction.is<action::Transfer>()) continue;
      const bool is_forward = instruction.provenance.phase == Phase::kForward;
      for (const ValueId id : instruction.inputs) {
        const auto scope = scopes_.find(program_.root(id));
        if (scope == scopes_.end()) continue;
        if (is_forward) {
          scope->second = common_scope(scope->second, instruction.provenance.path());
        } else {
          kept_.insert(scope->first);
        }
      }
      if (!is_forward) continue;
      for (const ValueId id : instruction.outputs) {
        if (program_.values[id].storage == Value::Storage::kTemporary && program_.root(id) == id)
          scopes_.emplace(id, instruction.provenance.path());
      }
    }
  }

  void add_seconds(const std::vector<ScheduleItem>& schedule, double times) {
    for (const ScheduleItem& item : schedule) {
      if (const auto* loop = std::get_if<ScheduleLoop>(&item))
        add_seconds(loop->body, times * static_cast<double>(loop->times));
      if (const auto* work = std::get_if<ScheduledWork>(&item); work && work->phase == Phase::kForward)
        costs_[work->layer.path()].seconds += times * work->seconds;
      if (const auto* start = std::get_if<ScheduledStart>(&item); start && start->phase == Phase::kForward)
        costs_[start->layer.path()].seconds += times * start->seconds;
    }
  }

  const Program& program_;
  std::map<ValueId, std::string> scopes_;
  std::set<ValueId> kept_;
  std::map<std::string, ScopeCosts> costs_;
};

}  // namespace

std::vector<RecomputableLayers> recomputable_layers(const std::vector<AppliedLayer>& applied,
                                                    const Program& step,
                                                    const std::vector<ScheduleItem>& schedule) {
  std::vector<std::string> names;  // in the order in which they come
  std::map<std::string, std::vector<size_t>> layers;
  for (size_t i = 0; i < applied.size(); ++i) {
    for (const std::string& name : applied[i].names) {
      std::vector<size_t>& of_name = layers[name];
      if (of_name.empty()) names.push_back(name);
      if (of_name.empty() || of_name.back() != i) of_name.push_back(i);
    }
  }
  const ScopeTable table(step, schedule);
  std::vector<RecomputableLayers> result;
  std::set<std::vector<size_t>> seen;
  double most = 0;
  for (const std::string& name : names) {
    if (!seen.insert(layers[name]).second) continue;
    RecomputableLayers kind{name, static_cast<int64_t>(layers[name].size())};
    for (const size_t i : layers[name]) {
      const ScopeCosts costs = table.of(applied[i].path);
      kind.saved += costs.saved;
      kind.seconds += costs.seconds;
    }
    most = std::max(most, kind.saved);
    result.push_back(std::move(kind));
  }
  constexpr double kWorthMentioning = 0.05;
  std::erase_if(result,
                [&](const RecomputableLayers& kind) { return kind.saved <= kWorthMentioning * most; });
  return result;
}

}  // namespace mtf
