#include "engine/backend/cuda/fusion/fusion_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/backend/cuda/fusion/fusion_steps.h"
#include "engine/base/check.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace mtf::cuda {
namespace {

using Step = Fusion::Step;

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kBFloat16:
      return "BFloat16";
    case DType::kFloat64:
      return "double";
    case DType::kInt32:
      return "int32_t";
    case DType::kInt64:
      return "int64_t";
    case DType::kBool:
      return "bool";
    case DType::kInt8:
    case DType::kUInt8:
      break;
  }
  MTF_CHECK(false, "an unknown type");
}

#define MTF_NAME(Formula, name) "formulas::" #Formula,
constexpr const char* kUnaryFormulas[] = {MTF_UNARY_FUNCTIONS(MTF_NAME)};
constexpr const char* kBinaryFormulas[] = {MTF_BINARY_FUNCTIONS(MTF_NAME)};
#undef MTF_NAME

class Writer {
 public:
  explicit Writer(const Fusion& fusion) : fusion_(fusion) {}

  std::string text() {
    members();
    std::string located, arguments = "first", parameters = "int64_t first";
    const auto locate = [&](const char* type, const std::string& name, const std::string& value) {
      located += fmt::format("      const {} {} = {};\n", type, name, value);
      arguments += ", " + name;
      parameters += fmt::format(", {} {}", type, name);
    };
    for (size_t i = 0; i < fusion_.inputs.size(); ++i) {
      if (fusion_.walks[i]) locate("int64_t", fmt::format("at{}", i), fmt::format("walk{}.at(first)[0]", i));
    }
    for (int d = 0; d < fusion_.dropouts(); ++d)
      locate("uint64_t", fmt::format("noise{}", d), fmt::format("dropout{}.noise.element(first)", d));
    text_ += fmt::format(
        "  MTF_DEVICE void operator()(const Block& block) const {{\n"
        "    for_each_part<{0}>(block, arguments.size, arguments.packs, [&](int64_t first, bool pack) {{\n"
        "{1}"
        "      pack ? run<{0}>({2}) : run<1>({2});\n"
        "    }});\n"
        "  }}\n"
        "  template <int N>\n"
        "  MTF_DEVICE void run({3}) const {{\n",
        fusion_.elements(), located, arguments, parameters);
    loads();
    for (size_t k = 0; k < fusion_.results.size(); ++k)
      text_ += fmt::format("    Pack<{}, N> y{};\n", type_name(fusion_.dtype(fusion_.results[k])), k);
    text_ += "    MTF_UNROLL(N)\n    for (int i = 0; i < N; ++i) {\n";
    for (size_t k = 0; k < fusion_.steps.size(); ++k) step(fusion_.steps[k], fusion_.inputs.size() + k);
    for (size_t k = 0; k < fusion_.results.size(); ++k)
      text_ += fmt::format("      y{}[i] = v{};\n", k, fusion_.results[k]);
    text_ += "    }\n";
    for (size_t k = 0; k < fusion_.results.size(); ++k) {
      text_ += fmt::format("    store(static_cast<{0}*>(arguments.outputs[{1}]) + first, y{1});\n",
                           type_name(fusion_.dtype(fusion_.results[k])), k);
    }
    text_ += fmt::format("  }}\n}};\nstatic_assert(sizeof(Fusion) == {});\n", fusion_bytes(fusion_));
    return text_;
  }

 private:
  void members() {
    text_ += "struct Fusion {\n  FusionArguments arguments;\n";
    for (size_t i = 0; i < fusion_.inputs.size(); ++i) {
      if (fusion_.walks[i]) text_ += fmt::format("  Strided<1> walk{};\n", i);
    }
    for (int d = 0; d < fusion_.dropouts(); ++d) text_ += fmt::format("  FusionDropout dropout{};\n", d);
  }

  void loads() {
    for (size_t i = 0; i < fusion_.inputs.size(); ++i) {
      const char* type = type_name(fusion_.inputs[i]);
      const std::string data = fmt::format("static_cast<const {}*>(arguments.inputs[{}])", type, i);
      text_ += fmt::format("    const Pack<{}, N> x{} = ", type, i);
      text_ += fusion_.walks[i] ? fmt::format("load_along<N>(walk{0}, {1} + at{0});\n", i, data)
                                : fmt::format("load<N>({} + first);\n", data);
    }
    for (int d = 0; d < fusion_.dropouts(); ++d) {
      text_ += fmt::format(
          "    const Pack<uint32_t, N> bits{0} = dropout{0}.noise.template bits_from<N>(noise{0});\n", d);
    }
  }

  std::string value(int number) const {
    const auto inputs = static_cast<int>(fusion_.inputs.size());
    return number < inputs ? fmt::format("x{}[i]", number) : fmt::format("v{}", number);
  }

  void step(const Step& step, size_t number) {
    text_ += fmt::format("      const {} v{} = {};\n", type_name(step.result), number, expression(step));
  }

  std::string expression(const Step& step) const {
    using Kind = Step::Kind;
    std::vector<std::string> operands;
    for (int operand : step.operands) operands.push_back(value(operand));
    const std::string result = type_name(step.result), all = fmt::format("{}", fmt::join(operands, ", ")),
                      parameter = fmt::format("arguments.parameters[{}]", step.parameter);
    switch (step.kind) {
      case Kind::kUnary:
        return fmt::format("steps::unary<{}>({}, {})", kUnaryFormulas[step.function], all, parameter);
      case Kind::kUnaryGradient:
        return fmt::format("steps::gradient<{}>({}, {})", kUnaryFormulas[step.function], all, parameter);
      case Kind::kBinary:
        return fmt::format("steps::binary<{}, {}>({})", kBinaryFormulas[step.function], result, all);
      case Kind::kWhere:
        return fmt::format("steps::where({})", all);
      case Kind::kCast:
        return fmt::format("steps::cast<{}>({})", result, all);
      case Kind::kDropout:
        return fmt::format("steps::dropout({0}, bits{1}[i], dropout{1}.threshold, {2})", all, step.dropout,
                           parameter);
      case Kind::kSum: {
        std::string sum = operands[0];
        for (size_t i = 1; i < operands.size(); ++i)
          sum = fmt::format("steps::binary<formulas::Add, {}>({}, {})", result, sum, operands[i]);
        return sum;
      }
      case Kind::kCopy:
        return all;
      case Kind::kConstant:
        return fmt::format("narrow<{}>({})", result, parameter);
    }
    MTF_CHECK(false, "an unknown step");
  }

  const Fusion& fusion_;
  std::string text_;
};

}  // namespace

size_t fusion_bytes(const Fusion& fusion) {
  return sizeof(FusionArguments) +
         sizeof(Strided<1>) * static_cast<size_t>(std::ranges::count(fusion.walks, true)) +
         sizeof(FusionDropout) * static_cast<size_t>(fusion.dropouts());
}

std::string fusion_source(const Fusion& fusion) { return Writer(fusion).text(); }

std::string fusion_program(std::span<const FusionKernelSource> kernels) {
  std::string text = "#include \"engine/backend/cuda/fusion/fusion_steps.h\"\n";
  for (const auto& [name, fusion, in_batches] : kernels) {
    text += fmt::format(
        "namespace mtf::cuda::{0} {{\n{1}using Kernel = {2};\n}}  // namespace mtf::cuda::{0}\n"
        "MTF_FUSION_KERNEL({0})\n",
        name, fusion, in_batches ? "BatchOf<Fusion>" : "Fusion");
  }
  return text;
}

}  // namespace mtf::cuda
