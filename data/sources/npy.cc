#include "data/sources/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "data/input_file.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/sources/dimensions.h"
#include "data/text/text_settings.h"
#include "data/zip_file.h"
#include "engine/base/error.h"
#include "engine/base/nearest.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kPrefix = 8;  ///< the magic and the version
constexpr int64_t kLongestHeader = 1 << 16;
constexpr size_t kMostDimensions = 32;

/// What the header says. It is a Python dictionary such as
///   {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads the dictionary; nullopt from a part means that the text is something else.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    unsigned seen = 0;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const std::optional<std::string> key = string();
      if (!key || !take(':')) return std::nullopt;
      if (*key == "descr") {
        const std::optional<std::string> value = type();
        if (!value) return std::nullopt;
        header.descr = *value;
        seen |= 1;
      } else if (*key == "fortran_order") {
        if (word("True")) {
          header.fortran_order = true;
        } else if (!word("False")) {
          return std::nullopt;
        }
        seen |= 2;
      } else if (*key == "shape") {
        if (!shape(header.shape)) return std::nullopt;
        seen |= 4;
      } else {
        return std::nullopt;
      }
      take(',');
    }
    skip();
    return seen == 7 && text_.empty() ? std::optional(header) : std::nullopt;
  }

 private:
  void skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool take(char sign) {
    skip();
    if (!text_.starts_with(sign)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view expected) {
    skip();
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::string> string() {
    skip();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }
  /// A type, or "[" for the list of the fields of a structure.
  std::optional<std::string> type() {
    skip();
    if (!text_.starts_with('[')) return string();
    const size_t end = text_.rfind(']');
    if (end == std::string_view::npos) return std::nullopt;
    text_.remove_prefix(end + 1);
    return "[";
  }
  bool shape(std::vector<int64_t>& sizes) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || sizes.size() == kMostDimensions) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      text_ = text_.starts_with('L') ? text_.substr(1) : text_;  // written by Python 2
      sizes.push_back(size);
      if (!take(',') && !text_.starts_with(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

std::optional<StoredType> type_of(std::string_view code) {
  static constexpr std::array<std::pair<std::string_view, StoredType>, 12> kCodes = {
      {{"b1", StoredType::kBool},
       {"u1", StoredType::kUint8},
       {"i1", StoredType::kInt8},
       {"u2", StoredType::kUint16},
       {"i2", StoredType::kInt16},
       {"u4", StoredType::kUint32},
       {"i4", StoredType::kInt32},
       {"u8", StoredType::kUint64},
       {"i8", StoredType::kInt64},
       {"f2", StoredType::kFloat16},
       {"f4", StoredType::kFloat32},
       {"f8", StoredType::kFloat64}}};
  const auto found = std::ranges::find(kCodes, code, &std::pair<std::string_view, StoredType>::first);
  return found == kCodes.end() ? std::nullopt : std::optional(found->second);
}

/// The beginning of a text, for messages.
std::string shown(std::string_view text) { return printable(text.substr(0, 60)); }

StoredElements elements_of(const std::string& path, const std::string& descr) {
  const std::string hint = "an array of numbers: booleans, whole or floating-point numbers of up to 64 bits";
  if (descr == "[") throw_bad_file(path, "the array has structures as its elements", hint);
  const std::string_view kind = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  if (kind.starts_with('O')) throw_bad_file(path, "the array has Python objects as its elements", hint);
  if (kind.starts_with('U') || kind.starts_with('S'))
    throw_bad_file(path, "the array has texts as its elements", hint);
  if (kind.starts_with('c')) throw_bad_file(path, "the array has complex numbers as its elements", hint);
  const std::optional<StoredType> type = type_of(kind);
  const bool known_order =
      descr.starts_with('<') || descr.starts_with('>') || descr.starts_with('|') || descr.starts_with('=');
  if (!type || !known_order)
    throw_bad_file(path, fmt::format("the array has elements of type `{}`", shown(descr)), hint);
  return {*type, descr.starts_with('>'), false};
}

/// The number of bytes in front of the numbers, from the first 12 bytes of a file. `size`: how many there are.
int64_t data_begin(const std::string& path, std::span<const std::byte> front) {
  const auto byte = [&](size_t i) { return std::to_integer<int64_t>(front[i]); };
  const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
  if (!text.starts_with(kMagic.substr(0, text.size())) || text.empty())
    throw_bad_file(path, "the file does not begin as an NPY file does",
                   "an array that numpy.save has written");
  if (front.size() < 12)
    throw_bad_file(path, "the file ends within its header", "an NPY file; write it again");
  const int64_t version = byte(6);
  if (version < 1 || version > 3)
    throw_bad_file(path, fmt::format("version {} of the NPY format", version), "version 1, 2 or 3");
  const int64_t length =
      version == 1 ? byte(8) + 256 * byte(9) : byte(8) + 256 * (byte(9) + 256 * (byte(10) + 256 * byte(11)));
  if (length > kLongestHeader)
    throw_bad_file(path, fmt::format("a header of {} bytes", length),
                   "an NPY file of numbers; write it again");
  return kPrefix + (version == 1 ? 2 : 4) + length;
}

/// The array with the header in `front`, all bytes before the numbers, and no numbers yet. Returns the number of bytes
/// of the numbers, too.
std::pair<NpyArray, int64_t> array_of(const std::string& path, std::span<const std::byte> front) {
  const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
  const std::optional<Header> header = HeaderParser(text.substr(text[6] == 1 ? 10 : 12)).parse();
  if (!header)
    throw_bad_file(path, fmt::format("the header is `{}`", shown(text.substr(10))),
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (100, 28), }; write the file again");
  NpyArray array;
  array.path = path;
  array.elements = elements_of(path, header->descr);
  array.fortran_order = header->fortran_order;
  array.sizes = header->shape;
  int64_t bytes = size_of(array.elements.type);
  for (const int64_t size : array.sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes))
      throw_bad_file(path, fmt::format("the header says {} numbers", fmt::join(array.sizes, " x ")),
                     "no file is so large; write it again");
  }
  return {std::move(array), bytes};
}

void check_size(const NpyArray& array, int64_t there, int64_t expected, bool more) {
  if (there == expected && !more) return;
  const std::string described =
      fmt::format("{} of {}", fmt::join(array.sizes, " x "), name_of(array.elements.type));
  if (there < expected)
    throw_bad_file(
        array.path,
        fmt::format("the file has {} bytes of data, its header says {} ({})", there, expected, described),
        "the file is cut off; write it again");
  throw_bad_file(
      array.path,
      fmt::format("the file goes on after the {} bytes that its header says ({})", expected, described),
      "header and data do not belong together; write the file again");
}

NpyArray array_in(const std::string& path, const ZipContent& content) {
  const std::span<const std::byte> all = content.bytes;
  const int64_t begin = data_begin(path, all.first(std::min<size_t>(all.size(), 12)));
  if (begin > std::ssize(all))
    throw_bad_file(path, "the file ends within its header", "an NPY file; write it again");
  auto [array, bytes] = array_of(path, all.first(static_cast<size_t>(begin)));
  array.data = all.subspan(static_cast<size_t>(begin));
  check_size(array, std::ssize(array.data), bytes, false);
  array.owner = content.owner;
  array.in_memory = content.in_memory;
  return std::move(array);
}

NpyArray read_compressed(const std::string& path, int64_t most_bytes) {
  InputFile file(path, "an NPY file");
  std::vector<std::byte> front(12);
  front.resize(static_cast<size_t>(file.read(front.data(), 12)));
  const int64_t begin = data_begin(path, front);
  front.resize(static_cast<size_t>(begin));
  if (file.read(front.data() + 12, begin - 12) < begin - 12)
    throw_bad_file(path, "the file ends within its header", "an NPY file; write it again");
  auto [array, bytes] = array_of(path, front);
  if (bytes > most_bytes)
    throw_bad_file(path, fmt::format("the array has {} bytes, more than {}", bytes, most_bytes),
                   "a file that is not compressed, which is not read into memory");
  // The header may be wrong: memory grows with what is really there.
  std::vector<std::byte> data;
  while (std::ssize(data) < bytes) {
    const int64_t got = std::ssize(data), want = std::min(bytes - got, std::max<int64_t>(got, 1 << 20));
    data.resize(static_cast<size_t>(got + want));
    const int64_t part = file.read(data.data() + got, want);
    if (part < want) check_size(array, got + part, bytes, false);
  }
  std::byte surplus;
  check_size(array, bytes, bytes, file.read(&surplus, 1) != 0);
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(data));
  array.owner = owner;
  array.data = *owner;
  array.in_memory = true;
  return std::move(array);
}

}  // namespace

