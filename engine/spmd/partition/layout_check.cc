// Finds every illegal layout ("Illegal layouts" in docs/architecture.md) from shapes and names alone, before
// anything is partitioned.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "engine/base/join_words.h"
#include "engine/graph/graph.h"
#include "engine/graph/sharding_rule.h"
#include "engine/graph/structural.h"
#include "engine/spmd/partition/liveness.h"
#include "engine/spmd/partition/mesh_advice.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {
namespace {

/// A problem of one kind with one layout rule, and the tensors that have it.
struct Finding {
  Mark mark;
  std::string message;
  std::string hint;
  std::vector<std::string> tensors;
};

/// A size of a dimension that a layout rule splits.
struct SplitSize {
  int64_t entries = 0;
  std::string where;  ///< the first layer that has a tensor of this size, or that tensor's name
  int64_t microbatches = 1;
};

/// All sizes in the graph of the dimension of a rule, in order of appearance, and the tensors whose size the
/// rule's mesh dimensions do not divide.
struct SplitSizes {
  const LayoutRule* rule = nullptr;
  std::vector<SplitSize> sizes;
  std::vector<std::string> indivisible;
};

/// The text "1, 2 or 4" of the numbers of parts into which `entries` entries can be cut; the smallest ones only
/// where there are many.
std::string divisors_text(int64_t entries) {
  constexpr int64_t kLargest = 4096;
  constexpr size_t kMost = 12;
  std::vector<std::string> divisors;
  for (int64_t n = 1; n <= std::min(entries, kLargest) && divisors.size() < kMost; ++n) {
    if (entries % n == 0) divisors.push_back(std::to_string(n));
  }
  return join_words(divisors, " or ");
}

/// "used by a, b and 3 more", wrapped into lines. Tensors of the same name are listed once.
std::string used_by(const std::vector<std::string>& tensors) {
  constexpr size_t kShown = 6, kWidth = 110;
  std::vector<std::string> shown;
  std::set<std::string> names;
  for (const std::string& tensor : tensors) {
    if (names.insert(tensor.substr(0, tensor.find(' '))).second && shown.size() < kShown)
      shown.push_back(tensor);
  }
  if (shown.empty()) return {};
  std::string text = "used by", line = text;
  for (size_t i = 0; i < shown.size(); ++i) {
    const std::string word = shown[i] + (i + 1 < shown.size() ? "," : "");
    if (line.size() + 1 + word.size() > kWidth) {
      text += "\n ";
      line = " ";
    }
    text += " " + word;
    line += " " + word;
  }
  const size_t left = names.size() - shown.size();
  return left == 0 ? text : fmt::format("{} and {} more", text, left);
}

class LayoutCheck {
 public:
  /// With `advises`, hints suggest legal layouts. They are found by checking candidates with a LayoutCheck
  /// that does not advise.
  LayoutCheck(const Graph& graph, const Layouts& layouts, Diagnostics& diagnostics, bool advises)
      : graph_(graph),
        layouts_(layouts),
        diagnostics_(diagnostics),
        advises_(advises),
        live_(live_operations(graph)) {}

  void run() {
    check_mesh_dimensions();
    check_block(graph_.root());
    layer_.clear();
    for (const auto& variable : graph_.variables()) {
      in_part_ = layouts_.part && layouts_.part->holds(variable->name);
      check_tensor(variable->name, variable->shape, domain_of(*variable));
    }
    for (const auto& [key, sizes] : split_sizes_) report_indivisible(key, sizes);
    for (const auto& [key, finding] : findings_) report(finding);
  }

