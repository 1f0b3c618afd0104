// Helpers for tests of the configuration: files, and the text of errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/config/load.h"
#include "engine/config/schema.h"
#include "tests/support/problem_texts.h"

namespace mtf::config {

/// A directory of YAML files; it is the working directory until it is destroyed.
class Files {
 public:
  Files() : before_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "mtf_config_XXXXXX").string();
    directory_ = mkdtemp(name.data());
    std::filesystem::current_path(directory_);
  }
  ~Files() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(directory_);
  }
  void write(const std::string& name, const std::string& text) {
    if (const auto parent = std::filesystem::path(name).parent_path(); !parent.empty()) {
      std::filesystem::create_directories(parent);
    }
    std::ofstream(name) << text;
  }

 private:
  std::filesystem::path before_, directory_;
};

/// Returns each error as it is printed, ordered by place.
inline std::vector<std::string> errors_of(const Diagnostics& diagnostics) {
  try {
    diagnostics.throw_if_errors();
  } catch (const Error& error) {
    return texts(error.problems());
  }
  return {};
}

/// Returns the tree of one YAML text on one line. Errors fail the test.
inline std::string loaded(const std::string& yaml, const std::vector<std::string>& arguments = {}) {
  Files files;
  files.write("a.yaml", yaml);
  Diagnostics diagnostics;
  const Node node = load({"a.yaml"}, arguments, diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty()) << yaml;
  return to_flow_yaml(node);
}

/// Returns the errors of one YAML text (a.yaml) and arguments.
inline std::vector<std::string> load_errors(const std::string& yaml,
                                            const std::vector<std::string>& arguments = {}) {
  Files files;
  files.write("a.yaml", yaml);
  Diagnostics diagnostics;
  load({"a.yaml"}, arguments, diagnostics);
  return errors_of(diagnostics);
}

/// Parses YAML text as `T`. Errors fail the test.
template <class T>
T parsed(const std::string& yaml) {
  Diagnostics diagnostics;
  const T value = parse<T>(parse_yaml(yaml, "a.yaml", diagnostics), diagnostics);
  EXPECT_THAT(errors_of(diagnostics), ::testing::IsEmpty()) << yaml;
  return value;
}

/// Returns the errors of YAML text that is parsed as `T`, without the lines that show the place.
template <class T>
std::vector<std::string> parse_errors(const std::string& yaml) {
  Diagnostics diagnostics;
  parse<T>(parse_yaml(yaml, "a.yaml", diagnostics), diagnostics);
  std::vector<std::string> lines;
  for (const std::string& error : errors_of(diagnostics)) lines.push_back(error.substr(0, error.find('\n')));
  return lines;
}

}  // namespace mtf::config
