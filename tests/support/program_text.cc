#include "tests/support/program_text.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "engine/base/check.h"

namespace mtf::testing {
namespace {

/// A local operation with only a name and, possibly, an operand that its result may overwrite.
class Opaque final : public OperationBase<Opaque> {
 public:
  Opaque(std::string name, std::string attributes, std::vector<OutputInfo> outputs,
         std::optional<int> overwrites)
      : OperationBase({}, std::move(outputs)),
        name_(std::move(name)),
        attributes_(std::move(attributes)),
        overwrites_(overwrites) {}
  std::string_view name() const override { return name_; }
  std::string attributes() const override { return attributes_; }
  std::optional<int> in_place(int) const override { return overwrites_; }
  bool is_groupable() const override {
    return name_ == "sgd_update" || name_ == "sum_of_squares" || name_ == "multiply";
  }

 private:
  std::string name_, attributes_;
  std::optional<int> overwrites_;
};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> separated(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : separated(text, '\n')) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

/// Removes `mark` and what follows it from the end of `line`, and returns what followed.
std::string take_after(std::string& line, const std::string& mark) {
  const size_t at = line.rfind(mark);
  if (at == std::string::npos) return {};
  const std::string rest = trimmed(line.substr(at + mark.size()));
  line = trimmed(line.substr(0, at));
  return rest;
}

class Parser {
 public:
  Parser() { program_.mesh = Mesh(Shape::parse("data:2;model:2")); }

  Program run(const std::string& text) {
    std::vector<std::vector<Instruction>*> blocks{&program_.instructions};
    for (const std::string& line : lines_of(text)) {
      if (line.starts_with("param ") || line.starts_with("variable ")) {
        declare(line);
      } else if (line.starts_with("output ")) {
        const ValueId id = use(line.substr(7));
        program_.outputs.emplace_back(program_.values[id].name, id);
      } else if (line == "}") {
        blocks.pop_back();
      } else {
        blocks.back()->push_back(instruction(line));
        if (line.ends_with("{")) blocks.push_back(&blocks.back()->back().as<action::Loop>()->body);
      }
    }
    return std::move(program_);
  }

 private:
  struct Type {
    Shape shape{{"batch", 8}, {"d_model", 8}};
    DType dtype = DType::kFloat32;
    Layout layout = Layout::replicated(2);
  };

  int axis(const std::string& name) const {
    const std::optional<int> found = program_.mesh.shape().find(name);
    MTF_CHECK(found, "no mesh dimension {}", name);
    return *found;
  }
  AxisMask axes(const std::vector<std::string>& names, size_t first) const {
    AxisMask mask = 0;
    for (size_t i = first; i < names.size(); ++i) mask |= axis_bit(axis(names[i]));
    return mask;
  }

  Type type(std::string text) const {
    Type result;
    result.layout.partial = axes(separated(take_after(text, "partial sum over"), ','), 0);
    const size_t open = text.find('[');
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kBool,
                        DType::kInt8, DType::kUInt8}) {
      if (text.substr(0, open) == short_name(dtype)) result.dtype = dtype;
    }
    std::vector<Dimension> dimensions;
    std::vector<std::vector<int>> splits;
    for (const std::string& dimension : separated(text.substr(open + 1, text.rfind(']') - open - 1), ',')) {
      const std::vector<std::string> parts = separated(dimension, '/');
      const std::vector<std::string> pair = separated(parts[0], '=');
      dimensions.push_back({pair[0], std::stoll(pair[1])});
      std::vector<int>& split = splits.emplace_back();
      for (size_t i = 1; i < parts.size(); ++i) split.push_back(axis(parts[i]));
    }
    result.shape = Shape(std::move(dimensions));
    result.layout.split = std::move(splits);
    return result;
  }

  ValueId add(const std::string& name, const Type& type) {
    Value value{name.substr(1), type.shape, type.dtype, type.layout, type.layout.varies(), {}};
    return ids_[name] = program_.add_value(std::move(value));
  }
  ValueId use(const std::string& name) { return ids_.contains(name) ? ids_.at(name) : add(name, {}); }

