#include "engine/safetensors/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/core/shape.h"

namespace mtf {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

constexpr size_t length_bytes = 8;
constexpr uint64_t longest_header = 100'000'000;  // the limit of the reference implementation
constexpr std::string_view dimensions_prefix = "dimensions/";
constexpr std::string_view float16_name = "F16";

constexpr std::array<std::pair<std::string_view, DType>, 8> dtype_names = {{{"F32", DType::kFloat32},
                                                                            {"BF16", DType::kBFloat16},
                                                                            {"F64", DType::kFloat64},
                                                                            {"I32", DType::kInt32},
                                                                            {"I64", DType::kInt64},
                                                                            {"BOOL", DType::kBool},
                                                                            {"I8", DType::kInt8},
                                                                            {"U8", DType::kUInt8}}};

std::optional<DType> dtype_called(std::string_view name) {
  for (const auto& [text, dtype] : dtype_names)
    if (text == name) return dtype;
  return std::nullopt;
}

std::string_view name_in_file(DType dtype) {
  for (const auto& [text, value] : dtype_names)
    if (value == dtype) return text;
  MTF_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kCheckpoint, fmt::format("{}: {}", path, what),
              "the file is damaged or no safetensors file");
}

[[noreturn]] void damaged(const std::string& path, std::string_view tensor, const std::string& what) {
  damaged(path, fmt::format("tensor `{}` {}", tensor, what));
}

/// Splits "a,b" into {"a", "b"}, and "" into {}.
std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    names.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

/// Returns the non-negative integers of a JSON array, or nothing if it is anything else.
std::optional<std::vector<int64_t>> sizes(const nlohmann::json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int64_t> values;
  for (const nlohmann::json& entry : json) {
    if (!entry.is_number_unsigned()) return std::nullopt;
    const auto value = entry.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    values.push_back(static_cast<int64_t>(value));
  }
  return values;
}

nlohmann::json parse_header(const std::string& path, std::string_view text) {
  try {
    nlohmann::json header =
        parse_json(text, [&](const std::string& key) { damaged(path, key, "occurs twice in the header"); });
    if (!header.is_object()) damaged(path, "the header is no JSON object");
    return header;
  } catch (const nlohmann::json::exception& error) {
    damaged(path, fmt::format("the header is no valid JSON ({})", message_of(error)));
  }
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const nlohmann::json& json) {
  if (!json.is_object()) damaged(path, "`__metadata__` is no JSON object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) damaged(path, fmt::format("`__metadata__` entry `{}` is no string", key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// Returns the value of a float16 (IEEE 754 binary16).
float float_of_half(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 0x3ffu;
  if (exponent == 0)
    return std::copysign(static_cast<float>(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  constexpr uint32_t bias = 127 - 15;
  return std::bit_cast<float>(sign | (exponent == 31 ? 255u : exponent + bias) << 23 | fraction << 13);
}

/// Makes float32 of the float16 that `tensor` has, and returns the elements that its data then are.
std::unique_ptr<float[]> widen(StoredTensor& tensor) {
  const size_t count = tensor.data.size() / sizeof(uint16_t);
  auto values = std::make_unique_for_overwrite<float[]>(count);
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, &tensor.data[i * sizeof half], sizeof half);
    values[i] = float_of_half(half);
  }
  tensor.dtype = DType::kFloat32;
  tensor.data = std::as_bytes(std::span(values.get(), count));
  return values;
}

/// Parses one entry of the header. `payload` is the part of the file after the header, at offset
/// `payload_offset`. A tensor in float16 gets the data of the file and bfloat16 as its dtype, which is as wide.
StoredTensor parse_tensor(const std::string& path, const std::string& name, const nlohmann::json& json,
                          std::span<const std::byte> payload, int64_t payload_offset) {
  if (!json.is_object()) damaged(path, name, "is no JSON object");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!json.contains(key)) damaged(path, name, fmt::format("has no `{}`", key));

  StoredTensor tensor{.name = name};
  const nlohmann::json& dtype_json = json["dtype"];
  if (!dtype_json.is_string()) damaged(path, name, "has a `dtype` that is no string");
  const auto dtype_name = dtype_json.get<std::string>();
  const std::optional<DType> dtype = dtype_name == float16_name ? DType::kBFloat16 : dtype_called(dtype_name);
  if (!dtype)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}: tensor `{}` has the unsupported dtype {}", path, name, dtype_name),
                "supported are F32, BF16, F16, F64, I32, I64 and BOOL; weights are F32, BF16 or F16");
  tensor.dtype = *dtype;

  std::optional<std::vector<int64_t>> shape = sizes(json["shape"]);
  if (!shape) damaged(path, name, "has a `shape` that is no list of sizes");
  tensor.shape = std::move(*shape);
  const std::optional<std::vector<int64_t>> offsets = sizes(json["data_offsets"]);
  if (!offsets || offsets->size() != 2)
    damaged(path, name, "has `data_offsets` that are not two positions in the file");
  const int64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end) damaged(path, name, fmt::format("ends (byte {}) before it begins (byte {})", end, begin));
  if (end > static_cast<int64_t>(payload.size()))
    damaged(path, name,
            fmt::format("ends at byte {} of the data, which has only {} bytes", end, payload.size()));
  const std::optional<int64_t> bytes = checked_bytes_of(tensor.shape, tensor.dtype);
  if (!bytes || *bytes != end - begin)
    damaged(path, name,
            fmt::format("has {} bytes of data, but {} [{}] needs {}", end - begin, dtype_name,
                        fmt::join(tensor.shape, ", "), bytes ? fmt::to_string(*bytes) : "more than 2^63"));
  tensor.data = payload.subspan(begin, end - begin);
  tensor.offset = payload_offset + begin;
  return tensor;
}

