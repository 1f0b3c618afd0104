#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// What is in flight, or fetched ahead, is at most this part of all results that are kept (or the largest of them).
constexpr int64_t kWindows = 16;

/// Memory that a block uses in the forward pass and again in the backward pass. Places are indices of instructions.
struct Kept {
  ValueId root = kNoValue;
  int64_t bytes = 0;
  size_t last = 0;   ///< its last use in the forward pass
  size_t first = 0;  ///< the next use
  bool moves = false;
  ValueId on_host = kNoValue, back = kNoValue;  ///< where it moves to
};

/// Visits the values that the instruction itself names, without those of a body.
template <class AnyInstruction, class Visit>
void for_each_own(AnyInstruction& instruction, const Visit& visit) {
  for (auto& id : instruction.inputs) visit(id);
  for (auto& id : instruction.outputs) visit(id);
  if (auto* done = instruction.template as<action::Done>()) {
    for (auto& id : done->kept) visit(id);
  }
  if (instruction.guard != kNoValue) visit(instruction.guard);
}

class Offloading {
 public:
  Offloading(Program& program, int64_t least_bytes) : program_(program), least_bytes_(least_bytes) {
    for (const auto& [name, id] : program.outputs) fixed_.insert(program.root(id));
    examine(program.instructions);
  }

  void run() {
    for_each_block(program_.instructions, [this](std::vector<Instruction>& block) { offload(block); });
  }

 private:
  /// Finds the memory that must stay where it is, and what depends on the data of the step.
  void examine(const std::vector<Instruction>& block) {
    const int number = ++blocks_;
    for (const Instruction& instruction : block) {
      for_each_own(instruction, [&](ValueId id) {
        const ValueId root = program_.root(id);
        if (block_of_.try_emplace(root, number).first->second != number) fixed_.insert(root);
      });
      const bool gathers = instruction.is<action::Copy>() || instruction.is<action::Accumulate>() ||
                           instruction.is<action::Place>();
      const bool of_data =
          std::ranges::any_of(instruction.inputs, [this](ValueId id) { return is_of_data(id); });
      for (const ValueId id : instruction.outputs) {
        if (gathers) fixed_.insert(program_.root(id));
        if (of_data) of_data_.insert(program_.root(id));
      }
      examine(instruction.body());
    }
  }

  /// False for what follows from the weights alone, such as their casts.
  bool is_of_data(ValueId id) const {
    const ValueId root = program_.root(id);
    return program_.values[root].storage == Value::Storage::kInput || of_data_.contains(root);
  }

  bool can_move(ValueId root) const {
    return program_.values[root].storage == Value::Storage::kTemporary && !fixed_.contains(root) &&
           of_data_.contains(root) && program_.local_bytes(root) >= least_bytes_;
  }

  std::vector<Kept> find_kept(const std::vector<Instruction>& block) const {
    std::map<ValueId, std::vector<size_t>> uses;
    std::unordered_map<ValueId, size_t> landed;  // by result of a collective: its done
    for (size_t i = 0; i < block.size(); ++i) {
      for_each_own(block[i], [&](ValueId id) {
        const ValueId root = program_.root(id);
        if (!can_move(root)) return;
        std::vector<size_t>& places = uses[root];
        if (places.empty() || places.back() != i) places.push_back(i);
      });
      if (!block[i].is<action::Done>()) continue;
      for (const ValueId id : block[i].inputs) landed.emplace(id, i);
    }
    std::vector<Kept> kept;
    for (const auto& [root, places] : uses) {
      const auto turn = std::ranges::find_if(places, [&](size_t place) {
        return block[place].provenance.phase != Phase::kForward && !block[place].is<action::Done>();
      });
      if (turn == places.begin() || turn == places.end()) continue;
      const auto is_written = [&, root = root](ValueId id) { return program_.root(id) == root; };
      if (std::ranges::none_of(block[places.front()].outputs, is_written)) continue;
      const bool is_at_rest = std::all_of(places.begin(), turn, [&](size_t place) {
        if (!block[place].is_collective()) return true;
        const auto done = landed.find(block[place].outputs[0]);
        return done == landed.end() || done->second < *turn;
      });
      if (is_at_rest)
        kept.push_back(
            {.root = root, .bytes = program_.local_bytes(root), .last = *(turn - 1), .first = *turn});
    }
    return kept;
  }

  void offload(std::vector<Instruction>& block) {
    std::vector<Kept> kept = find_kept(block);
    if (kept.empty()) return;
    int64_t window = 0, all = 0;
    for (const Kept& value : kept) {
      window = std::max(window, value.bytes);
      all += value.bytes;
    }
    window = std::max(window, all / kWindows);
    if (!choose(block.size(), window, kept)) return;
    insert(block, window, kept);
  }

  /// Lets those move that come back after at least a window of others has been read; false: none does.
  static bool choose(size_t instructions, int64_t window, std::vector<Kept>& kept) {
    std::vector<int64_t> read(instructions + 1);  // bytes whose first use stands before a place
    for (const Kept& value : kept) read[value.first + 1] += value.bytes;
    std::partial_sum(read.begin(), read.end(), read.begin());
    for (Kept& value : kept) value.moves = read[value.first] - read[value.last + 1] >= window;
    return std::ranges::any_of(kept, &Kept::moves);
  }