 private:
  const LayoutRules& rules(Domain domain) const {
    if (in_part_ && domain != Domain::kOptimizer)
      return domain == Domain::kActivation ? layouts_.part->activation : layouts_.part->parameter;
    return domain == Domain::kActivation  ? layouts_.activation
           : domain == Domain::kParameter ? layouts_.parameter
                                          : layouts_.optimizer;
  }
  /// The name of the configuration section that a rule comes from.
  std::string section(const LayoutRule& rule) const {
    const auto holds = [&rule](const LayoutRules& section) {
      const std::vector<LayoutRule>& all = section.rules();
      return std::any_of(all.begin(), all.end(), [&rule](const LayoutRule& other) {
        return other.dimension == rule.dimension && other.mesh_dimensions == rule.mesh_dimensions;
      });
    };
    if (layouts_.part) {
      const auto is_own = [&rule](const LayoutRules& section) {
        return std::ranges::any_of(section.rules(), [&](const LayoutRule& other) { return &other == &rule; });
      };
      if (is_own(layouts_.part->activation) || is_own(layouts_.part->parameter)) {
        const bool of_all = holds(layouts_.part->activation);
        return layouts_.part->section + (of_all ? ".layout" : ".parameter_layout");
      }
    }
    return holds(layouts_.activation)  ? "layout"
           : holds(layouts_.parameter) ? "parameter_layout"
                                       : "optimizer_layout";
  }
  /// The rule for a dimension by its own name; null: none. check_unused_rules() reports rules for internal dimensions.
  const LayoutRule* find_rule(std::string_view dimension, Domain domain) const {
    return is_internal(dimension) ? nullptr : rules(domain).find(dimension);
  }
  /// The product of the sizes of the rule's mesh dimensions, as far as the mesh has them.
  int64_t parts(const LayoutRule& rule) const {
    int64_t n = 1;
    for (const std::string& name : rule.mesh_dimensions) {
      if (const auto axis = layouts_.mesh.shape().find(name)) n *= layouts_.mesh.size(*axis);
    }
    return n;
  }

  void check_mesh_dimensions();
  std::string hint_for_mesh_dimension(const LayoutRule& rule, const std::string& name) const;
  void check_block(const Block& block);
  void check_operation(const Operation& operation);
  void check_tensor(const std::string& name, const Shape& shape, Domain domain);
  void check_repeated_rules(const std::string& name, const Shape& shape, Domain domain);
  void check_shared(const std::string& name, const Shape& shape, Domain domain, const std::string& what);
  std::string splits_both(const LayoutRule& first, const LayoutRule& last) const;
  const LayoutRule* rule_for(const std::string& dimension, Domain domain) const;
  std::vector<std::string> mesh_dimensions(const std::string& dimension, const LayoutRule& rule,
                                           Domain domain) const;
  void check_divisible(const std::string& name, const Shape& shape, Domain domain);
  void report_indivisible(const std::string& key, const SplitSizes& known);
  void check_unsplittable(const Operation& operation);
  std::vector<std::string> splittable_instead(const Operation& operation, const LayoutRule& rule) const;
  void find(const std::string& key, const LayoutRule& rule, const std::string& message,
            const std::string& hint, const std::string& tensor);
  void report(const Finding& finding);

