// A fixture for tests that write a model in Hugging Face format and import it again.
//
//   class Imports : public testing::HuggingFaceDirectory { ... };
//   export_t5(model_of(yaml), "run", hf());
//   change({{"d_model", 20}});
//   EXPECT_THAT(message([&] { import_t5(hf(), target()); }), HasSubstr("`shared.weight` is"));
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/trainer/machine_files.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf::testing {

/// The message of the Error that `call` throws, without its hint; "no error" if it throws none.
inline std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.problems().front().message;
  }
  return "no error";
}

class HuggingFaceDirectory : public MachineFiles {
 protected:
  HuggingFaceDirectory() { std::filesystem::create_directories(hf()); }

  std::string hf() const { return (root_ / "hf").string(); }
  ImportTarget target() const { return {(root_ / "model").string()}; }
  nlohmann::json json() const { return nlohmann::json::parse(read_text_file(hf() + "/config.json")); }
  /// Changes keys of config.json; null removes one.
  void change(const nlohmann::json& changes) const {
    nlohmann::json written = json();
    written.merge_patch(changes);
    write_text_file(hf() + "/config.json", written.dump());
  }

  /// A model whose weights are zero.
  static ModelWeights model_of(const std::string& config) {
    ModelWeights model{.config = config, .weights = {}};
    for (const Variable& variable : ConfigText(config, "model").variables())
      model.weights.push_back({variable.name, HostTensor(variable.shape, DType::kFloat32)});
    return model;
  }
};

}  // namespace mtf::testing
