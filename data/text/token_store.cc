#include "data/text/token_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "data/paths.h"
#include "data/text/text_cache.h"
#include "engine/base/hash.h"
#include "engine/config/load.h"

namespace mtf {
namespace {

constexpr const char* kLinks = "alignment/links";
constexpr const char* kLinkOffsets = "alignment/offsets";

/// A temporary file that receives the tokens of one side, so that a large corpus need not fit into memory. It
/// has no name, so it disappears with the process.
class TokenFile {
 public:
  explicit TokenFile(const std::string& directory) : directory_(directory) {
    file_.emplace(directory, O_RDWR | O_TMPFILE, 0600);
    if (file_->open()) return;
    // Some file systems have only files with a name, which this one loses at once.
    const std::string path = fmt::format("{}/tokens.partial-{}-{}", directory, ::getpid(), fmt::ptr(this));
    file_.emplace(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!file_->open()) cannot_write(file_->error());
    ::unlink(path.c_str());
  }

  /// Appends the tokens of some examples, and where their lines begin.
  void append(const std::vector<int32_t>& tokens, const std::vector<int64_t>& lengths,
              const std::vector<int64_t>& lines) {
    for (const int64_t line : lines) lines_.push_back(offsets_.back() + line);
    buffer_.insert(buffer_.end(), tokens.begin(), tokens.end());
    for (const int64_t length : lengths) offsets_.push_back(offsets_.back() + length);
    if (buffer_.size() >= kBufferTokens) flush();
  }

  /// Writes the lone end-of-sequence token at the end and maps all tokens.
  MappedFile finish() {
    buffer_.push_back(kEosId);
    flush();
    return MappedFile(fmt::format("/proc/self/fd/{}", file_->get()));
  }

  const std::vector<int64_t>& offsets() const { return offsets_; }
  const std::vector<int64_t>& lines() const { return lines_; }

 private:
  static constexpr size_t kBufferTokens = 1 << 18;

  void flush() {
    if (const int error = file_->write(std::as_bytes(std::span(buffer_)))) cannot_write(error);
    buffer_.clear();
  }
  [[noreturn]] void cannot_write(int error) const {
    throw Error(ErrorKind::kSystem,
                fmt::format("tokenised texts cannot be kept in {}: {}", directory_, system_message(error)),
                "a directory with enough room, as `data.cache`");
  }