NpyArray read_npy(const std::string& path, int64_t most_bytes) {
  const auto file = map_data_file(path, "an NPY file, plain or .gz");
  const std::span<const std::byte> bytes = file->bytes();
  const bool compressed = bytes.size() >= 2 && bytes[0] == std::byte{31} && bytes[1] == std::byte{139};
  return compressed ? read_compressed(path, most_bytes) : array_in(path, {file, bytes, false});
}

namespace {

/// The members of an NPZ file by the names of their arrays.
std::map<std::string, const ZipMember*> arrays_in(const ZipFile& archive) {
  std::map<std::string, const ZipMember*> members;
  constexpr std::string_view suffix = ".npy";
  for (const ZipMember& member : archive.members()) {
    std::string name = member.name;
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    if (!members.emplace(name, &member).second)
      throw_bad_file(archive.path(), fmt::format("two arrays are called `{}`", shown(name)),
                     "a name for each array");
  }
  if (members.empty())
    throw_bad_file(archive.path(), "there are no arrays", "an NPZ file, as numpy.savez writes it");
  return members;
}

}  // namespace

std::map<std::string, NpyArray> read_npz(const std::string& path, const std::vector<config::Name>& wanted,
                                         int64_t most_bytes) {
  const ZipFile archive(path, "an NPZ file, as numpy.savez writes it");
  const std::map<std::string, const ZipMember*> members = arrays_in(archive);
  std::vector<std::string> names;
  for (const auto& [name, member] : members) names.push_back(name);
  for (const config::Name& name : wanted) {
    if (!members.contains(name.text))
      throw Error(ErrorKind::kConfig, name.mark,
                  fmt::format("{} has no array `{}`", path, printable(name.text)),
                  did_you_mean(name.text, names));
  }
  std::map<std::string, NpyArray> arrays;
  for (const auto& [name, member] : members) {
    if (!wanted.empty() && std::ranges::find(wanted, name, &config::Name::text) == wanted.end()) continue;
    const std::string place = fmt::format("{}:{}", path, shown(name));
    arrays.emplace(name, array_in(place, archive.read(*member, most_bytes)));
  }
  return arrays;
}

