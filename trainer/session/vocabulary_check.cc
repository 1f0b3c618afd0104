#include "trainer/session/vocabulary_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/first_token.h"

namespace mtf {

std::map<std::string, std::string> fingerprints(const TextVocabularies& vocabularies) {
  std::map<std::string, std::string> result;
  for (const Side side : kSides) {
    if (const auto& vocabulary = vocabularies[side])
      result.emplace(name_of(side), without_first_token(vocabulary->fingerprint()));
  }
  return result;
}

bool has_other_vocabulary(const Session& session, const Manifest& manifest) {
  const std::map<std::string, std::string> here = fingerprints(session.vocabularies);
  return !here.empty() && !manifest.vocabularies.empty() && here != manifest.vocabularies;
}

bool shares_vocabulary(const Session& session, const Manifest& manifest) {
  const std::map<std::string, std::string> here = fingerprints(session.vocabularies);
  return std::ranges::any_of(manifest.vocabularies | std::views::values, [&](const std::string& theirs) {
    return std::ranges::any_of(here | std::views::values, [&](const std::string& own) {
      return without_extra_ids(own) == without_extra_ids(theirs);
    });
  });
}

void check_vocabularies(const Session& session, const Manifest& manifest, const std::string& path) {
  if (!has_other_vocabulary(session, manifest)) return;
  throw Error(ErrorKind::kCheckpoint, session.config.mark("data.vocabulary"),
              fmt::format("{} was trained with another vocabulary, so its ids mean other tokens", path),
              "the vocabulary of its run");
}

}  // namespace mtf
