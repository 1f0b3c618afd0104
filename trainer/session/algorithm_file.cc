#include "trainer/session/algorithm_file.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "trainer/session/model_dir.h"

namespace mtf {

AlgorithmFile::AlgorithmFile(std::string path, std::string instruction_set, ProcessGroup& processes)
    : path_(std::move(path)), instruction_set_(std::move(instruction_set)), processes_(processes) {
  const std::string own = processes_.is_first() ? read_text(path_) : std::string();
  const std::string text = processes_.exchange("algorithms", own).front();
  if (!text.empty()) read(text);
}

void AlgorithmFile::read(const std::string& text) {
  const char* hint = "remove the file; the algorithms are then measured again";
  try {
    const nlohmann::json file = parse_json(text, [&](const std::string& key) {
      throw Error(ErrorKind::kData, fmt::format("{}: `{}` occurs twice", path_, key), hint);
    });
    if (file.at("instruction_set").get<std::string>() != instruction_set_) return;
    choices_ = file.at("choices").get<std::map<std::string, int>>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kData, fmt::format("{}: {}", path_, message_of(error)), hint);
  }
}

int AlgorithmFile::choose(const std::string& problem, const std::function<int()>& measure) {
  const auto [found, is_new] = choices_.try_emplace(problem);
  if (!is_new) return found->second;
  found->second = std::stoi(processes_.made_once("algorithm of a product " + hash128_hex(problem),
                                                 [&] { return fmt::to_string(measure()); }));
  if (processes_.is_first()) write();
  return found->second;
}

void AlgorithmFile::write() const {
  const nlohmann::ordered_json file = {{"instruction_set", instruction_set_}, {"choices", choices_}};
  const std::string text = json_text(file, 1) + "\n";
  if (const int error = write_file(path_, std::as_bytes(std::span(text))))
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path_, system_message(error)));
}

std::unique_ptr<AlgorithmFile> tuned_by_file(const Session& session) {
  if (!session.config.run.tune || session.backend->is_host()) return nullptr;
  auto file = std::make_unique<AlgorithmFile>(in_model_dir(session.config, "algorithms.json"),
                                              session.backend->instruction_set(), *session.processes);
  session.backend->tune(*file);
  return file;
}

}  // namespace mtf
