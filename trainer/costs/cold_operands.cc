#include "trainer/costs/cold_operands.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/runtime/collective_of.h"

namespace mtf {
namespace {

/// Sums of numbers that change, from some place on: a Fenwick tree.
class Sums {
 public:
  explicit Sums(size_t size) : sums_(size + 1) {}
  void add(size_t place, double number) {
    total_ += number;
    for (++place; place < sums_.size(); place += place & -place) sums_[place] += number;
  }
  double from(size_t place) const {
    double before = 0;
    for (; place > 0; place -= place & -place) before += sums_[place];
    return total_ - before;
  }

 private:
  std::vector<double> sums_;
  double total_ = 0;
};

size_t uses_in(const std::vector<Instruction>& block) {
  size_t uses = 0;
  for (const Instruction& instruction : block) {
    uses += instruction.inputs.size() + instruction.outputs.size();
    if (instruction.is<action::Loop>()) uses += 2 * uses_in(instruction.body());
  }
  return uses;
}

/// A value has left a cache as a whole when so many times the bytes of the cache were used since. Caches replace what was used
/// last only about: a part of the value goes earlier.
constexpr double kForgotten = 1.25;

class Trace {
 public:
  Trace(const Program& program, const CostModel& model, const std::unordered_set<ValueId>& without_memory,
        std::unordered_map<const Instruction*, double>& cold)
      : program_(program),
        model_(model),
        without_memory_(without_memory),
        cold_(cold),
        operands_(program.values.size()),
        values_(program.values.size()),
        used_(2 * uses_in(program.instructions)),
        cache_(model.cache_bytes()) {}

  /// Executes a block twice: the second time finds what the first one has left, up to where that is no longer in the cache.
  void repeat(const std::vector<Instruction>& block) {
    for (int time = 0; time < 2; ++time) {
      const size_t begin = now_;
      segment_ = {};
      for (const Instruction& instruction : block) {
        if (time == 1 && used_.from(begin) > kForgotten * cache_) break;
        if (instruction.is<action::Loop>()) {
          repeat(instruction.body());
        } else {
          execute(instruction);
        }
      }
    }
    segment_ = {};
  }

 private:
  /// A value as an operand.
  struct Operand {
    ValueId root = kNoValue;  ///< the value in whose memory it lives
    double bytes = 0;         ///< bytes of a position
  };
  /// A value in memory.
  struct Used {
    bool is_used = false;
    size_t last = 0;   ///< the time of the last use
    double bytes = 0;  ///< bytes of a thread's positions
  };

  void execute(const Instruction& instruction) {
    const bool is_local = !instruction.is_collective() && !instruction.is<action::Transfer>() &&
                          !instruction.is<action::Done>();
    const Copies over = computed_over(program_, instruction, model_.placement().replicates);
    if (!is_local || segment_ != over) {
      segment_ = is_local ? std::optional(over) : std::nullopt;
      segment_begin_ = now_;
      turns_ = std::max(1.0, static_cast<double>(model_.count(over)) / model_.placement().threads);
    }
    double cold = 0;
    for_each_operand(instruction,
                     [&](const Operand& operand) { cold += cold_share(operand.root) * operand.bytes; });
    for_each_operand(instruction, [&](const Operand& operand) { use(operand.root); });
    cold_[&instruction] = cold;
  }

  template <class Visit>
  void for_each_operand(const Instruction& instruction, Visit visit) {
    for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId id : *ids) {
        Operand& operand = operands_[id];
        if (operand.root == kNoValue)
          operand = {program_.root(id), static_cast<double>(program_.local_bytes(id))};
        if (without_memory_.empty() || !without_memory_.contains(id)) visit(operand);
      }
    }
  }

  /// The part of a value that has left the cache.
  double cold_share(ValueId id) const {
    const Used& value = values_[id];
    if (!value.is_used || cache_ <= 0) return 1;
    // A thread runs a segment for one of its positions after the other.
    const double turns = value.last >= segment_begin_ ? turns_ : 1;
    return std::clamp((used_.from(value.last) / turns / cache_ - 1) / (kForgotten - 1), 0.0, 1.0);
  }

  void use(ValueId id) {
    Used& value = values_[id];
    if (!value.is_used) value.bytes = bytes_of_thread(id);
    if (value.is_used) used_.add(value.last, -value.bytes);
    used_.add(now_, value.bytes);
    value.last = now_++;
    value.is_used = true;
  }

  double bytes_of_thread(ValueId id) const {
    const Copies stored = stored_over(program_, id, model_.placement().replicates);
    return static_cast<double>(program_.local_bytes(id) * model_.count(stored)) / model_.placement().threads;
  }

  const Program& program_;
  const CostModel& model_;
  const std::unordered_set<ValueId>& without_memory_;
  std::unordered_map<const Instruction*, double>& cold_;
  std::vector<Operand> operands_;
  std::vector<Used> values_;
  Sums used_;  ///< Used::bytes, at Used::last
  const double cache_;
  size_t now_ = 0;
  std::optional<Copies> segment_;  ///< what the current stretch of local instructions is computed over
  size_t segment_begin_ = 0;
  double turns_ = 1;
};

}  // namespace

ColdOperands::ColdOperands(const Program& program, const CostModel& model,
                           const std::unordered_set<ValueId>& without_memory) {
  Trace(program, model, without_memory, bytes_).repeat(program.instructions);
}

double ColdOperands::bytes(const Instruction& instruction) const { return bytes_.at(&instruction); }

}  // namespace mtf
