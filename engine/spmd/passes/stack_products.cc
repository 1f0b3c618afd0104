#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/ops/einsum.h"
#include "engine/spmd/instruction_key.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/lifetimes.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// The dimension along which tensors are stacked.
constexpr const char* kStackDimension = "_stack";

/// A product of a tensor that other products read as well and one that is its own.
struct Product {
  size_t place = 0;
  size_t common = 0;  ///< index of the operand that is shared
  ValueId own = kNoValue, result = kNoValue;
};

/// Equal for products that one product can replace, if their structure (structure_of) is equal, too.
struct StackKind {
  ValueId root = kNoValue;  ///< memory of the shared operand
  int64_t offset = 0;
  size_t common = 0;
  bool accumulates = false;
  int layer = -1;
  Phase phase = Phase::kForward;

  friend auto operator<=>(const StackKind&, const StackKind&) = default;
};

/// The layer and phase in which a value is last read.
struct LastRead {
  int layer = -1;
  Phase phase = Phase::kForward;
  friend bool operator==(const LastRead&, const LastRead&) = default;
};

/// Instructions of a block, ascending.
struct Places {
  std::vector<size_t> written;  ///< those that write a value
  std::vector<size_t> made;     ///< those after which it has been written: of a collective, where it is done

  void add(const Places& other) {
    for (auto [own, more] : {std::pair(&written, &other.written), std::pair(&made, &other.made)}) {
      const auto middle = static_cast<ptrdiff_t>(own->size());
      own->insert(own->end(), more->begin(), more->end());
      std::inplace_merge(own->begin(), own->begin() + middle, own->end());
    }
  }
};

class Stacking {
 public:
  explicit Stacking(Program& program) : program_(program), last_read_(program.values.size()) {
    for (const auto& [name, id] : program.outputs) fixed_.insert(program.root(id));
    find_last_reads(program.instructions);
  }

  void run() { stack(program_.instructions); }