  std::string directory_;
  std::optional<File> file_;
  std::vector<int32_t> buffer_;
  std::vector<int64_t> offsets_ = {0};
  std::vector<int64_t> lines_;
};

BySide<int64_t> sizes_of(const TextVocabularies& vocabularies) {
  BySide<int64_t> sizes;
  for (const Side side : kSides) sizes[side] = vocabularies[side] ? vocabularies[side]->size() : 0;
  return sizes;
}

/// Throws Error (kData) if a file was written while it was read: its new tokens would be stored under the key
/// of its old content.
void check_unchanged(const TextFiles& files, const TokenizeOptions& options, const std::string& key,
                     const std::string& cache_directory) {
  if (token_store_key(files, options, cache_directory) == key) return;
  const std::vector<std::string>& group = files.groups.front();
  const bool several = files.groups.size() * group.size() > 1;
  throw Error(ErrorKind::kData,
              fmt::format("{}{} changes while it is read",
                          several ? "one of the files of a source with " : "", group.front()),
              "start again when it is complete");
}

void build(const std::string& path, const TextFiles& files, const TokenizeOptions& options,
           const std::string& key) {
  const TextCounts counts = scan_texts(files, sizes_of(options.vocabularies), options.progress);
  const std::vector<Side> sides = sides_in_rows(files.source());
  BySide<std::optional<TokenFile>> tokens;
  for (const Side side : sides) tokens[side].emplace(directory_of(path));
  std::optional<TokenFile> links;
  if (files.source().has_alignments()) links.emplace(directory_of(path));
  tokenize(files, options, [&](const TokenChunk& chunk) {
    for (const Side side : sides)
      tokens[side]->append(chunk.tokens[side], chunk.lengths[side], chunk.lines[side]);
    if (links) links->append(chunk.links, chunk.link_lengths, {});
  });
  check_unchanged(files, options, key, directory_of(path));

  std::vector<MappedFile> mapped;
  std::vector<StoredTensor> tensors;
  const auto add = [&](const std::string& name, TokenFile& file) {
    const std::span<const std::byte> bytes = mapped.emplace_back(file.finish()).bytes();
    tensors.push_back({.name = name,
                       .dtype = DType::kInt32,
                       .shape = {static_cast<int64_t>(bytes.size() / sizeof(int32_t))},
                       .data = bytes});
  };
  if (links) {
    add(kLinks, *links);
    tensors.push_back(tensor_of(kLinkOffsets, links->offsets()));
  }
  for (const Side side : sides) {
    add(tensor_name(side, "tokens"), *tokens[side]);
    tensors.push_back(tensor_of(tensor_name(side, "offsets"), tokens[side]->offsets()));
    tensors.push_back(tensor_of(tensor_name(side, "lines"), tokens[side]->lines()));
  }
  write_store(path, tensors,
              {{"empty", fmt::to_string(counts.empty)},
               {"blank_lines", fmt::to_string(counts.blank_lines)},
               {"longest", fmt::to_string(counts.longest)}});
}

/// Returns the options of a source without its paths and what is done with its tokens.
std::string settings_of(const SourceChoice& options) {
  config::Node node = config::dump(options);
  for (const char* key : {"path", "inputs", "targets", "alignments", "objective", "sampling"})
    node = node.without(key);
  return config::to_flow_yaml(node);
}

}  // namespace

std::string tensor_name(Side side, std::string_view what) {
  return fmt::format("{}/{}", name_of(side), what);
}

int64_t stored_number(const SafetensorsFile& file, const std::string& name) {
  const auto entry = file.metadata().find(name);
  const auto number = entry == file.metadata().end() ? std::nullopt : config::to_integer(entry->second);
  if (!number) throw_damaged_store(file.path());
  return *number;
}

TokenStore::TokenStore(const std::string& path) : file_(read_store(path)) {
  for (const Side side : kSides) {
    if (!file_.find(tensor_name(side, "tokens"))) continue;
    tokens_[side] = mapped_values<int32_t>(file_, tensor_name(side, "tokens"));
    offsets_[side] = mapped_values<int64_t>(file_, tensor_name(side, "offsets"));
    const std::span<const int64_t> offsets = offsets_[side];
    if (tokens_[side].empty() || offsets.empty() || offsets.front() != 0 ||
        !std::ranges::is_sorted(offsets) || offsets.back() != lone_end(side))
      throw_damaged_store(path);
    lines_[side] = mapped_values<int64_t>(file_, tensor_name(side, "lines"));
    if (!std::ranges::is_sorted(lines_[side])) throw_damaged_store(path);
    counts_.examples = static_cast<int64_t>(offsets.size()) - 1;
  }
  if (has(Side::kInputs) && has(Side::kTargets) && offsets_.inputs.size() != offsets_.targets.size())
    throw_damaged_store(path);
  if (file_.find(kLinks)) read_links();
  counts_.empty = stored_number(file_, "empty");
  counts_.blank_lines = stored_number(file_, "blank_lines");
  counts_.longest = stored_number(file_, "longest");
}

void TokenStore::read_links() {
  links_ = mapped_values<int32_t>(file_, kLinks);
  link_offsets_ = mapped_values<int64_t>(file_, kLinkOffsets);
  if (std::ssize(link_offsets_) != counts_.examples + 1 || link_offsets_.front() != 0 ||
      !std::ranges::is_sorted(link_offsets_) || link_offsets_.back() != std::ssize(links_) - 1)
    throw_damaged_store(path());
}

std::string token_store_key(const TextFiles& files, const TokenizeOptions& options,
                            const std::string& cache_directory) {
  std::string text = fmt::format("tokens 6\n{}\nlowercase {} lines_apart {}\n", settings_of(files.options),
                                 options.lowercase, options.lines_apart);
  for (const Side side : kSides) {
    const auto& vocabulary = options.vocabularies[side];
    text += fmt::format("{} {}\n", mtf::name_of(side), vocabulary ? vocabulary->fingerprint() : "");
  }
  for (const std::vector<std::string>& group : files.groups) {
    for (const std::string& file : group) text += content_hash(file, cache_directory) + " ";
    text += "\n";
  }
  return hash128_hex(text);
}

std::string texts_key(const SourceChoice& source, const std::string& cache_directory) {
  const std::string cache = cache_directory.empty() ? default_cache_directory() : cache_directory;
  SourceChoice copy = source;
  if (auto* parallel = copy.get_if<ParallelOptions>()) parallel->alignments.clear();
  std::vector<config::Path> paths;
  for (const config::Path* path : copy->paths()) paths.push_back(*path);
  std::string text = settings_of(source);
  std::vector<Problem> missing;
  for (const std::string& file : find_regular_files(paths, missing)) text += " " + content_hash(file, cache);
  return hash128_hex(text);
}

std::string stored_key(const std::string& key, const TokenizeOptions& options) {
  return options.sampling ? hash128_hex(key + " " + options.sampling->to_string()) : key;
}

TokenStore open_token_store(const TextFiles& files, const TokenizeOptions& options, const std::string& key,
                            const std::string& cache_directory,
                            const std::function<void(const std::string&)>& note) {
  const std::string path = fmt::format("{}/tokens-{}.safetensors", cache_directory, stored_key(key, options));
  TokenStore store = open_or_build(
      path, [&] { return TokenStore(path); }, [&] { build(path, files, options, key); },
      [&] {
        if (options.progress) options.progress(TextStage::kWait, 0, 0);
      },
      note);
  // The scan names the text.
  if (store.counts().longest > files.limit.bytes)
    scan_texts(files, sizes_of(options.vocabularies), options.progress);
  return store;
}

}  // namespace mtf
