#include "engine/spmd/partition/transition.h"

#include <algorithm>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// The number of leading mesh dimensions on which `now` and `goal` agree.
size_t common_prefix(const std::vector<int>& now, const std::vector<int>& goal) {
  size_t n = 0;
  while (n < now.size() && n < goal.size() && now[n] == goal[n]) ++n;
  return n;
}

bool is_prefix(const std::vector<int>& now, const std::vector<int>& goal) {
  return common_prefix(now, goal) == now.size();
}

class Planner {
 public:
  Planner(const Layout& from, const Layout& to) : now_(from), goal_(to) {}

  std::vector<TransitionStep> run() {
    MTF_CHECK((goal_.partial & ~now_.partial) == 0, "a transition cannot make a partial sum");
    if (const AxisMask axes = now_.partial & ~goal_.partial) {
      now_.partial = goal_.partial;
      step(action::Communicate{action::AllReduce{}, axes});
    }
    while (now_ != goal_) {
      MTF_CHECK(exchange() || cut() || gather(), "no transition step is possible");
    }
    return std::move(steps_);
  }

 private:
  void step(Action action) { steps_.push_back({std::move(action), now_}); }

  /// The next mesh dimension over which `dimension` has to be split, or -1.
  int next_axis(size_t dimension) const {
    const auto& now = now_.split[dimension];
    const auto& goal = goal_.split[dimension];
    return is_prefix(now, goal) && now.size() < goal.size() ? goal[now.size()] : -1;
  }

  bool exchange() {
    for (size_t target = 0; target < now_.split.size(); ++target) {
      const int axis = next_axis(target);
      if (axis < 0) continue;
      for (size_t source = 0; source < now_.split.size(); ++source) {
        const auto& axes = now_.split[source];
        if (source == target || axes.empty() || axes.back() != axis) continue;
        std::vector<std::vector<int>>& split = now_.split.change();
        split[source].pop_back();
        split[target].push_back(axis);
        step(action::Communicate{action::AllToAll{static_cast<int>(target), static_cast<int>(source)},
                                 axis_bit(axis)});
        return true;
      }
    }
    return false;
  }

  bool cut() {
    for (size_t i = 0; i < now_.split.size(); ++i) {
      const int axis = next_axis(i);
      if (axis < 0 || has_axis(now_.varies(), axis)) continue;
      now_.split.change()[i].push_back(axis);
      step(action::Slice{axis_bit(axis), static_cast<int>(i)});
      return true;
    }
    return false;
  }

  bool gather() {
    for (size_t i = 0; i < now_.split.size(); ++i) {
      if (is_prefix(now_.split[i], goal_.split[i])) continue;
      const int axis = now_.split[i].back();
      now_.split.change()[i].pop_back();
      step(action::Communicate{action::AllGather{static_cast<int>(i)}, axis_bit(axis)});
      return true;
    }
    return false;
  }

  Layout now_;
  const Layout& goal_;
  std::vector<TransitionStep> steps_;
};

}  // namespace

std::vector<TransitionStep> plan_transition(const Layout& from, const Layout& to) {
  return Planner(from, to).run();
}

}  // namespace mtf