  const Graph& graph_;
  const Layouts& layouts_;
  Diagnostics& diagnostics_;
  const bool advises_;
  const OperationSet live_;
  std::map<std::string, Finding> findings_;
  std::map<std::string, SplitSizes> split_sizes_;  ///< by the dimension and the mesh dimensions of the rule
  std::set<std::string> unsplittable_;             ///< dimensions along which some operation cannot be split
  Microbatching microbatching_;                    ///< microbatching of the loop being checked
  bool in_part_ = false;  ///< the rules of layouts_.part apply to what is being checked
  std::string layer_;     ///< layer of the operation being checked; empty outside all layers
};

std::string LayoutCheck::hint_for_mesh_dimension(const LayoutRule& rule, const std::string& name) const {
  if (layouts_.mesh.shape().contains(rule.dimension) && !nearest_mesh_dimension(layouts_.mesh, name))
    return fmt::format("the dimension of the tensors stands first: {{{}: {}}}", name, rule.dimension);
  return advise_mesh_dimension(layouts_.mesh, name);
}

void LayoutCheck::check_mesh_dimensions() {
  std::set<std::string> seen;
  std::vector<const LayoutRules*> all{&layouts_.activation, &layouts_.parameter, &layouts_.optimizer};
  if (layouts_.part) all.insert(all.end(), {&layouts_.part->activation, &layouts_.part->parameter});
  for (const LayoutRules* rules : all) {
    for (const LayoutRule& rule : rules->rules()) {
      for (const std::string& name : rule.mesh_dimensions) {
        if (layouts_.mesh.shape().contains(name)) continue;
        if (!seen.insert(rule.dimension + ":" + name).second) continue;
        diagnostics_.error(rule.mark,
                           fmt::format("{} splits `{}` over `{}`, which is no dimension of the mesh",
                                       section(rule), rule.dimension, name),
                           hint_for_mesh_dimension(rule, name));
      }
    }
  }
}

void LayoutCheck::check_block(const Block& block) {
  for (const auto& operation : block) {
    if (!live_.contains(operation.get())) continue;
    // The body of a loop comes first, so that messages name its layers as the places of sizes rather than the loop.
    if (const auto* loop = dynamic_cast<const Repeat*>(operation.get())) {
      const Microbatching outer = std::exchange(microbatching_, loop->microbatching);
      check_block(loop->body);
      microbatching_ = outer;
    }
    check_operation(*operation);
  }
}

void LayoutCheck::check_operation(const Operation& operation) {
  const Domain domain = operation.hints().domain;
  layer_ = operation.provenance().path();
  in_part_ = layouts_.part && layouts_.part->holds(layer_);
  std::string name = layer_;
  name += (name.empty() ? "" : "/") + std::string(operation.name());
  if (const auto* input = dynamic_cast<const Input*>(&operation)) name = input->input_name;
  if (const auto* read = dynamic_cast<const ReadVariable*>(&operation)) name = read->variable->name;
  for (const Tensor& input : operation.inputs()) {
    if (input.operation().name() == "variable") {
      check_tensor(static_cast<const ReadVariable&>(input.operation()).variable->name, input.shape(), domain);
    } else {
      check_tensor(name, input.shape(), domain);
    }
  }
  for (const OutputInfo& output : operation.outputs()) check_tensor(name, output.shape, domain);
  check_shared(name, operation.joint_shape(), domain, "the operands of one operation");
  check_unsplittable(operation);
}

void LayoutCheck::check_tensor(const std::string& name, const Shape& shape, Domain domain) {
  check_repeated_rules(name, shape, domain);
  check_shared(name, shape, domain, "one tensor");
  check_divisible(name, shape, domain);
}

void LayoutCheck::check_repeated_rules(const std::string& name, const Shape& shape, Domain domain) {
  const std::vector<LayoutRule>& all = rules(domain).rules();
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (all[i].dimension != all[j].dimension || !shape.contains(all[i].dimension)) continue;
      const std::vector<std::string>&before = all[j].mesh_dimensions, &after = all[i].mesh_dimensions;
      const bool overlap = std::ranges::any_of(
          after, [&](const std::string& name) { return std::ranges::find(before, name) != before.end(); });
      find("L1 " + all[i].dimension, all[i],
           before == after ? fmt::format("{} splits `{}` over `{}` twice", section(all[i]), all[i].dimension,
                                         join_words(after))
                           : fmt::format("{} splits `{}` twice, over `{}` and over `{}`", section(all[i]),
                                         all[i].dimension, join_words(before), join_words(after)),
           overlap ? "leave one of the two rules out"
                   : fmt::format("leave one, or write {}: [{}, {}] to split it over both", all[i].dimension,
                                 join_words(before), join_words(after)),
           name + " " + shape.to_string());
    }
  }
}

/// The rule by which a dimension is split, also after split_apart(); null: none.
const LayoutRule* LayoutCheck::rule_for(const std::string& dimension, Domain domain) const {
  if (const LayoutRule* rule = find_rule(dimension, domain)) return rule;
  const std::vector<LayoutRule>& all = rules(domain).rules();
  const auto found = std::ranges::find_if(all, [&](const LayoutRule& rule) {
    return dimension.starts_with(split_apart(rule.dimension, {std::string()}));
  });
  return found == all.end() ? nullptr : &*found;
}

/// The mesh dimensions over which a dimension with this rule is split: fewer than in the rule after split_apart().
std::vector<std::string> LayoutCheck::mesh_dimensions(const std::string& dimension, const LayoutRule& rule,
                                                      Domain domain) const {
  if (rule.dimension == dimension) return rule.mesh_dimensions;
  std::vector<std::string> names;
  for (const int axis : LayoutMap(layouts_.mesh, rules(domain)).axes(dimension))
    names.push_back(layouts_.mesh.shape()[axis].name);
  return names;
}