/// Checks that the tensors cover the data exactly, each byte once. `tensors` are sorted by offset.
void check_coverage(const std::string& path, const std::vector<StoredTensor>& tensors, int64_t begin,
                    int64_t end) {
  int64_t covered = begin;
  std::string_view previous;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset < covered) damaged(path, tensor.name, fmt::format("overlaps tensor `{}`", previous));
    if (tensor.offset > covered)
      damaged(path, tensor.name,
              fmt::format("leaves a hole of {} bytes in front of it", tensor.offset - covered));
    covered = tensor.offset + static_cast<int64_t>(tensor.data.size());
    previous = tensor.name;
  }
  if (covered != end) damaged(path, fmt::format("{} bytes at the end belong to no tensor", end - covered));
}

/// Returns the tensors in the order of the file: wider elements first, so that every tensor is aligned, then
/// by name.
std::vector<const StoredTensor*> file_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const StoredTensor* a, const StoredTensor* b) {
    const size_t width_a = size_of(a->dtype), width_b = size_of(b->dtype);
    return width_a != width_b ? width_a > width_b : a->name < b->name;
  });
  return order;
}

std::string make_header(const std::vector<const StoredTensor*>& order,
                        std::map<std::string, std::string> metadata) {
  nlohmann::json header = nlohmann::json::object();
  int64_t offset = 0;
  for (const StoredTensor* tensor : order) {
    const auto bytes = static_cast<int64_t>(tensor->data.size());
    MTF_CHECK(checked_bytes_of(tensor->shape, tensor->dtype) == bytes, "tensor {} has {} bytes", tensor->name,
              bytes);
    MTF_CHECK(!header.contains(tensor->name) && tensor->name != "__metadata__", "two tensors are called {}",
              tensor->name);
    header[tensor->name] = {{"dtype", name_in_file(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
    if (tensor->dimensions.empty()) continue;
    MTF_CHECK(tensor->dimensions.size() == tensor->shape.size(),
              "tensor {} of rank {} has {} dimension names", tensor->name, tensor->shape.size(),
              tensor->dimensions.size());
    metadata[std::string(dimensions_prefix) + tensor->name] =
        fmt::format("{}", fmt::join(tensor->dimensions, ","));
  }
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string text = json_text(header);
  text.resize((length_bytes + text.size() + 63) / 64 * 64 - length_bytes, ' ');  // aligns the data
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), length_bytes) + text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(MappedFile file) : file_(std::move(file)) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.empty()) damaged(path(), "the file is empty");
  if (bytes.size() < length_bytes)
    damaged(path(), fmt::format("the file has {} bytes, a safetensors file at least 8", bytes.size()));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  if (length > longest_header) damaged(path(), fmt::format("the header would have {} bytes", length));
  if (length > bytes.size() - length_bytes)
    damaged(path(), fmt::format("the header has {} bytes, but the file ends after {} of them", length,
                                bytes.size() - length_bytes));

  const auto header_text = bytes.subspan(length_bytes, length);
  const nlohmann::json header =
      parse_header(path(), {reinterpret_cast<const char*>(header_text.data()), header_text.size()});
  const auto payload = bytes.subspan(length_bytes + length);
  const auto payload_offset = static_cast<int64_t>(length_bytes + length);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__")
      metadata_ = parse_metadata(path(), entry);
    else
      tensors_.push_back(parse_tensor(path(), name, entry, payload, payload_offset));
  }
  std::ranges::sort(tensors_, [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.offset, a.data.size()) < std::pair(b.offset, b.data.size());
  });
  check_coverage(path(), tensors_, payload_offset, static_cast<int64_t>(bytes.size()));

  for (size_t i = 0; i < tensors_.size(); ++i) {
    StoredTensor& tensor = tensors_[i];
    index_.emplace(tensor.name, i);
    is_narrow_.push_back(header[tensor.name]["dtype"] == float16_name);
    const auto entry = metadata_.find(std::string(dimensions_prefix) + tensor.name);
    if (entry == metadata_.end()) continue;
    tensor.dimensions = split_names(entry->second);
    if (tensor.dimensions.size() != tensor.shape.size())
      damaged(path(), tensor.name,
              fmt::format("of rank {} has the dimension names `{}`", tensor.shape.size(), entry->second));
  }
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto entry = index_.find(name);
  return entry == index_.end() ? nullptr : &wide(entry->second);
}

const std::vector<StoredTensor>& SafetensorsFile::tensors() const {
  for (size_t i = 0; i < tensors_.size(); ++i) wide(i);
  return tensors_;
}

const StoredTensor& SafetensorsFile::wide(size_t i) const {
  if (is_narrow_[i]) widened_.push_back(widen(tensors_[i]));
  is_narrow_[i] = false;
  return tensors_[i];
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (tensor != nullptr) return *tensor;
  std::vector<std::string> names;
  for (const StoredTensor& stored : tensors_) names.push_back(stored.name);
  throw Error(ErrorKind::kCheckpoint, fmt::format("{}: there is no tensor `{}`", path(), name),
              names.empty() ? "the file holds none" : did_you_mean(name, names));
}

SafetensorsPlan plan_safetensors(std::span<const StoredTensor> tensors,
                                 std::map<std::string, std::string> metadata) {
  SafetensorsPlan plan;
  plan.order = file_order(tensors);
  plan.header = make_header(plan.order, std::move(metadata));
  return plan;
}

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const SafetensorsPlan plan = plan_safetensors(tensors, metadata);
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(plan.header))};
  for (const StoredTensor* tensor : plan.order) parts.push_back(tensor->data);
  if (const int error = write_file(path, parts))
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", path, system_message(error)));
}

}  // namespace mtf
