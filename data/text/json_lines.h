// The objects of a file with JSON Lines.
//
//   JsonLines lines(path, problems, limit, blank_lines);
//   while (const std::optional<nlohmann::json> object = lines.next()) ...
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "data/text/line_reader.h"

namespace mtf {

class JsonLines {
 public:
  /// `blank_lines` is incremented for each blank line, which is skipped. Throws Error (kData) if the file cannot be opened.
  JsonLines(const std::string& path, TextProblems& problems, const TextLimit& limit, int64_t& blank_lines);

  /// Returns the next object; nullopt at the end. Lines that are no JSON object, or have a key twice, are added to the
  /// problems and skipped.
  std::optional<nlohmann::json> next();

  /// Adds what is wrong with the line of the last object to the problems, and returns false.
  bool wrong(const std::string& what, const std::string& hint) const;

  int64_t bytes_read() const { return lines_.bytes_read(); }

 private:
  std::optional<nlohmann::json> parse(std::string_view line) const;

  LineReader lines_;
  TextProblems& problems_;
  int64_t& blank_lines_;
};

}  // namespace mtf
