#include "engine/config/known_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "engine/base/nearest.h"
#include "engine/config/schema.h"

namespace mtf::config {
namespace {

std::string_view parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// Names that other programs use for a key, each with the name here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 34> kCommonKeys = {{
    {"lr", "learning_rate"},
    {"eps", "epsilon"},
    {"momentum_decay", "momentum"},
    {"max_steps", "steps"},
    {"num_steps", "steps"},
    {"train_steps", "steps"},
    {"max_epochs", "epochs"},
    {"bs", "batch_size"},
    {"gradient_accumulation", "microbatches"},
    {"gradient_accumulation_steps", "microbatches"},
    {"accumulate", "microbatches"},
    {"gradient_checkpointing", "recompute"},
    {"remat", "recompute"},
    {"grad_clip", "clip_norm"},
    {"max_grad_norm", "clip_norm"},
    {"gradient_clipping", "clip_norm"},
    {"warmup", "warmup_steps"},
    {"output_dir", "model_dir"},
    {"save_dir", "model_dir"},
    {"checkpoint_dir", "model_dir"},
    {"model_directory", "model_dir"},
    {"heads", "num_heads"},
    {"n_heads", "num_heads"},
    {"head_dim", "key_value_size"},
    {"d_kv", "key_value_size"},
    {"d_ff", "hidden_size"},
    {"hidden_dim", "hidden_size"},
    {"embed_dim", "d_model"},
    {"embedding_size", "d_model"},
    {"num_embeddings", "size"},
    {"vocab_size", "size"},
    {"units", "output"},
    {"out_features", "output"},
    {"drop_rate", "rate"},
}};

std::string_view called_here(std::string_view key) {
  for (const auto& [common, here] : kCommonKeys) {
    if (is_same_name(common, key)) return here;
  }
  return key;
}

/// True if `path` matches `known`: names that the user chose match NAME, and indices of list entries are
/// skipped.
bool same_place(std::string_view path, std::string_view known) {
  while (!path.empty() && !known.empty()) {
    const std::string_view key = path.substr(0, path.find('.')), other = known.substr(0, known.find('.'));
    const bool entry_of_list = key != other && to_integer(key);
    if (key != other && other != kChosenName && !entry_of_list) return false;
    path.remove_prefix(std::min(path.size(), key.size() + 1));
    if (entry_of_list && other != kChosenName) continue;
    known.remove_prefix(std::min(known.size(), other.size() + 1));
  }
  return path.empty() && known.empty();
}

int64_t distance_to(std::string_view key, const std::optional<std::string>& near) {
  return near ? edit_distance(key, *near) : std::numeric_limits<int64_t>::max();
}

std::string joined(const std::vector<std::string>& words) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), kShown); ++i) {
    const bool last = i + 1 == std::min(words.size(), kShown);
    text += fmt::format("{}`{}`", i == 0 ? "" : last ? " or " : ", ", words[i]);
  }
  return text;
}

/// Returns `path` without its last chosen name: "data.train.images" for "data.train.NAME.images".
std::string without_name(std::string path) {
  const std::string name = fmt::format(".{}.", kChosenName);
  if (const size_t at = path.rfind(name); at != std::string::npos) path.replace(at, name.size(), ".");
  return path;
}

/// Returns `words` without repetitions, in their order.
std::vector<std::string> each_once(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) {
    if (std::ranges::find(result, word) == result.end()) result.push_back(word);
  }
  return result;
}

/// Keeps only the keys at the top and those of the same section as `path`, if there are any of these.
void keep_same_section(std::vector<std::string>& keys, std::string_view path) {
  const auto section_of = [](std::string_view key) { return key.substr(0, key.find('.')); };
  const auto elsewhere = [&](const std::string& key) {
    return !parent_of(key).empty() && section_of(key) != section_of(path);
  };
  if (!std::ranges::all_of(keys, elsewhere)) std::erase_if(keys, elsewhere);
}

/// Returns "it cannot stand beside the other keys of `data.train` ...".
std::string hint_at_removal(std::string_view parent) {
  return fmt::format("it cannot stand beside the other keys of `{0}` (`{0}: null` before it removes them)",
                     parent);
}

