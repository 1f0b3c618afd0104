#include "data/text/tokenize.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "data/text/lowercase.h"
#include "data/text/token_words.h"

namespace mtf {
namespace {

constexpr size_t kChunkExamples = 512;
constexpr size_t kChunkBytes = 1 << 18;

class Encoder {
 public:
  Encoder(const TextFiles& files, const TokenizeOptions& options)
      : options_(options),
        options_of_source_(files.source()),
        read_(files.source().sides()),
        kept_(sides_in_rows(files.source())),
        joined_(kept_.size() < read_.size()) {}

  /// `first`: the number of the first of the examples.
  TokenChunk operator()(const std::vector<TextExample>& examples, int64_t first) const {
    TokenChunk chunk;
    for (const TextExample& example : examples) {
      std::optional<Draws> draws;
      if (options_.sampling) draws.emplace(options_.sampling->key, first++, options_.sampling->epoch);
      for (const Side side : kept_) {
        std::vector<int32_t>& tokens = chunk.tokens[side];
        const size_t begin = tokens.size();
        if (joined_) {
          append_joined(example, draws, tokens);
        } else {
          append(example[side], side, draws, tokens, &chunk.lines[side]);
        }
        chunk.lengths[side].push_back(static_cast<int64_t>(tokens.size() - begin));
      }
      if (options_of_source_.has_alignments()) append_links(example, chunk);
    }
    return chunk;
  }

 private:
  /// Appends the texts of the example, or nothing if one of them has no tokens: each needs its
  /// end-of-sequence token.
  void append_joined(const TextExample& example, std::optional<Draws>& draws,
                     std::vector<int32_t>& tokens) const {
    const size_t begin = tokens.size();
    for (const Side part : read_) {
      const size_t before = tokens.size();
      append(example[part], Side::kTargets, draws, tokens);
      if (tokens.size() == before) return tokens.resize(begin);
    }
  }

  /// Appends the tokens of a text. `lines`: where lines begin that are encoded one by one.
  void append(const TextField& field, Side side, std::optional<Draws>& draws, std::vector<int32_t>& tokens,
              std::vector<int64_t>* lines = nullptr) const {
    if (field.empty()) return;
    if (field.has_ids) {
      tokens.insert(tokens.end(), field.ids.begin(), field.ids.end());
      return;
    }
    if (!field.parts.empty()) return append_parts(field, side, draws, tokens);
    const std::string text = options_.lowercase ? to_lower_case(field.text) : field.text;
    const size_t begin = tokens.size();
    for (size_t part = 0; part < text.size();) {
      const size_t end =
          options_.lines_apart ? std::min(text.find('\n', part), text.size() - 1) + 1 : text.size();
      if (lines != nullptr && part > 0) lines->push_back(std::ssize(tokens));
      std::vector<int32_t> ids = encode(std::string_view(text).substr(part, end - part), side, draws);
      if (joined_)
        std::erase(ids, kEosId);  // parts of a pair are told by their ends, which a text may spell out
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      part = end;
    }
    if (tokens.size() > begin) tokens.push_back(kEosId);
  }

  /// Appends the links of the tokens of the example that was appended last.
  void append_links(const TextExample& example, TokenChunk& chunk) const {
    chunk.link_lengths.push_back(0);
    if (example.targets.links.empty()) return;
    BySide<std::vector<int32_t>> words;
    for (const Side side : kSides) {
      const auto count = static_cast<size_t>(chunk.lengths[side].back());
      if (count == 0) continue;
      const std::string& text = example[side].text;
      words[side] =
          words_of_tokens(*options_.vocabularies[side], options_.lowercase ? to_lower_case(text) : text,
                          std::span(chunk.tokens[side]).last(count).first(count - 1));
    }
    const size_t begin = chunk.links.size();
    append_token_links(example.targets.links, words.inputs, words.targets, chunk.links);
    chunk.link_lengths.back() = static_cast<int64_t>(chunk.links.size() - begin);
  }

