// Checks that a checkpoint is used with the vocabulary with which it was trained. The checkpoint's manifest
// contains the fingerprints of its vocabularies.
//
//   manifest.vocabularies = fingerprints(session.vocabularies);
//   check_vocabularies(session, reader.manifest(), reader.path());
#pragma once

#include <map>
#include <string>

#include "engine/checkpoint/manifest.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns the fingerprints by side ("inputs", "targets") without first tokens; none without vocabularies.
std::map<std::string, std::string> fingerprints(const TextVocabularies& vocabularies);

/// True if both have vocabularies and these differ.
bool has_other_vocabulary(const Session& session, const Manifest& manifest);

/// True if some vocabulary of the manifest is one of the session's, of whichever side, apart from extra ids.
bool shares_vocabulary(const Session& session, const Manifest& manifest);

/// Throws Error (kCheckpoint) when the checkpoint at `path` was trained with another vocabulary than the
/// session's.
void check_vocabularies(const Session& session, const Manifest& manifest, const std::string& path);

}  // namespace mtf
