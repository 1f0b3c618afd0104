#include "models/loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

struct Loss {
  LossTarget target;
  Tensor (*loss)(const LossInputs&);
  std::vector<std::string_view> common_names;
};

std::map<std::string, Loss, std::less<>>& losses() {
  static std::map<std::string, Loss, std::less<>> registered;
  return registered;
}

std::vector<std::string> names_for(LossTarget target) {
  std::vector<std::string> names;
  for (const auto& [name, loss] : losses()) {
    if (loss.target == target) names.push_back(name);
  }
  return names;
}

/// The loss that someone may mean by this name, also one of other targets.
std::string hint_at_loss(const std::string& name, const std::vector<std::string>& legal) {
  for (const auto& [known, loss] : losses()) {
    const auto means = [&name](std::string_view common) { return is_same_name(name, common); };
    if (std::ranges::any_of(loss.common_names, means)) return fmt::format("did you mean `{}`?", known);
  }
  return did_you_mean(name, legal);
}

}  // namespace

LossRegistration::LossRegistration(std::string_view name, LossTarget target,
                                   Tensor (*loss)(const LossInputs&),
                                   std::vector<std::string_view> common_names) {
  const bool is_new = losses().emplace(name, Loss{target, loss, std::move(common_names)}).second;
  MTF_CHECK(is_new, "loss {} is registered twice", name);
}

void describe_loss(config::Visitor& visit, LossOptions& options, LossTarget target) {
  visit("loss", options,
        fmt::format("{}; or a map of losses with weights", fmt::join(names_for(target), ", ")));
  visit.check([&options, target](const config::Report& report) {
    const std::vector<std::string> names = names_for(target);
    const auto check = [&](const std::string& name) {
      if (std::ranges::find(names, name) != names.end()) return;
      report.error("loss", fmt::format("unknown loss `{}`", name), hint_at_loss(name, names));
    };
    if (const auto* name = std::get_if<std::string>(&options)) return check(*name);
    const auto& weights = std::get<config::Named<double>>(options);
    if (weights.empty())
      report.error("loss", "`loss` names no loss", fmt::format("such as `{}`", names.front()));
    for (const auto& [name, weight] : weights) {
      check(name);
      if (weight < 0)
        report.error("loss." + name, fmt::format("the weight of `{}` is below 0", name), "a positive number");
    }
  });
}

Tensor weighted_loss(const LossOptions& options, const LossInputs& inputs) {
  if (const auto* name = std::get_if<std::string>(&options)) return losses().at(*name).loss(inputs);
  Tensor sum;
  for (const auto& [name, weight] : std::get<config::Named<double>>(options)) {
    const Tensor term = scalar_multiply(losses().at(name).loss(inputs), weight);
    sum = sum ? add(sum, term) : term;
  }
  return sum;
}

}  // namespace mtf