  void declare(const std::string& line) {
    const size_t name = line.find('%'), colon = line.find(':');
    const ValueId id = add(line.substr(name, colon - name), type(trimmed(line.substr(colon + 1))));
    if (!line.starts_with("variable ")) return;
    Value& value = program_.values[id];
    value.storage = Value::Storage::kVariable;
    value.index = static_cast<int>(program_.variables.size());
    program_.variables.push_back({{value.name, value.shape, value.dtype, {}}, value.layout, id});
  }

  Instruction instruction(std::string line) {
    Instruction result;
    if (line.starts_with("repeat(")) {
      result.action = action::Loop{std::stoll(line.substr(7)), {}};
      return result;
    }
    std::optional<int> overwrites;
    if (line.ends_with("}")) {
      line.pop_back();
      overwrites = origin(result, take_after(line, "{"));
    }
    const std::string type_text = take_after(line, " : ");
    const std::string guard = take_after(line, " if ");
    if (!guard.empty()) result.guard = use(guard);
    const size_t equals = line.find(" = "), open = line.find('(');
    const size_t begin = equals == std::string::npos ? 0 : equals + 3;
    std::string name = line.substr(begin, open - begin);
    std::vector<std::string> arguments;
    for (const std::string& word : separated(line.substr(open + 1, line.rfind(')') - open - 1), ',')) {
      if (word.starts_with("%")) {
        result.inputs.push_back(use(word));
      } else {
        arguments.push_back(word);
      }
    }
    const bool started = name.ends_with("_start");
    if (started) name.resize(name.size() - 6);
    describe(result, name, arguments);
    if (started) result.as<action::Communicate>()->started = true;
    if (equals != std::string::npos) {
      for (const std::string& word : separated(line.substr(0, equals), ','))
        make(result, word, name, arguments, type_text, overwrites);
    }
    return result;
  }

  /// Parses "layer 2, backward, in_place 0": sets layer and phase, and returns the in_place operand.
  static std::optional<int> origin(Instruction& made, const std::string& text) {
    std::optional<int> overwrites;
    for (const std::string& word : separated(text, ',')) {
      if (word.starts_with("layer ")) made.layer = std::stoi(word.substr(6));
      if (word == "backward") made.provenance.phase = Phase::kBackward;
      if (word == "update") made.provenance.phase = Phase::kUpdate;
      if (word.starts_with("in_place ")) overwrites = std::stoi(word.substr(9));
    }
    return overwrites;
  }

  int dimension(const Instruction& instruction, const std::string& name) const {
    return *program_.values[instruction.inputs[0]].shape.find(name);
  }

  /// Sets the action; a local operation is set with its first result.
  void describe(Instruction& result, const std::string& name, const std::vector<std::string>& arguments) {
    const auto reduction = [&] { return arguments[0] == "max" ? Reduction::kMax : Reduction::kSum; };
    if (name == "slice") {
      result.action = action::Slice{axes(arguments, 1), dimension(result, arguments[0])};
    } else if (name == "all_reduce") {
      result.action = action::Communicate{action::AllReduce{reduction()}, axes(arguments, 1)};
    } else if (name == "reduce_scatter") {
      result.action = action::Communicate{action::ReduceScatter{reduction(), dimension(result, arguments[1])},
                                          axes(arguments, 2)};
    } else if (name == "all_gather") {
      result.action =
          action::Communicate{action::AllGather{dimension(result, arguments[0])}, axes(arguments, 1)};
    } else if (name == "all_to_all") {
      const size_t to = arguments[0].find(" to ");
      const int concatenated = dimension(result, arguments[0].substr(0, to));
      const int split = dimension(result, arguments[0].substr(to + 4));
      result.action = action::Communicate{action::AllToAll{split, concatenated}, axes(arguments, 1)};
    } else if (name == "done") {
      result.action = action::Done{};
    } else if (name == "copy") {
      result.action = action::Copy{};
    } else if (name == "accumulate") {
      result.action = action::Accumulate{};
    }
  }