  void insert(std::vector<Instruction>& block, int64_t window, std::vector<Kept>& kept) {
    add_values(kept);
    struct Event {
      size_t place;  ///< place of the instruction that follows
      bool is_back;
      size_t value;
    };
    std::vector<Event> events;
    for (const size_t i : sorted(kept, &Kept::last)) events.push_back({kept[i].last + 1, false, i});
    const std::vector<size_t> by_first = sorted(kept, &Kept::first);
    // A window of values has come back, or is about to, when one of them is first read.
    int64_t ahead = kept[by_first[0]].bytes;
    for (size_t reader = 0, i = 0; i < by_first.size(); ++i) {
      const Kept& value = kept[by_first[i]];
      if (i > 0) ahead += value.bytes;
      while (ahead - kept[by_first[reader]].bytes > window) ahead -= kept[by_first[reader++]].bytes;
      const size_t place = std::max(kept[by_first[reader]].first, value.last + 1);
      if (value.moves) events.push_back({std::min(place, value.first), true, by_first[i]});
    }
    std::ranges::stable_sort(events, {}, [](const Event& e) { return std::pair(e.place, e.is_back); });

    std::vector<std::vector<Instruction>> before(block.size());
    std::vector<std::vector<Instruction>> arrivals(block.size());
    std::deque<size_t> flights;  // also of those that stay, so that the others land meanwhile
    std::vector<bool> has_landed(kept.size());
    int64_t flying = 0;
    const auto land = [&](size_t place) {
      const Kept& value = kept[flights.front()];
      has_landed[flights.front()] = true;
      flights.pop_front();
      flying -= value.bytes;
      if (value.moves) before[place].push_back({action::Done{{value.root}}, {value.on_host}});
    };
    const auto transfer = [&](const Kept& value, bool is_back, size_t place) {
      const Instruction& user = block[is_back ? value.first : value.last];
      before[place].push_back({.action = action::Transfer{!is_back},
                               .inputs = {is_back ? value.on_host : value.root},
                               .outputs = {is_back ? value.back : value.on_host},
                               .provenance = user.provenance,
                               .layer = user.layer});
    };
    for (const auto& [place, is_back, i] : events) {
      const Kept& value = kept[i];
      if (is_back) {
        while (!has_landed[i]) land(place);
        transfer(value, true, place);
        arrivals[value.first].push_back({action::Done{{value.on_host}}, {value.back}});
        continue;
      }
      while (!flights.empty() && flying + value.bytes > window) land(place);
      flights.push_back(i);
      flying += value.bytes;
      if (value.moves) transfer(value, false, place);
    }
    rewrite(block, kept, before, arrivals);
  }

  void add_values(std::vector<Kept>& kept) {
    for (Kept& value : kept) {
      if (!value.moves) continue;
      const auto add = [&](const char* suffix, bool on_host) {
        Value copy = program_.values[value.root];
        copy.name += suffix;
        copy.on_host = on_host;
        return program_.add_value(std::move(copy));
      };
      value.on_host = add("_host", true);
      value.back = add("_back", false);
    }
  }

  static std::vector<size_t> sorted(const std::vector<Kept>& kept, size_t Kept::*place) {
    std::vector<size_t> order(kept.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return kept[i].*place; });
    return order;
  }

  /// Puts the new instructions into the block, and lets what follows use the values that came back.
  void rewrite(std::vector<Instruction>& block, const std::vector<Kept>& kept,
               std::vector<std::vector<Instruction>>& before,
               std::vector<std::vector<Instruction>>& arrivals) {
    std::unordered_map<ValueId, const Kept*> moved;
    for (const Kept& value : kept) {
      if (value.moves) moved[value.root] = &value;
    }
    ValueMap copies;
    std::vector<Instruction> result;
    for (size_t i = 0; i < block.size(); ++i) {
      for (auto* added : {&before[i], &arrivals[i]}) std::ranges::move(*added, std::back_inserter(result));
      for_each_own(block[i], [&](ValueId& id) {
        const auto found = moved.find(program_.root(id));
        if (found != moved.end() && found->second->first <= i) id = copy_of(id, *found->second, copies);
      });
      result.push_back(std::move(block[i]));
    }
    block = std::move(result);
  }

  /// The value, a view for instance, in the memory that came back.
  ValueId copy_of(ValueId id, const Kept& value, ValueMap& copies) {
    if (id == value.root) return value.back;
    const auto known = copies.find(id);
    if (known != copies.end()) return known->second;
    Value copy = program_.values[id];
    copy.name += "_back";
    copy.alias = copy_of(copy.alias, value, copies);
    return copies[id] = program_.add_value(std::move(copy));
  }

  Program& program_;
  const int64_t least_bytes_;
  int blocks_ = 0;
  std::unordered_map<ValueId, int> block_of_;  ///< by root: the first block that uses it
  std::unordered_set<ValueId> fixed_;          ///< roots that are used in several blocks, carried or results
  std::unordered_set<ValueId> of_data_;        ///< roots that depend on inputs
};

}  // namespace

Program offload_activations(Program program, int64_t least_bytes) {
  Offloading(program, least_bytes).run();
  return program;
}

}  // namespace mtf
