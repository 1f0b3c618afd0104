#include "trainer/session/vocabulary_check.h"

#include <fmt/format.h>

namespace mtf {

std::map<std::string, std::string> fingerprints(const TextVocabularies& vocabularies) {
  std::map<std::string, std::string> result;
  for (const Side side : kSides) {
    if (const auto& vocabulary = vocabularies[side]) result.emplace(name_of(side), vocabulary->fingerprint());
  }
  return result;
}

bool has_other_vocabulary(const Session& session, const Manifest& manifest) {
  const std::map<std::string, std::string> here = fingerprints(session.vocabularies);
  return !here.empty() && !manifest.vocabularies.empty() && here != manifest.vocabularies;
}

void check_vocabularies(const Session& session, const Manifest& manifest, const std::string& path) {
  if (!has_other_vocabulary(session, manifest)) return;
  throw Error(ErrorKind::kCheckpoint, session.config.mark("data.vocabulary"),
              fmt::format("{} was trained with another vocabulary, so its ids mean other tokens", path),
              "the vocabulary of its run");
}

}  // namespace mtf