  /// Appends the tokens of a text of parts: negative ones have no loss (models/token_loss.h). Its last part may spell out the
  /// end of sequence.
  void append_parts(const TextField& field, Side side, std::optional<Draws>& draws,
                    std::vector<int32_t>& tokens) const {
    size_t begin = 0;
    for (const TextPart& part : field.parts) {
      const std::string text = field.text.substr(begin, part.end - begin);
      for (const int32_t id : encode(options_.lowercase ? to_lower_case(text) : text, side, draws))
        tokens.push_back(part.learned ? id : -id);
      begin = part.end;
    }
    const int32_t end = field.parts.back().learned ? kEosId : -kEosId;
    if (tokens.empty() || tokens.back() != end) tokens.push_back(end);
  }

  std::vector<int32_t> encode(std::string_view text, Side side, std::optional<Draws>& draws) const {
    const SubwordSampler* const sampler = draws ? options_.sampling->samplers[side].get() : nullptr;
    return sampler ? sampler->encode(text, *draws) : options_.vocabularies[side]->encode(text);
  }

  const TokenizeOptions& options_;
  const TextSourceOptions& options_of_source_;
  std::vector<Side> read_, kept_;
  bool joined_;
};

/// Threads that tokenise chunks of examples in parallel and pass the results on in the order of the chunks.
class Workers {
 public:
  Workers(const TextFiles& files, const TokenizeOptions& options,
          const std::function<void(const TokenChunk&)>& append)
      : options_(options), reader_(files, {}, problems_), encode_(files, options), append_(append) {}

  void run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < std::max(1, options_.threads); ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    problems_.throw_if_any();
  }

 private:
  void work() {
    try {
      std::vector<TextExample> examples;
      while (const std::optional<Place> place = read_chunk(examples)) {
        const TokenChunk chunk = encode_(examples, place->first_example);
        if (!hand_on(place->chunk, chunk)) return;
      }
    } catch (...) {
      const std::lock_guard lock(turn_mutex_);
      if (!error_) error_ = std::current_exception();
      turn_changed_.notify_all();
    }
  }

  /// The number of a chunk, and of its first example.
  struct Place {
    int64_t chunk, first_example;
  };

  /// Reads the next chunk; nullopt at the end.
  std::optional<Place> read_chunk(std::vector<TextExample>& examples) {
    const std::lock_guard lock(read_mutex_);
    examples.clear();
    size_t bytes = 0;
    while (examples.size() < kChunkExamples && bytes < kChunkBytes) {
      TextExample& example = examples.emplace_back();
      if (!reader_.next(example)) {
        examples.pop_back();
        break;
      }
      bytes += example.inputs.text.size() + example.targets.text.size();
    }
    if (examples.empty()) return std::nullopt;
    if (options_.progress) options_.progress(TextStage::kTokenise, reader_.bytes_read(), reader_.bytes());
    const Place place{next_chunk_++, next_example_};
    next_example_ += std::ssize(examples);
    return place;
  }

  /// Waits for the turn of chunk `number` and appends it; false if another worker has failed.
  bool hand_on(int64_t number, const TokenChunk& chunk) {
    std::unique_lock lock(turn_mutex_);
    turn_changed_.wait(lock, [&] { return turn_ == number || error_; });
    if (error_) return false;
    append_(chunk);
    ++turn_;
    turn_changed_.notify_all();
    return true;
  }

  const TokenizeOptions& options_;
  TextProblems problems_;
  TextReader reader_;
  const Encoder encode_;
  const std::function<void(const TokenChunk&)>& append_;
  std::mutex read_mutex_, turn_mutex_;
  std::condition_variable turn_changed_;
  int64_t next_chunk_ = 0, next_example_ = 0;
  int64_t turn_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void tokenize(const TextFiles& files, const TokenizeOptions& options,
              const std::function<void(const TokenChunk&)>& append) {
  Workers(files, options, append).run();
}

}  // namespace mtf