 private:
  void find_last_reads(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      for (ValueId id : instruction.inputs)
        last_read_[program_.root(id)] = {instruction.layer, instruction.provenance.phase};
      find_last_reads(instruction.body());
    }
  }

  void stack(std::vector<Instruction>& block) {
    std::vector<std::pair<StackKind, Product>> products;
    for (size_t i = 0; i < block.size(); ++i) {
      if (auto* loop = block[i].as<action::Loop>()) stack(loop->body);
      for (const size_t common : {0, 1}) {
        if (const auto kind = kind_of(block[i], common))
          products.push_back({*kind, {i, common, block[i].inputs[1 - common], block[i].outputs[0]}});
      }
    }
    std::ranges::stable_sort(products, {}, &std::pair<StackKind, Product>::first);
    const std::vector<std::vector<Product>> groups = of_one_structure(block, products);
    if (groups.empty()) return;
    find_places(block, groups);
    std::unordered_set<size_t> removed;
    for (const std::vector<Product>& products : groups) {
      if (can_stack(block, products)) merge(block, products, removed);
    }
    size_t i = 0;
    std::erase_if(block, [&](const Instruction&) { return removed.contains(i++); });
  }

  /// The products that one could replace, several each. Takes products by kind.
  std::vector<std::vector<Product>> of_one_structure(
      const std::vector<Instruction>& block, const std::vector<std::pair<StackKind, Product>>& products) {
    std::vector<std::vector<Product>> result;
    for (auto begin = products.begin(), end = begin; begin != products.end(); begin = end) {
      end = std::find_if(begin, products.end(), [&](const auto& p) { return p.first != begin->first; });
      const std::ranges::subrange alike(begin, end);
      if (std::ranges::count_if(alike, [&](const auto& p) { return can_be_parts(p.second); }) < 2) continue;
      std::map<std::string, std::vector<Product>> structures;
      for (const auto& [kind, product] : alike)
        structures[structure_of(block[product.place])].push_back(product);
      for (auto& [structure, equal] : structures) {
        if (equal.size() > 1) result.push_back(std::move(equal));
      }
    }
    return result;
  }

  std::optional<StackKind> kind_of(const Instruction& instruction, size_t common) const {
    const bool accumulates = instruction.is<action::Accumulate>();
    if ((!instruction.is<action::Run>() && !accumulates) || instruction.guard != kNoValue ||
        !dynamic_cast<const Einsum*>(instruction.operation())) {
      return std::nullopt;
    }
    const ValueId shared = instruction.inputs[common];
    return StackKind{program_.root(shared), program_.offset(shared), common,
                     accumulates,           instruction.layer,       instruction.provenance.phase};
  }

  /// Describes a contraction without the names of its dimensions.
  std::string structure_of(const Instruction& instruction) {
    const std::array<ValueId, 3> ids = {instruction.inputs[0], instruction.inputs[1], instruction.outputs[0]};
    key_.set(program_, instruction);
    const auto [known, is_new] = structures_.try_emplace(key_);
    if (is_new) known->second = structure_of(*instruction.operation(), ids);
    std::string text = known->second;
    for (ValueId id : ids) text += " " + std::to_string(program_.values[id].varies);
    return text;
  }

  std::string structure_of(const Operation& operation, const std::array<ValueId, 3>& ids) const {
    std::string text = operation.attributes();
    std::map<std::string, size_t> numbers;
    for (ValueId id : ids) {
      const Value& value = program_.values[id];
      std::vector<Dimension> dimensions;
      for (const Dimension& d : value.shape)
        dimensions.emplace_back(std::to_string(numbers.emplace(d.name, numbers.size()).first->second),
                                d.size);
      text += std::string(" ") + std::string(short_name(value.dtype)) +
              to_string(Shape(std::move(dimensions)), value.layout, program_.mesh);
    }
    return text;
  }

  bool can_stack(const std::vector<Instruction>& block, const std::vector<Product>& products) const {
    std::unordered_set<ValueId> roots;
    for (const Product& product : products) {
      if (!can_be_parts(product)) return false;
      for (ValueId id : {product.own, product.result}) {
        if (!roots.insert(program_.root(id)).second) return false;
      }
      if (last_read_[program_.root(product.own)] != last_read_[program_.root(products[0].own)]) return false;
      if (last_read_[product.result] != last_read_[products[0].result]) return false;
    }
    return are_known(block, products);
  }

  bool can_be_parts(const Product& product) const {
    return can_be_part(product.own) && can_be_part(product.result);
  }

  /// True for values with memory of their own, whose parts begin where values may begin.
  bool can_be_part(ValueId id) const {
    const ValueId root = program_.root(id);
    const int64_t bytes = program_.local_bytes(root);
    return program_.values[root].storage == Value::Storage::kTemporary && !fixed_.contains(root) &&
           last_read_[root] && bytes == program_.local_bytes(id) && bytes == aligned(bytes);
  }

  /// True if all operands have their values where the first product runs. The other factors are then made in this
  /// block, or all outside of it.
  bool are_known(const std::vector<Instruction>& block, const std::vector<Product>& products) const {
    const size_t first = products.front().place, last = products.back().place;
    const bool is_first_made = is_written_before(products[0].own, first);
    return std::ranges::all_of(products, [&](const Product& product) {
      return is_written_before(product.own, first) == is_first_made &&
             std::ranges::none_of(block[product.place].inputs,
                                  [&](ValueId id) { return is_made_between(id, first, last); });
    });
  }

  bool is_written_before(ValueId id, size_t place) const {
    const std::vector<size_t>& written = places_.at(program_.root(id)).written;
    return !written.empty() && written.front() < place;
  }

  bool is_made_between(ValueId id, size_t begin, size_t end) const {
    const std::vector<size_t>& made = places_.at(program_.root(id)).made;
    const auto next = std::ranges::lower_bound(made, begin);
    return next != made.end() && *next < end;
  }

  /// Finds the places of the operands and results of these products.
  void find_places(const std::vector<Instruction>& block, const std::vector<std::vector<Product>>& groups) {
    places_.clear();
    for (const std::vector<Product>& products : groups) {
      for (const Product& product : products) {
        for (ValueId id : block[product.place].inputs) places_[program_.root(id)];
        places_[program_.root(product.result)];
      }
    }
    for (size_t i = 0; i < block.size(); ++i) {
      const bool is_done = block[i].is<action::Done>();
      for_each_written(block[i], [&](ValueId id) {
        const auto places = places_.find(program_.root(id));
        if (places == places_.end()) return;
        places->second.written.push_back(i);
        if (!is_done) places->second.made.push_back(i);
      });
      if (!is_done) continue;
      for (ValueId id : block[i].inputs) {
        if (const auto places = places_.find(program_.root(id)); places != places_.end())
          places->second.made.push_back(i);
      }
    }
  }

  /// Puts the values one after the other into memory of their own; returns the view of all of them.
  ValueId stacked(const std::vector<ValueId>& parts) {
    const auto with_stack = [&](ValueId id) {
      Value value = program_.values[id];
      std::vector<Dimension> dimensions{{kStackDimension, std::ssize(parts)}};
      dimensions.insert(dimensions.end(), value.shape.begin(), value.shape.end());
      value.name.clear();
      value.shape = Shape(std::move(dimensions));
      std::vector<std::vector<int>>& split = value.layout.split.change();
      split.insert(split.begin(), std::vector<int>());
      value.alias = kNoValue;
      value.offset = 0;
      return value;
    };
    const ValueId whole = program_.add_value(with_stack(program_.root(parts[0])));
    ValueId view = whole;
    if (program_.root(parts[0]) != parts[0]) {
      Value seen = with_stack(parts[0]);
      seen.alias = whole;
      view = program_.add_value(std::move(seen));
    }
    Places& places = places_[whole];
    int64_t offset = 0;
    for (ValueId part : parts) {
      places.add(places_.at(program_.root(part)));
      Value& value = program_.values[program_.root(part)];
      offset += program_.local_bytes(part);
      value.alias = whole;
      value.offset = offset - program_.local_bytes(part);
    }
    return view;
  }

  void merge(std::vector<Instruction>& block, const std::vector<Product>& products,
             std::unordered_set<size_t>& removed) {
    std::vector<ValueId> own, results;
    for (const Product& product : products) {
      own.push_back(product.own);
      results.push_back(product.result);
      for (ValueId id : {product.own, product.result}) fixed_.insert(program_.root(id));
      removed.insert(product.place);
    }
    removed.erase(products[0].place);
    Instruction& instruction = block[products[0].place];
    instruction.inputs[1 - products[0].common] = stacked(own);
    instruction.outputs[0] = stacked(results);
    for (ValueId id : {instruction.inputs[1 - products[0].common], instruction.outputs[0]})
      fixed_.insert(program_.root(id));
  }

  Program& program_;
  /// Stays valid: stacking changes no shape of a value and makes no operation.
  std::unordered_map<InstructionKey, std::string, InstructionKey::Hash> structures_;
  InstructionKey key_;
  std::unordered_set<ValueId> fixed_;               ///< roots of outputs, and of stacks and their parts
  std::vector<std::optional<LastRead>> last_read_;  ///< by root
  std::unordered_map<ValueId, Places> places_;      ///< places in the block in hand, by root
};

}  // namespace

Program stack_products(Program program) {
  Stacking(program).run();
  return program;
}

}  // namespace mtf
