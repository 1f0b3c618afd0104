#include "engine/checkpoint/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "engine/base/error.h"
#include "engine/base/hash.h"

namespace mtf {
namespace {

constexpr uint64_t prime = (uint64_t{1} << 61) - 1;

uint64_t multiply(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % prime);
}

/// Returns a random number below `prime` for each bound (0 .. size) of each axis.
uint64_t random_at(uint64_t axis, int64_t bound) {
  const std::array<uint64_t, 2> key = {axis, static_cast<uint64_t>(bound)};
  return hash64({reinterpret_cast<const char*>(key.data()), sizeof(key)}) % prime;
}

/// Returns the weight of a rectangle: the sum of the weights of its elements. The weight of an element is the
/// product over the axes of r(axis, index + 1) - r(axis, index) with random r, so that the sum is a product
/// of differences over the rectangle.
uint64_t weight_of(std::span<const int64_t> begin, std::span<const int64_t> size) {
  uint64_t weight = 1;
  for (size_t axis = 0; axis < begin.size(); ++axis) {
    const uint64_t low = random_at(axis, begin[axis]), high = random_at(axis, begin[axis] + size[axis]);
    weight = multiply(weight, (high + prime - low) % prime);
  }
  return weight;
}

std::string problem_of_file(const CheckpointFileInfo& file) {
  if (file.name.empty() || file.name == "." || file.name == ".." || file.name == Manifest::kFile ||
      file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
    return fmt::format("`{}` cannot be the name of a file with data", file.name);
  if (file.bytes < 0 || file.header_bytes < 0 || file.header_bytes > file.bytes)
    return fmt::format("file `{}` of {} bytes has a header of {} bytes", file.name, file.bytes,
                       file.header_bytes);
  return {};
}

/// Returns what is wrong with a block, or an empty string. `file` is null if there is no file of that name.
std::string problem_of_block(const CheckpointBlock& block, const std::vector<int64_t>& shape, DType dtype,
                             const CheckpointFileInfo* file) {
  if (block.begin.size() != shape.size() || block.size.size() != shape.size())
    return fmt::format("a block has {} indices and {} sizes for {} dimensions", block.begin.size(),
                       block.size.size(), shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (block.begin[axis] < 0 || block.size[axis] < 1 || block.size[axis] > shape[axis] ||
        block.begin[axis] > shape[axis] - block.size[axis])
      return fmt::format("the block at [{}] of size [{}] does not lie within [{}]",
                         fmt::join(block.begin, ", "), fmt::join(block.size, ", "), fmt::join(shape, ", "));
  if (const int64_t bytes = checked_bytes_of(block.size, dtype).value(); block.bytes != bytes)
    return fmt::format("the block at [{}] has {} bytes, but its {} elements of {} need {}",
                       fmt::join(block.begin, ", "), block.bytes,
                       bytes / static_cast<int64_t>(size_of(dtype)), name_of(dtype), bytes);
  if (file == nullptr) return fmt::format("its file `{}` is none of the checkpoint's", block.file);
  if (block.offset < file->header_bytes || block.offset > file->bytes - block.bytes)
    return fmt::format("bytes {} to {} do not lie in the data of file `{}`, bytes {} to {}", block.offset,
                       static_cast<uint64_t>(block.offset) + static_cast<uint64_t>(block.bytes), block.file,
                       file->header_bytes, file->bytes);
  return {};
}

/// Checks that the blocks, each of which lies within the variable, hold every element exactly once. The count
/// of bytes shows if elements are missing. A set of blocks that holds some elements twice and others not at
/// all has the variable's random weight only with probability rank / 2^61 (Schwartz-Zippel lemma).
std::string problem_of_cover(const CheckpointVariable& variable, const std::vector<int64_t>& shape) {
  const int64_t bytes = bytes_of(variable.shape, variable.dtype);
  uint64_t weight = 0;
  int64_t held = 0;
  for (const CheckpointBlock& block : variable.blocks) {
    if (block.bytes > bytes - held) return "its blocks overlap";
    held += block.bytes;
    weight = (weight + weight_of(block.begin, block.size)) % prime;
  }
  if (held < bytes) return fmt::format("its blocks hold only {} of its {} bytes", held, bytes);
  const std::vector<int64_t> origin(shape.size(), 0);
  return weight == weight_of(origin, shape) ? "" : "its blocks overlap";
}

using FilesByName = std::map<std::string_view, const CheckpointFileInfo*>;

std::string problem_of_variable(const CheckpointVariable& variable, const FilesByName& files) {
  const std::vector<int64_t> shape = variable.shape.sizes();
  if (!checked_bytes_of(shape, variable.dtype))
    return fmt::format("its shape [{}] has more than 2^63 bytes", fmt::join(shape, ", "));
  for (const CheckpointBlock& block : variable.blocks) {
    const auto file = files.find(block.file);
    std::string problem =
        problem_of_block(block, shape, variable.dtype, file == files.end() ? nullptr : file->second);
    if (!problem.empty()) return problem;
  }
  return problem_of_cover(variable, shape);
}

/// Checks that the header and the blocks of each file follow each other without gaps, so that a checksum
/// protects every byte.
std::string problem_of_places(const Manifest& manifest) {
  struct Place {
    std::string_view file;
    int64_t offset, bytes;
    std::string_view variable;
  };
  std::vector<Place> places;
  for (const CheckpointVariable& variable : manifest.variables)
    for (const CheckpointBlock& block : variable.blocks)
      places.push_back({block.file, block.offset, block.bytes, variable.name});
  std::ranges::sort(places, {}, [](const Place& place) { return std::tuple(place.file, place.offset); });

  for (const CheckpointFileInfo& file : manifest.files) {
    int64_t covered = file.header_bytes;
    auto place = std::ranges::lower_bound(places, std::string_view(file.name), {}, &Place::file);
    for (; place != places.end() && place->file == file.name; ++place) {
      if (place->offset != covered)
        return fmt::format(
            "variable `{}`: its data in file `{}` begin at byte {}, those before end at byte {}",
            place->variable, file.name, place->offset, covered);
      covered += place->bytes;
    }
    if (covered != file.bytes)
      return fmt::format("{} bytes of file `{}` belong to no variable", file.bytes - covered, file.name);
  }
  return {};
}

}  // namespace

std::string tensor_name(const std::string& variable, const Shape& shape, std::span<const int64_t> begin,
                        std::span<const int64_t> size) {
  const bool whole = std::ranges::equal(size, shape.sizes());
  return whole ? variable : fmt::format("{}@{}", variable, fmt::join(begin, ","));
}

std::string problem_of_blocks(const Manifest& manifest) {
  FilesByName files;
  for (const CheckpointFileInfo& file : manifest.files) {
    if (std::string problem = problem_of_file(file); !problem.empty()) return problem;
    if (!files.emplace(file.name, &file).second) return fmt::format("file `{}` occurs twice", file.name);
  }
  std::set<std::string_view> names;
  for (const CheckpointVariable& variable : manifest.variables) {
    if (!names.insert(variable.name).second) return fmt::format("variable `{}` occurs twice", variable.name);
    if (const std::string problem = problem_of_variable(variable, files); !problem.empty())
      return fmt::format("variable `{}`: {}", variable.name, problem);
  }
  return problem_of_places(manifest);
}

void throw_damaged(const std::string& path, const std::string& what) {
  throw DamagedCheckpoint(ErrorKind::kCheckpoint, fmt::format("{}: {}", path, what),
                          "the checkpoint is damaged: remove its directory to continue from an older one");
}

}  // namespace mtf