  /// Adds one result.
  void make(Instruction& result, const std::string& word, const std::string& name,
            const std::vector<std::string>& arguments, const std::string& type_text,
            std::optional<int> overwrites) {
    const size_t index = std::min(result.outputs.size(), result.inputs.size() - 1);
    Type made;
    if (!result.inputs.empty()) {
      Value& from = program_.values[result.inputs[index]];
      const auto* reduce = result.collective<action::AllReduce>();
      const auto* scatter = result.collective<action::ReduceScatter>();
      if ((reduce && reduce->reduction == Reduction::kSum) ||
          (scatter && scatter->reduction == Reduction::kSum)) {
        from.layout.partial |= result.as<action::Communicate>()->axes;
        from.varies |= result.as<action::Communicate>()->axes;
      }
      made = {from.shape, from.dtype, from.layout};
      move_split(result, made.layout);
    }
    if (!type_text.empty()) made = type(type_text);
    if (auto* run = result.as<action::Run>(); run && !run->operation) {
      std::string attributes;
      for (const std::string& argument : arguments) attributes += (attributes.empty() ? "" : ", ") + argument;
      run->operation = std::make_shared<Opaque>(
          name, attributes, std::vector<OutputInfo>{{made.shape, made.dtype}}, overwrites);
    }
    result.outputs.push_back(ids_.contains(word) ? ids_.at(word) : add(word, made));
  }

  void move_split(const Instruction& made, Layout& layout) const {
    int loses = -1, gains = -1;  // dimensions that are split less, or more, from now on
    AxisMask axes = 0;
    if (const auto* slice = made.as<action::Slice>()) {
      axes = slice->axes;
      gains = slice->dimension;
    } else if (const auto* communicate = made.as<action::Communicate>()) {
      axes = communicate->axes;
      if (const auto* scatter = made.collective<action::ReduceScatter>()) gains = scatter->dimension;
      if (const auto* gather = made.collective<action::AllGather>()) loses = gather->dimension;
      if (const auto* exchange = made.collective<action::AllToAll>()) {
        gains = exchange->dimension;
        loses = exchange->concat_dimension;
      }
      if (made.collective<action::AllReduce>() || made.collective<action::ReduceScatter>())
        layout.partial &= ~axes;
    }
    for (int a = 0; a < program_.mesh.rank(); ++a) {
      if (!has_axis(axes, a)) continue;
      if (loses >= 0) std::erase(layout.split.change()[loses], a);
      if (gains >= 0) layout.split.change()[gains].push_back(a);
    }
  }

  Program program_;
  std::map<std::string, ValueId> ids_;
};

void print(Program& program, const std::vector<Instruction>& block, std::string& text) {
  for (const Instruction& instruction : block) {
    std::string line = to_string(program, instruction);
    if (!instruction.outputs.empty()) {
      const std::string type = std::string(short_name(program.values[instruction.outputs[0]].dtype)) + "[";
      line = line.substr(0, line.find(" " + type));
    }
    text += trimmed(line);
    if (instruction.is<action::Loop>()) {
      text += " {\n";
      print(program, instruction.body(), text);
      text += "}";
    }
    text += "\n";
  }
}

}  // namespace

Program parse_program(const std::string& text) { return Parser().run(text); }

std::string instructions_text(const Program& program) {
  Program named = program;
  int added = 0;
  for (size_t id = 0; id < named.values.size(); ++id) {
    if (named.values[id].name == std::to_string(id)) named.values[id].name = "new_" + std::to_string(++added);
  }
  std::string text;
  print(named, named.instructions, text);
  return text;
}

void expect_rewrite(const std::function<Program(Program)>& pass, const std::string& before,
                    const std::string& after) {
  std::string expected;
  for (const std::string& line : lines_of(after)) expected += line + "\n";
  EXPECT_EQ(instructions_text(pass(parse_program(before))), expected) << "from\n" << before;
}

ValueId value_called(const Program& program, const std::string& name) {
  for (size_t id = 0; id < program.values.size(); ++id) {
    if (program.values[id].name == name) return static_cast<ValueId>(id);
  }
  MTF_CHECK(false, "no value %{}", name);
  return kNoValue;
}

}  // namespace mtf::testing
