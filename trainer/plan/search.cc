#include "trainer/plan/search.h"

#include <algorithm>
#include <chrono>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "engine/base/seconds_since.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

/// Bounds are sums in another order than the costs that they bound.
constexpr double kRounding = 1e-9;
/// Unfinished layouts that are kept; a search that has more is no longer a proof.
constexpr size_t kMostOpen = 2'000'000;
/// Nodes without an evaluation after which the most promising one is completed at once.
constexpr int64_t kPatience = 4000;

/// The total order of two sets, by which one of several exchangeable choices is kept.
bool precedes(const DimensionSet& a, const DimensionSet& b) {
  for (size_t i = 0; i < kMostDimensions; ++i) {
    if (a[i] != b[i]) return a[i];
  }
  return false;
}

struct Node {
  double bound = 0;
  int64_t depth = 0;
  int64_t number = 0;
  size_t mesh = 0;
  size_t axis = 0, next = 0;  ///< dimension `next` of mesh dimension `axis` is decided next
  SplitChoice chosen = {};
};

struct ComesLater {
  bool operator()(const Node& a, const Node& b) const {
    return std::tuple(a.bound, -a.depth, a.number) > std::tuple(b.bound, -b.depth, b.number);
  }
};

class Run {
 public:
  Run(const LayoutSearch& search, const LayoutSearchLimits& limits)
      : search_(search), limits_(limits), begin_(Clock::now()) {}