void LayoutCheck::check_shared(const std::string& name, const Shape& shape, Domain domain,
                               const std::string& what) {
  std::map<std::string, const LayoutRule*> user;  // by mesh dimension
  for (const Dimension& d : shape) {
    const LayoutRule* rule = rule_for(d.name, domain);
    if (!rule) continue;
    for (const std::string& mesh_dimension : mesh_dimensions(d.name, *rule, domain)) {
      const std::optional<int> axis = layouts_.mesh.shape().find(mesh_dimension);
      if (!axis) continue;
      const auto [other, added] = user.emplace(mesh_dimension, rule);
      if (added) continue;
      const bool twice = other->second == rule;
      if (!twice && layouts_.mesh.size(*axis) == 1) continue;  // neither is split
      // Both are elements of one list, in which those of later sections come last.
      const auto [first, last] = std::minmax(other->second, rule);
      find(fmt::format("L2 {} {} {}", last->dimension, first->dimension, mesh_dimension), *last,
           twice ? fmt::format("{} splits `{}` over mesh dimension `{}` twice", section(*rule),
                               rule->dimension, mesh_dimension)
                 : fmt::format("{}, both of {}, over mesh dimension `{}`", splits_both(*first, *last), what,
                               mesh_dimension),
           twice ? "name it once" : "split one of them over another mesh dimension or not at all",
           name + " " + shape.to_string());
    }
  }
}

/// Says which sections split the dimensions of two rules. `last` is the rule at whose place the problem is reported.
std::string LayoutCheck::splits_both(const LayoutRule& first, const LayoutRule& last) const {
  const std::string one = section(first), other = section(last);
  if (one == other) return fmt::format("{} splits `{}` and `{}`", one, first.dimension, last.dimension);
  const std::string place = first.mark.known() ? fmt::format(" ({})", first.mark.to_string()) : "";
  return fmt::format("{} splits `{}`{} and {} `{}`", one, first.dimension, place, other, last.dimension);
}

void LayoutCheck::check_divisible(const std::string& name, const Shape& shape, Domain domain) {
  for (const Dimension& d : shape) {
    const LayoutRule* rule = find_rule(d.name, domain);
    if (!rule) continue;
    SplitSizes& known = split_sizes_[fmt::format("{} {}{}", d.name, join_words(rule->mesh_dimensions),
                                                 in_part_ ? " part" : "")];
    if (!known.rule) known.rule = rule;
    if (std::ranges::find(known.sizes, d.size, &SplitSize::entries) == known.sizes.end()) {
      const int64_t microbatches = d.name == microbatching_.dimension ? microbatching_.count : 1;
      known.sizes.push_back({d.size, layer_.empty() ? name : layer_, microbatches});
    }
    if (d.size % parts(*rule) != 0) known.indivisible.push_back(name + " " + shape.to_string());
  }
}

void LayoutCheck::report_indivisible(const std::string& key, const SplitSizes& known) {
  if (known.indivisible.empty()) return;
  const LayoutRule& rule = *known.rule;
  const int64_t n = parts(rule);
  const auto wrong =
      std::ranges::find_if(known.sizes, [n](const SplitSize& size) { return size.entries % n != 0; });
  int64_t common = 0;
  std::vector<std::string> entries, axes;
  for (const SplitSize& size : known.sizes) {
    common = std::gcd(common, size.entries);
    entries.push_back(std::to_string(size.entries));
  }
  for (const std::string& axis : rule.mesh_dimensions) axes.push_back("`" + axis + "`");
  const bool several = axes.size() > 1;
  const std::string over = fmt::format("mesh dimension{} {} ({}), which {} not divide", several ? "s" : "",
                                       join_words(axes, " and "), n, several ? "do" : "does");
  const std::string subject = several ? "their product" : axes[0];
  std::string message, hint;
  if (wrong->microbatches > 1) {
    message = fmt::format("{} splits `{}` ({} in each of {} microbatches) over {} it", section(rule),
                          rule.dimension, wrong->entries, wrong->microbatches, over);
    hint = fmt::format("{} could be {}, or the microbatches fewer", subject, divisors_text(wrong->entries));
  } else if (known.sizes.size() == 1) {
    message =
        fmt::format("{} splits `{}` ({}) over {} it", section(rule), rule.dimension, wrong->entries, over);
    hint = fmt::format("{} could be {}", subject, divisors_text(wrong->entries));
  } else {
    message = fmt::format("{} splits `{}` over {} its {} entries in {}", section(rule), rule.dimension, over,
                          wrong->entries, wrong->where);
    hint =
        fmt::format("`{}` has {} entries in this model, and {}", rule.dimension, join_words(entries, " and "),
                    common == 1 ? fmt::format("only 1 divides them all: leave `{}` unsplit", rule.dimension)
                                : fmt::format("{} could be {}", subject, divisors_text(common)));
    if (wrong != known.sizes.begin())
      hint += fmt::format(", or give it another name before {}", wrong->where);
  }
  Finding& finding = findings_["L4 " + key];
  finding = {rule.mark, message, hint, known.indivisible};
}

