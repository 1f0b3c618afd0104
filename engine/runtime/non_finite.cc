#include "engine/runtime/non_finite.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json.h"

namespace mtf {
namespace {

double widened(float x) { return x; }
double widened(double x) { return x; }
double widened(BFloat16 x) { return static_cast<float>(x); }

template <class T>
void examine(const std::byte* data, int64_t count, NonFinite& found) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    const double x = widened(values[i]);
    const bool first = found.count == found.nans + found.infinities;  // no finite value seen yet
    ++found.count;
    if (std::isnan(x)) {
      ++found.nans;
    } else if (std::isinf(x)) {
      ++found.infinities;
    } else {
      found.smallest = first ? x : std::min(found.smallest, x);
      found.largest = first ? x : std::max(found.largest, x);
    }
  }
}

std::string message_of(const NonFinite& found) {
  const nlohmann::json fields{found.order,   found.tensor, found.operation,  found.layer, found.smallest,
                              found.largest, found.nans,   found.infinities, found.count};
  return json_text(fields);
}

NonFinite non_finite_of(const std::string& message) {
  const auto fields = nlohmann::json::parse(message);
  return {fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6], fields[7], fields[8]};
}

}  // namespace

void examine(DType dtype, const std::byte* data, int64_t count, NonFinite& found) {
  switch (dtype) {
    case DType::kFloat32:
      return examine<float>(data, count, found);
    case DType::kBFloat16:
      return examine<BFloat16>(data, count, found);
    case DType::kFloat64:
      return examine<double>(data, count, found);
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
    case DType::kInt8:
    case DType::kUInt8:
      return;
  }
}

std::optional<NonFinite> earliest(Communicator& communicator, const std::optional<NonFinite>& found) {
  std::optional<NonFinite> result;
  for (const std::string& message :
       all_gather(communicator, found ? message_of(*found) : "", "values that are not finite")) {
    if (message.empty()) continue;
    NonFinite of_process = non_finite_of(message);
    if (!result || of_process.order < result->order) result = std::move(of_process);
  }
  return result;
}

NonFiniteSearch::NonFiniteSearch(const Program& program) : makers_(program.values.size()) {
  add(program.instructions);
}

void NonFiniteSearch::add(const std::vector<Instruction>& block) {
  for (const Instruction& instruction : block) {
    numbers_.emplace(&instruction, static_cast<int64_t>(numbers_.size()));
    for (const ValueId id : instruction.outputs) makers_[id] = &instruction;
    add(instruction.body());
  }
}

void NonFiniteSearch::enter(const Instruction& repeat, int64_t iteration) {
  loops_.insert(loops_.end(), {numbers_.at(&repeat), iteration});
}

void NonFiniteSearch::leave() { loops_.resize(loops_.size() - 2); }

std::vector<int64_t> NonFiniteSearch::order(ValueId id) const {
  std::vector<int64_t> order = loops_;
  order.push_back(numbers_.at(makers_[id]));
  return order;
}

}  // namespace mtf