/// True if the map that has the key at `path` may have names that the user chooses in the place of keys.
bool may_be_chosen(std::string_view path, const std::vector<KnownKey>& language) {
  return std::ranges::any_of(language, [&](const KnownKey& known) {
    const std::string_view map = parent_of(known.path);
    return last_of(map) == kChosenName && same_place(path, map);
  });
}

/// Returns "it is a key of `type: adam`" if `path` is a key of other types than the one that is used.
std::string hint_of_type(std::string_view path, const std::vector<KnownKey>& language) {
  std::vector<std::string> types;
  for (const KnownKey& known : language) {
    if (!known.type.empty() && same_place(path, known.path)) types.push_back("type: " + known.type);
  }
  return types.empty() ? "" : fmt::format("it is a key of {}", joined(each_once(types)));
}

}  // namespace

std::string hint_for_unknown_key(std::string_view path, const std::vector<std::string>& here,
                                 const std::vector<KnownKey>& language, bool has_type) {
  const std::string_view key = called_here(last_of(path));
  if (has_type && may_be_chosen(path, language)) return hint_at_removal(parent_of(path));
  if (std::string of_type = hint_of_type(path, language); !of_type.empty()) return of_type;
  std::vector<std::string> elsewhere;
  for (const KnownKey& known : language) elsewhere.emplace_back(last_of(known.path));
  const std::optional<std::string> near_here = nearest(key, here);
  std::optional<std::string> near_elsewhere = nearest(key, elsewhere);
  // A whole language is so large that some key resembles almost any word a little.
  constexpr int64_t kLettersPerMistake = 4;
  if (const int64_t distance = distance_to(key, near_elsewhere);
      near_elsewhere && distance * kLettersPerMistake > static_cast<int64_t>(key.size())) {
    near_elsewhere.reset();
  }
  const bool near_enough = near_here && distance_to(key, near_here) <= 1;
  if (near_elsewhere && !near_enough && distance_to(key, near_elsewhere) < distance_to(key, near_here)) {
    std::vector<std::string> paths;
    for (const KnownKey& known : language) {
      if (last_of(known.path) == *near_elsewhere) paths.push_back(known.path);
    }
    paths = each_once(paths);
    // A key of one source is a key of each of several.
    const std::vector<std::string> all = paths;
    std::erase_if(paths, [&](const std::string& other) {
      return without_name(other) != other && std::ranges::find(all, without_name(other)) != all.end();
    });
    if (std::ranges::find(paths, path) != paths.end()) return hint_at_removal(parent_of(path));
    keep_same_section(paths, path);
    for (const std::string& top : paths) {
      if (parent_of(top).empty()) return fmt::format("`{}` stands at the top of a file", top);
    }
    return fmt::format("did you mean {}?", joined(paths));
  }
  if (!near_here) return did_you_mean(key, here);
  const std::string_view parent = parent_of(path);
  return fmt::format("did you mean `{}{}{}`?", parent, parent.empty() ? "" : ".", *near_here);
}

namespace internal {
namespace {

class KeyCollector {
 public:
  void collect(const std::vector<Section>& sections, const Type* type, const std::string& prefix) {
    if (std::ranges::find(open_, type) != open_.end()) return;  // the type contains itself
    open_.push_back(type);
    for (const Section& section : sections) {
      constexpr std::string_view kType = "type: ";
      const size_t at = section.title.find(kType);
      const std::string of_type =
          at != std::string::npos ? section.title.substr(at + kType.size()) : std::string();
      const bool of_chosen = section.title.starts_with(fmt::format("{}: ", kChosenName));
      for (const Field& field : section.fields) {
        const std::string path = prefix + (of_chosen ? fmt::format("{}.", kChosenName) : "") + field.name;
        keys_.push_back({path, of_type});
        const bool chosen = dynamic_cast<const MapBase*>(field.type) != nullptr;
        collect(field.type->sections(field.value), field.type,
                chosen ? fmt::format("{}.{}.", path, kChosenName) : path + ".");
      }
    }
    open_.pop_back();
  }

  std::vector<KnownKey> take() { return std::move(keys_); }

 private:
  std::vector<KnownKey> keys_;
  std::vector<const Type*> open_;
};

}  // namespace

std::vector<KnownKey> known_keys(const std::vector<Section>& sections, std::string_view path) {
  KeyCollector collector;
  collector.collect(sections, nullptr, path.empty() ? "" : fmt::format("{}.", path));
  return collector.take();
}

}  // namespace internal
}  // namespace mtf::config
