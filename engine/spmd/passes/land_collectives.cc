#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/lifetimes.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// The default of FlightOptions::more is this fraction of the largest need: 1 / kPart.
constexpr int64_t kPart = 50;

bool is_started(const Instruction& instruction) {
  const auto* communicate = instruction.as<action::Communicate>();
  return communicate && communicate->started;
}

class Landing {
 public:
  Landing(Program& program, const FlightOptions& options)
      : program_(program), lifetimes_(lifetimes(program)), in_use_(bytes_in_use(program, lifetimes_)) {
    const int64_t most = in_use_.empty() ? 0 : *std::ranges::max_element(in_use_);
    const int64_t more = options.more.value_or(most / kPart);
    limit_ = most + more;
    if (options.scratch) find_scratch(program.instructions, options);
    for (const auto& [result, bytes] : scratch_) scratch_limit_ = std::max(scratch_limit_, bytes);
    scratch_limit_ = std::max(scratch_limit_, more);
  }

  void run() { block(program_.instructions); }

 private:
  struct Flight {
    int64_t number = 0;  ///< counts flights in the order in which they start
    std::vector<ValueId> operands, results;
    int64_t scratch = 0;
  };
  using Flights = std::deque<Flight>;  ///< flights of one block, oldest first

  /// An operand of flights; identified by its root.
  struct Held {
    int flights = 0;
    int64_t last = 0;  ///< number of the latest flight that reads it
  };

  void find_scratch(const std::vector<Instruction>& instructions, const FlightOptions& options) {
    for (const Instruction& instruction : instructions) {
      find_scratch(instruction.body(), options);
      if (is_started(instruction)) scratch_[instruction.outputs[0]] = options.scratch(program_, instruction);
    }
  }

  int64_t scratch_of(const Instruction& instruction) const {
    const auto found = is_started(instruction) ? scratch_.find(instruction.outputs[0]) : scratch_.end();
    return found == scratch_.end() ? 0 : found->second;
  }

  void block(std::vector<Instruction>& instructions) {
    std::vector<Instruction> result;
    result.reserve(instructions.size());
    Flights flights;
    for (Instruction& instruction : instructions) {
      pass(++time_);
      if (instruction.is<action::Done>()) {
        land(flights, last_of(instruction.inputs), result);
        continue;
      }
      land(flights, last_overwritten(instruction), result);
      const int64_t need = need_of(instruction), scratch = scratch_of(instruction);
      const auto is_too_much = [&] {
        return need + held_bytes_ > limit_ || (scratch > 0 && scratch + scratch_bytes_ > scratch_limit_);
      };
      while (!flights.empty() && is_too_much()) land(flights, flights.front().number, result);
      if (auto* loop = instruction.as<action::Loop>()) {
        block(loop->body);
        pass(++time_);
      }
      if (is_started(instruction)) take_off(flights, instruction);
      result.push_back(std::move(instruction));
    }
    if (!flights.empty()) land(flights, flights.back().number, result);
    instructions = std::move(result);
  }

  /// Marks the operands that since before `time` are read only by flights: their memory counts as held.
  void pass(int64_t time) {
    for (; !ends_.empty() && ends_.begin()->first < time; ends_.erase(ends_.begin())) {
      const ValueId root = ends_.begin()->second;
      if (held_.contains(root) && alone_.insert(root).second) held_bytes_ += bytes_of(root);
    }
  }

  /// The bytes that the instruction, with its body, needs besides the held operands of flights.
  int64_t need_of(const Instruction& instruction) const {
    const auto end = std::min(time_ + moments(instruction), std::ssize(in_use_));
    return time_ < end ? *std::max_element(in_use_.begin() + time_, in_use_.begin() + end) : 0;
  }
  static int64_t moments(const Instruction& instruction) {
    int64_t moments = instruction.is<action::Loop>() ? 2 : 1;
    for (const Instruction& inner : instruction.body()) moments += Landing::moments(inner);
    return moments;
  }

  int64_t last_of(const std::vector<ValueId>& results) const {
    int64_t last = 0;
    for (ValueId id : results) {
      if (const auto found = flight_of_.find(id); found != flight_of_.end())
        last = std::max(last, found->second);
    }
    return last;
  }

  int64_t last_overwritten(const Instruction& instruction) const {
    int64_t last = 0;
    for_each_written(instruction, [&](ValueId id) {
      if (const auto found = held_.find(program_.root(id)); found != held_.end())
        last = std::max(last, found->second.last);
    });
    return last;
  }

  int64_t bytes_of(ValueId root) const {
    return program_.values[root].storage == Value::Storage::kTemporary ? aligned(program_.local_bytes(root))
                                                                       : 0;
  }

  std::vector<ValueId> roots_of(const std::vector<ValueId>& ids) const {
    std::vector<ValueId> roots;
    for (ValueId id : ids) roots.push_back(program_.root(id));
    std::ranges::sort(roots);
    roots.erase(std::ranges::unique(roots).begin(), roots.end());
    return roots;
  }

  void take_off(Flights& flights, const Instruction& instruction) {
    const int64_t number = ++started_;
    for (ValueId root : roots_of(instruction.inputs)) {
      Held& held = held_[root];
      ++held.flights;
      held.last = number;
      ends_.emplace(lifetimes_[root].end, root);
    }
    for (ValueId id : instruction.outputs) flight_of_[id] = number;
    flights.push_back({number, instruction.inputs, instruction.outputs, scratch_of(instruction)});
    scratch_bytes_ += flights.back().scratch;
  }

  /// Emits a Done that awaits the flights up to number `last`.
  void land(Flights& flights, int64_t last, std::vector<Instruction>& result) {
    std::vector<ValueId> results, kept;
    for (; !flights.empty() && flights.front().number <= last; flights.pop_front()) {
      const Flight& flight = flights.front();
      results.insert(results.end(), flight.results.begin(), flight.results.end());
      kept.insert(kept.end(), flight.operands.begin(), flight.operands.end());
      for (ValueId id : flight.results) flight_of_.erase(id);
      scratch_bytes_ -= flight.scratch;
      for (ValueId root : roots_of(flight.operands)) {
        if (--held_.at(root).flights > 0) continue;
        held_.erase(root);
        if (alone_.erase(root)) held_bytes_ -= bytes_of(root);
      }
    }
    if (!results.empty()) result.push_back({action::Done{std::move(kept)}, std::move(results)});
  }

  Program& program_;
  const std::vector<Lifetime> lifetimes_;
  const std::vector<int64_t> in_use_;
  int64_t limit_ = 0;
  int64_t time_ = 0, started_ = 0;
  std::unordered_map<ValueId, int64_t> flight_of_;  ///< number of the flight, by result
  std::unordered_map<ValueId, Held> held_;
  std::multimap<int64_t, ValueId> ends_;          ///< ends of the lifetimes of the operands of flights
  std::unordered_set<ValueId> alone_;             ///< operands that only flights still read
  int64_t held_bytes_ = 0;                        ///< bytes of these operands
  std::unordered_map<ValueId, int64_t> scratch_;  ///< by first result of the collective
  int64_t scratch_bytes_ = 0, scratch_limit_ = 0;
};

}  // namespace

Program land_collectives(Program program, const FlightOptions& options) {
  Landing(program, options).run();
  return program;
}

}  // namespace mtf
