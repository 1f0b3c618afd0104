#include "data/options.h"

#include <fmt/format.h>

#include <utility>

#include "data/identity.h"
#include "data/idx.h"
#include "data/paths.h"
#include "engine/core/check.h"

namespace mtf {
namespace {

std::unique_ptr<Source> make(const IdxOptions& options, uint64_t, const Mark& mark) {
  std::vector<Problem> missing;
  const std::vector<std::string> images = find_files(options.images, missing);
  const std::vector<std::string> labels = find_files(options.labels, missing);
  if (!missing.empty()) throw Error(std::move(missing));
  if (images.empty() || images.size() != labels.size())
    throw Error(ErrorKind::kData, mark,
                fmt::format("{} files of images and {} of labels", images.size(), labels.size()),
                "one file of labels for each file of images");
  return std::make_unique<IdxSource>(images, labels);
}

std::unique_ptr<Source> make(const IdentityOptions& options, uint64_t seed, const Mark&) {
  return std::make_unique<IdentitySource>(options.examples, Dimension{options.dimension, options.size}, seed);
}

std::unique_ptr<Source> make(const LaterSource&, uint64_t, const Mark&) {
  MTF_CHECK(false, "the schema let a source pass that comes later");
}

}  // namespace

SourceOptions source_of(const EvaluationSourceOptions& options) {
  return std::visit([]<class Options>(const Evaluated<Options>& x) { return SourceOptions(Options(x)); },
                    options);
}

const std::vector<std::string>& metrics_of(const EvaluationSourceOptions& options) {
  return std::visit([](const auto& x) -> const std::vector<std::string>& { return x.metrics; }, options);
}

std::optional<int64_t> limit_of(const EvaluationSourceOptions& options) {
  return std::visit([](const auto& x) { return x.limit; }, options);
}

std::unique_ptr<Source> make_source(const SourceOptions& options, uint64_t seed, const Mark& mark) {
  return std::visit([&](const auto& x) { return make(x, seed, mark); }, options);
}

}  // namespace mtf
