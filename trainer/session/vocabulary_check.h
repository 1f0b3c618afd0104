// The vocabulary decides what the ids are that a model knows. A checkpoint tells which one it was trained
// with, so that no other takes its place unnoticed.
//
//   manifest.vocabularies = fingerprints(session.vocabularies);
//   check_vocabularies(session, reader.manifest(), reader.path());
#pragma once

#include <map>
#include <string>

#include "engine/checkpoint/manifest.h"
#include "trainer/session/session.h"

namespace mtf {

/// By side ("inputs", "targets"); none without vocabularies.
std::map<std::string, std::string> fingerprints(const TextVocabularies& vocabularies);

/// True when both have vocabularies and they differ.
bool has_other_vocabulary(const Session& session, const Manifest& manifest);

/// Throws Error (kCheckpoint) when the checkpoint at `path` was trained with another vocabulary than the
/// session has.
void check_vocabularies(const Session& session, const Manifest& manifest, const std::string& path);

}  // namespace mtf