std::unique_ptr<ArraySource> open_arrays(const std::vector<std::pair<std::string, NpyArray>>& arrays,
                                         const config::Named<std::vector<config::Name>>& dimensions,
                                         const Mark& mark) {
  std::vector<ArrayFeature> features;
  for (const auto& [name, array] : arrays) {
    if (array.sizes.empty())
      throw_bad_file(array.path, "the array is one number",
                     "an array whose first dimension is that of the examples");
    if (array.data.empty())
      throw_bad_file(array.path, fmt::format("the array is {}", fmt::join(array.sizes, " x ")),
                     "one number at least");
    const NpyArray& first = arrays.front().second;
    if (array.sizes[0] != first.sizes[0])
      throw_bad_file(array.path,
                     fmt::format("{} examples, but {} has {}", array.sizes[0], first.path, first.sizes[0]),
                     "arrays with the same first dimension");
    const std::vector<config::Name>* names = dimensions.find(name);
    Shape shape = named_shape(std::span(array.sizes).subspan(1), names ? *names : std::vector<config::Name>(),
                              mark, fmt::format("the examples of {}", array.path));
    const bool scaled = array.elements.type == StoredType::kUint8 && name != kLabelsFeature;
    const DType dtype = scaled || !is_integer(array.elements.type) ? DType::kFloat32 : DType::kInt32;
    std::vector<int64_t> strides;
    if (array.fortran_order) {
      int64_t stride = size_of(array.elements.type);
      for (const int64_t size : array.sizes) {
        strides.push_back(stride);
        stride *= size;
      }
    } else {
      strides = row_major_strides(array.sizes, size_of(array.elements.type));
    }
    ExampleArray part{.path = array.path,
                      .owner = array.owner,
                      .data = array.data.data(),
                      .examples = array.sizes[0],
                      .stride = strides[0],
                      .strides = {strides.begin() + 1, strides.end()},
                      .elements = array.elements,
                      .bytes_in_memory = array.in_memory ? std::ssize(array.data) : 0};
    part.elements.scaled = scaled;
    features.push_back({{name, std::move(shape), dtype}, {std::move(part)}});
  }
  return std::make_unique<ArraySource>(std::move(features));
}