  LayoutSearchResult run() {
    evaluate_first();
    for (size_t mesh = 0; mesh < search_.meshes.size(); ++mesh) {
      Node root{.mesh = mesh, .chosen = given(mesh)};
      push(std::move(root));
    }
    const size_t workers = search_.pool ? static_cast<size_t>(search_.pool->threads()) : 1;
    int64_t idle = 0;
    while (!is_over()) {
      const bool has_more = !open_.empty() && open_.top().bound < limit();
      if (leaves_.size() == workers || (!has_more && !leaves_.empty())) {
        evaluate_leaves();
        continue;
      }
      if (!has_more) break;
      Node node = open_.top();
      open_.pop();
      idle = is_leaf(node) ? 0 : idle + 1;
      if (is_leaf(node)) {
        leaves_.push_back(std::move(node));
      } else if (idle > kPatience) {
        idle = 0;
        dive(std::move(node));
      } else {
        for (Node& child : expand(node)) push(std::move(child));
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  const SearchMesh& mesh_of(const Node& node) const { return search_.meshes[node.mesh]; }
  size_t rank(const Node& node) const { return mesh_of(node).sizes.size(); }
  bool is_leaf(const Node& node) const { return node.axis == rank(node); }
  SplitChoice given(size_t mesh) const {
    SplitChoice chosen = search_.fixed;
    chosen.resize(search_.meshes[mesh].sizes.size());
    return chosen;
  }
  double elapsed() const { return seconds_since(begin_); }
  bool is_over() {
    if (!stopped_) stopped_ = elapsed() > limits_.seconds || (limits_.stop && limits_.stop());
    return stopped_;
  }
  /// Seconds from which on a layout is not better than the best one.
  double limit() const {
    if (result_.evaluated.empty() || !best_.cost.fits) return limits_.enough;
    return std::min(limits_.enough, best_.cost.seconds * (1 - kRounding));
  }

  /// The number of parts into which the mesh dimensions before `axis` cut dimension `i`.
  int64_t parts(const Node& node, size_t axis, size_t i) const {
    int64_t n = 1;
    for (size_t a = 0; a < axis; ++a) {
      if (node.chosen[a][i]) n *= mesh_of(node).sizes[a];
    }
    return n;
  }
  bool may_add(const Node& node, size_t axis, size_t i) const {
    const SplittableDimension& d = search_.dimensions[i];
    return mesh_of(node).stages != axis && !search_.decided[i] && (d.conflicts & node.chosen[axis]).none() &&
           d.divisor % (parts(node, axis, i) * mesh_of(node).sizes[axis]) == 0;
  }

  std::vector<SearchAxis> axes_of(const Node& node) const {
    std::vector<SearchAxis> axes;
    for (size_t a = 0; a < rank(node); ++a) {
      SearchAxis axis{.size = mesh_of(node).sizes[a],
                      .chosen = node.chosen[a],
                      .possible = node.chosen[a],
                      .rounds = mesh_of(node).stages == a ? mesh_of(node).rounds : 0};
      if (a >= node.axis) {
        for (size_t i = a == node.axis ? node.next : 0; i < search_.dimensions.size(); ++i) {
          if (may_add(node, a, i)) axis.possible.set(i);
        }
      }
      axes.push_back(axis);
    }
    return axes;
  }

  /// Moves on to the next decision. False if the layout is the same as another one that is looked at.
  bool advance(Node& node) const {
    while (node.axis < rank(node)) {
      while (node.next < search_.dimensions.size() && !may_add(node, node.axis, node.next)) ++node.next;
      if (node.next < search_.dimensions.size()) return true;
      if (!is_representative(node)) return false;
      ++node.axis;
      node.next = 0;
    }
    return true;
  }

  /// True unless the choice for node.axis, which is complete, belongs before that of a mesh dimension before it.
  bool is_representative(const Node& node) const {
    const std::vector<int64_t>& sizes = mesh_of(node).sizes;
    const std::optional<size_t>& stages = mesh_of(node).stages;
    if (stages == node.axis) return true;
    for (size_t a = 0; a < node.axis; ++a) {
      if (stages == a) continue;
      if (search_.merges_equal && node.chosen[a] == node.chosen[node.axis]) return false;
      const bool exchangeable = sizes[a] == sizes[node.axis] &&
                                (search_.kinds.empty() || search_.kinds[a] == search_.kinds[node.axis]);
      if (exchangeable && precedes(node.chosen[node.axis], node.chosen[a])) return false;
    }
    return true;
  }

  void push(Node node) {
    if (!advance(node)) return;
    ++result_.nodes;
    node.bound = std::max(node.bound, search_.bound(axes_of(node)));
    if (node.bound >= limit()) return;
    if (open_.size() >= kMostOpen) {
      dropped_ = std::min(dropped_, node.bound);
      return;
    }
    node.number = ++numbers_;
    open_.push(std::move(node));
  }

  std::vector<Node> expand(const Node& node) const {
    Node with = node, without = node;
    with.chosen[node.axis].set(node.next);
    for (Node* child : {&with, &without}) {
      ++child->next;
      ++child->depth;
    }
    return {std::move(with), std::move(without)};
  }

  /// Completes the node by the better child each time.
  void dive(Node node) {
    while (!is_leaf(node)) {
      std::vector<Node> children;
      for (Node& child : expand(node)) {
        if (!advance(child)) continue;
        ++result_.nodes;
        child.bound = std::max(child.bound, search_.bound(axes_of(child)));
        children.push_back(std::move(child));
      }
      if (children.empty()) return;
      const bool second = children.size() == 2 && children[1].bound < children[0].bound;
      if (children.size() == 2) push(std::move(children[second ? 0 : 1]));
      node = std::move(children[second ? 1 : 0]);
    }
    leaves_.push_back(std::move(node));
  }

  void evaluate_leaves() { evaluate(std::exchange(leaves_, {})); }

  void evaluate_first() {
    std::vector<Node> first;
    const auto add = [&](Node node) {
      node.axis = rank(node);
      node.bound = search_.bound(axes_of(node));
      if (node.bound < limits_.enough) first.push_back(std::move(node));
    };
    add({.chosen = given(0)});
    for (size_t mesh = 0; mesh < search_.meshes.size(); ++mesh) {
      for (const std::string& name : search_.first) {
        const std::optional<size_t> i = search_.dimensions.find(name);
        if (!i) continue;
        Node node{.mesh = mesh, .chosen = given(mesh)};
        const std::optional<size_t>& stages = mesh_of(node).stages;
        if (search_.merges_equal && rank(node) > (stages ? 2 : 1)) continue;
        bool all = true;
        for (size_t a = 0; a < rank(node); ++a) {
          if (stages == a) continue;
          all &= may_add(node, a, *i);
          if (all) node.chosen[a].set(*i);
        }
        if (all) add(std::move(node));
      }
    }
    evaluate(std::move(first));
  }

  bool is_new(const LayoutCandidate& candidate) {
    std::string key = std::to_string(candidate.mesh);
    for (const DimensionSet& set : candidate.chosen) key += ' ' + set.to_string();
    return seen_.insert(std::move(key)).second;
  }

  void evaluate(std::vector<Node> leaves) {
    std::vector<EvaluatedLayout> results;
    double least = std::numeric_limits<double>::infinity();
    for (Node& leaf : leaves) {
      LayoutCandidate candidate{leaf.mesh, std::move(leaf.chosen)};
      if (!is_new(candidate)) continue;
      least = std::min(least, leaf.bound);
      results.push_back({std::move(candidate), {}});
    }
    const double enough = limit();
    auto evaluate_one = [&](int64_t i, int /*worker*/) {
      EvaluatedLayout& result = results[static_cast<size_t>(i)];
      result.cost = search_.evaluate(result.layout, enough);
    };
    if (search_.pool) {
      search_.pool->run(std::ssize(results), evaluate_one);
    } else {
      for (int64_t i = 0; i < std::ssize(results); ++i) evaluate_one(i, 0);
    }
    result_.evaluations += std::ssize(results);
    for (EvaluatedLayout& evaluated : results) {
      if (!evaluated.cost.is_legal) continue;
      if (result_.evaluated.empty() || is_better(evaluated, best_)) best_ = evaluated;
      result_.evaluated.push_back(std::move(evaluated));
    }
    if (is_over()) dropped_ = std::min(dropped_, least);  // the evaluations may have been cut short
  }

  void finish() {
    std::ranges::stable_sort(result_.evaluated, is_better);
    double bound = dropped_;
    if (!open_.empty()) bound = std::min(bound, open_.top().bound);
    for (const Node& leaf : leaves_) bound = std::min(bound, leaf.bound);
    const bool found = !result_.evaluated.empty() && best_.cost.fits;
    if (found && bound >= limit()) bound = best_.cost.seconds;
    result_.lower_bound = bound;
    result_.gap = found ? std::max(0.0, 1 - bound / best_.cost.seconds)
                        : (bound < std::numeric_limits<double>::infinity() ? 1 : 0);
    result_.seconds = elapsed();
  }

  const LayoutSearch& search_;
  const LayoutSearchLimits& limits_;
  const Clock::time_point begin_;
  std::priority_queue<Node, std::vector<Node>, ComesLater> open_;
  std::vector<Node> leaves_;  ///< that are evaluated next, together
  std::set<std::string> seen_;
  LayoutSearchResult result_;
  EvaluatedLayout best_;
  /// The smallest bound of nodes that were not kept or not seen to the end.
  double dropped_ = std::numeric_limits<double>::infinity();
  int64_t numbers_ = 0;
  bool stopped_ = false;
};

}  // namespace

LayoutSearchResult LayoutSearch::run(const LayoutSearchLimits& limits) const {
  return Run(*this, limits).run();
}

size_t LayoutCandidate::rules() const {
  DimensionSet all;
  for (const DimensionSet& set : chosen) all |= set;
  return all.count();
}

bool is_better(const EvaluatedLayout& a, const EvaluatedLayout& b) {
  const auto rank = [](const EvaluatedLayout& e) {
    const LayoutCost& c = e.cost;
    return std::tuple(!c.is_legal, !c.fits, c.fits ? c.seconds : static_cast<double>(c.bytes), c.bytes,
                      c.bytes_sent, e.layout.rules());
  };
  return rank(a) < rank(b);
}

}  // namespace mtf