void LayoutCheck::check_unsplittable(const Operation& operation) {
  for (const std::string& dimension : operation.unsplittable()) {
    const LayoutRule* rule = find_rule(dimension, operation.hints().domain);
    if (!rule || parts(*rule) == 1) continue;
    // Limits of a gradient follow from those of its forward operation, which was checked before.
    const bool forward = operation.provenance().phase == Phase::kForward;
    if (!forward && unsplittable_.contains(dimension)) continue;
    unsplittable_.insert(dimension);
    const std::string key = fmt::format("L6 {} {}", dimension, operation.name());
    std::string hint = fmt::format("leave `{}` unsplit", dimension);
    if (advises_ && !findings_.contains(key)) {
      const std::vector<std::string> others = splittable_instead(operation, *rule);
      if (!others.empty())
        hint = fmt::format("split {} over `{}` instead, or {}", join_words(others, " or "),
                           fmt::join(rule->mesh_dimensions, "`, `"), hint);
    }
    find(key, *rule,
         fmt::format("{} splits `{}`, along which {} cannot be split", section(*rule), dimension,
                     operation.name()),
         hint,
         operation.provenance().path().empty() ? std::string(operation.name())
                                               : operation.provenance().path());
  }
}

/// The dimensions of the operation's inputs, in quotes, for which the rule would be legal instead.
std::vector<std::string> LayoutCheck::splittable_instead(const Operation& operation,
                                                         const LayoutRule& rule) const {
  std::vector<std::string> found;
  std::set<std::string> names;
  for (const Tensor& input : operation.inputs()) {
    for (const Dimension& d : input.shape()) {
      if (!is_internal(d.name)) names.insert(d.name);
    }
  }
  for (const std::string& name : names) {
    if (rules(operation.hints().domain).find(name)) continue;
    const auto replaced = [&](const LayoutRules& section) {
      std::vector<LayoutRule> all = section.rules();
      for (LayoutRule& other : all) {
        if (other.dimension == rule.dimension) other.dimension = name;
      }
      return LayoutRules(std::move(all));
    };
    const Layouts other{layouts_.mesh, replaced(layouts_.activation), replaced(layouts_.parameter),
                        replaced(layouts_.optimizer), layouts_.part};
    Diagnostics diagnostics;
    LayoutCheck(graph_, other, diagnostics, false).run();
    if (!diagnostics.has_errors()) found.push_back("`" + name + "`");
  }
  return found;
}

void LayoutCheck::find(const std::string& key, const LayoutRule& rule, const std::string& message,
                       const std::string& hint, const std::string& tensor) {
  Finding& finding = findings_[key];
  if (finding.message.empty()) finding = {rule.mark, message, hint, {}};
  if (std::find(finding.tensors.begin(), finding.tensors.end(), tensor) == finding.tensors.end()) {
    finding.tensors.push_back(tensor);
  }
}

void LayoutCheck::report(const Finding& finding) {
  diagnostics_.error(finding.mark, finding.message, finding.hint, used_by(finding.tensors));
}

}  // namespace

void check_layouts(const Graph& graph, const Layouts& layouts, Diagnostics& diagnostics) {
  LayoutCheck(graph, layouts, diagnostics, true).run();
}

}  // namespace mtf
