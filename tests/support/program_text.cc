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
        if (line.ends_with("{")) blocks.push_back(&blocks.back()->back().body);
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
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kBool}) {
      if (text.substr(0, open) == short_name(dtype)) result.dtype = dtype;
    }
    std::vector<Dimension> dimensions;
    result.layout.split.clear();
    for (const std::string& dimension : separated(text.substr(open + 1, text.rfind(']') - open - 1), ',')) {
      const std::vector<std::string> parts = separated(dimension, '/');
      const std::vector<std::string> pair = separated(parts[0], '=');
      dimensions.push_back({pair[0], std::stoll(pair[1])});
      std::vector<int>& split = result.layout.split.emplace_back();
      for (size_t i = 1; i < parts.size(); ++i) split.push_back(axis(parts[i]));
    }
    result.shape = Shape(std::move(dimensions));
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
      result.kind = InstructionKind::kRepeat;
      result.count = std::stoll(line.substr(7));
      return result;
    }
    std::optional<int> overwrites;
    if (line.ends_with("}")) {
      line.pop_back();
      overwrites = origin(result.provenance, take_after(line, "{"));
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
    if (name.ends_with("_start")) {
      result.started = true;
      name.resize(name.size() - 6);
    }
    describe(result, name, arguments);
    if (equals != std::string::npos) {
      for (const std::string& word : separated(line.substr(0, equals), ','))
        make(result, word, name, arguments, type_text, overwrites);
    }
    return result;
  }

  /// Parses "layer 2, backward, in_place 0": sets layer and phase, and returns the in_place operand.
  static std::optional<int> origin(Provenance& provenance, const std::string& text) {
    std::optional<int> overwrites;
    for (const std::string& word : separated(text, ',')) {
      if (word.starts_with("layer ")) provenance.layer = std::stoi(word.substr(6));
      if (word == "backward") provenance.phase = Phase::kBackward;
      if (word == "update") provenance.phase = Phase::kUpdate;
      if (word == "update") provenance.phase = Phase::kUpdate;
      if (word.starts_with("in_place ")) overwrites = std::stoi(word.substr(9));
    }
    return overwrites;
  }

  int dimension(const Instruction& instruction, const std::string& name) const {
    return *program_.values[instruction.inputs[0]].shape.find(name);
  }

  void describe(Instruction& result, const std::string& name, const std::vector<std::string>& arguments) {
    static const std::map<std::string, InstructionKind> kinds = {
        {"slice", InstructionKind::kSlice},
        {"all_reduce", InstructionKind::kAllReduce},
        {"reduce_scatter", InstructionKind::kReduceScatter},
        {"all_gather", InstructionKind::kAllGather},
        {"all_to_all", InstructionKind::kAllToAll},
        {"done", InstructionKind::kDone},
        {"copy", InstructionKind::kCopy},
        {"accumulate", InstructionKind::kAccumulate},
    };
    const auto kind = kinds.find(name);
    result.kind = kind == kinds.end() ? InstructionKind::kLocal : kind->second;
    size_t first_axis = arguments.size();
    switch (result.kind) {
      case InstructionKind::kSlice:
      case InstructionKind::kAllGather:
        result.dimension = dimension(result, arguments[0]);
        first_axis = 1;
        break;
      case InstructionKind::kAllReduce:
      case InstructionKind::kReduceScatter:
        result.reduction = arguments[0] == "max" ? Reduction::kMax : Reduction::kSum;
        first_axis = result.kind == InstructionKind::kAllReduce ? 1 : 2;
        if (first_axis == 2) result.dimension = dimension(result, arguments[1]);
        break;
      case InstructionKind::kAllToAll: {
        const size_t to = arguments[0].find(" to ");
        result.concat_dimension = dimension(result, arguments[0].substr(0, to));
        result.dimension = dimension(result, arguments[0].substr(to + 4));
        first_axis = 1;
        break;
      }
      default:
        break;
    }
    result.axes = axes(arguments, first_axis);
  }

  /// Adds one result.
  void make(Instruction& result, const std::string& word, const std::string& name,
            const std::vector<std::string>& arguments, const std::string& type_text,
            std::optional<int> overwrites) {
    const size_t index = std::min(result.outputs.size(), result.inputs.size() - 1);
    Type made;
    if (!result.inputs.empty()) {
      Value& from = program_.values[result.inputs[index]];
      const bool reduces =
          result.kind == InstructionKind::kAllReduce || result.kind == InstructionKind::kReduceScatter;
      if (reduces && result.reduction == Reduction::kSum) {
        from.layout.partial |= result.axes;
        from.varies |= result.axes;
      }
      made = {from.shape, from.dtype, from.layout};
      move_split(result, made.layout);
    }
    if (!type_text.empty()) made = type(type_text);
    if (result.kind == InstructionKind::kLocal && !result.operation) {
      std::string attributes;
      for (const std::string& argument : arguments) attributes += (attributes.empty() ? "" : ", ") + argument;
      result.operation = std::make_shared<Opaque>(
          name, attributes, std::vector<OutputInfo>{{made.shape, made.dtype}}, overwrites);
    }
    result.outputs.push_back(ids_.contains(word) ? ids_.at(word) : add(word, made));
  }

  void move_split(const Instruction& made, Layout& layout) const {
    std::vector<int> moved;
    for (int a = 0; a < program_.mesh.rank(); ++a) {
      if (has_axis(made.axes, a)) moved.push_back(a);
    }
    if (made.kind == InstructionKind::kAllReduce || made.kind == InstructionKind::kReduceScatter)
      layout.partial &= ~made.axes;
    for (int a : moved) {
      const int loses = made.kind == InstructionKind::kAllToAll    ? made.concat_dimension
                        : made.kind == InstructionKind::kAllGather ? made.dimension
                                                                   : -1;
      if (loses >= 0) std::erase(layout.split[loses], a);
      const bool gains = made.kind == InstructionKind::kSlice ||
                         made.kind == InstructionKind::kReduceScatter ||
                         made.kind == InstructionKind::kAllToAll;
      if (gains) layout.split[made.dimension].push_back(a);
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
    if (instruction.kind == InstructionKind::kRepeat) {
      text += " {\n";
      print(program, instruction.body, text);
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