namespace {

/// NPY files by feature, or an NPZ file.
struct NpyOptions final : SourceOptions {
  static constexpr std::string_view type_name = "npy";
  static constexpr bool type_required = true;
  config::Named<config::Path> arrays;
  std::vector<config::Path> path;
  config::Named<config::Name> members;
  config::Named<std::vector<config::Name>> dimensions;

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    const std::vector<std::pair<std::string, NpyArray>> found =
        path.empty() ? arrays_of_files(context) : arrays_of_archive(context);
    for (const auto& [name, names] : dimensions) {
      if (std::ranges::none_of(found, [&](const auto& array) { return array.first == name; }))
        throw Error(ErrorKind::kConfig, context.mark,
                    fmt::format("`dimensions` names `{}`, which is no feature", name), features_in(found));
    }
    return open_arrays(found, dimensions, context.mark);
  }

  std::vector<config::Path*> paths() override {
    std::vector<config::Path*> pointers = pointers_to({&path});
    for (auto& [name, file] : arrays) pointers.push_back(&file);
    return pointers;
  }

 private:
  static std::string features_in(const std::vector<std::pair<std::string, NpyArray>>& arrays) {
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays) names.push_back(fmt::format("`{}`", name));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  std::vector<std::pair<std::string, NpyArray>> arrays_of_files(const SourceContext& context) const {
    if (arrays.empty())
      throw Error(ErrorKind::kConfig, context.mark, "a source `npy` without `arrays` and `path`",
                  "`arrays: {image: x.npy, labels: y.npy}`, or `path: data.npz`");
    std::vector<std::pair<std::string, NpyArray>> found;
    std::vector<Problem> missing;
    for (const auto& [name, file] : arrays) {
      const std::vector<std::string> files = find_regular_files({file}, missing);
      if (files.size() == 1 && missing.empty()) found.emplace_back(name, read_npy(files[0]));
      if (files.size() > 1)
        throw Error(ErrorKind::kConfig, file.mark, fmt::format("{} files match {}", files.size(), file.text),
                    "one file for each feature");
    }
    if (!missing.empty()) throw Error(std::move(missing));
    return found;
  }

  std::vector<std::pair<std::string, NpyArray>> arrays_of_archive(const SourceContext& context) const {
    if (!arrays.empty())
      throw Error(ErrorKind::kConfig, context.mark, "`arrays` and `path` are both given",
                  "one of them; `members` chooses arrays of an NPZ file");
    std::vector<Problem> missing;
    const std::vector<std::string> files = find_regular_files(path, missing);
    if (!missing.empty()) throw Error(std::move(missing));
    if (files.size() != 1)
      throw Error(ErrorKind::kConfig, context.mark, fmt::format("`path` names {} files", files.size()),
                  "one NPZ file");
    std::vector<config::Name> wanted;
    for (const auto& [name, member] : members) wanted.push_back(member);
    const std::map<std::string, NpyArray> read = read_npz(files[0], wanted);
    if (members.empty()) return {read.begin(), read.end()};
    std::vector<std::pair<std::string, NpyArray>> found;
    for (const auto& [name, member] : members) found.emplace_back(name, read.at(member.text));
    return found;
  }
};

void describe(config::Visitor& visit, NpyOptions& options) {
  visit(
      "arrays", options.arrays,
      "NPY files by feature, plain or .gz: {image: x.npy, labels: y.npy}; the first dimension is that of the "
      "examples");
  visit("path", options.path, "in place of `arrays`: one NPZ file, not .gz, whose arrays are the features");
  visit("members", options.members,
        "of an NPZ file, the arrays that are read, by feature: {image: x_train, labels: y_train}; none: all, "
        "under "
        "their own names");
  visit("dimensions", options.dimensions,
        "names of the dimensions of an example by feature; by default [inputs], [rows, cols], [rows, cols, "
        "channels] "
        "or [rows, cols, depth, channels], whichever it has");
}

const config::Registration<SourceOptions, NpyOptions> npy_registration;

}  // namespace
}  // namespace mtf
