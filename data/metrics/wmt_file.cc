#include "data/metrics/wmt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>

#include "data/input_file.h"
#include "data/metrics/text_lines.h"
#include "data/metrics/unicode.h"
#include "engine/core/error.h"

namespace mtf {
namespace {

int64_t line_of(std::string_view text, size_t at) {
  return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())),
                    '\n') +
         1;
}

std::string_view without_gz(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path;
}

std::string ascii_lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return result;
}

/// What stands between <seg ...> and </seg>: such files look like SGML, but few parsers accept them.
std::vector<std::string> segments_of_sgm(const std::string& text, const std::string& path) {
  const std::string lower = ascii_lower(text);
  std::vector<std::string> segments;
  for (size_t at = lower.find("<seg"); at != std::string::npos; at = lower.find("<seg", at)) {
    const size_t begin = lower.find('>', at), end = lower.find("</seg>", at);
    if (end == std::string::npos || begin > end) {
      throw Error(ErrorKind::kData, fmt::format("{}: line {}: <seg> is not closed", path, line_of(text, at)),
                  "<seg id=\"1\">a sentence</seg>");
    }
    segments.push_back(collapse_white_space(std::string_view(text).substr(begin + 1, end - begin - 1)));
    at = end;
  }
  if (segments.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: no sentence", path), "<seg id=\"1\">a sentence</seg>");
  return segments;
}

/// Sentences by their numbers in a document.
using Sentences = std::map<int, std::string>;

Sentences sentences_of(const pugi::xml_node& node) {
  Sentences sentences;
  for (const pugi::xpath_node& found : node.select_nodes(".//seg")) {
    const pugi::xml_node segment = found.node();
    sentences[segment.attribute("id").as_int()] = collapse_white_space(segment.text().get());
  }
  return sentences;
}

/// Texts of a kind (<ref translator="..."> or <hyp system="...">) in one document, by name.
std::map<std::string, Sentences> texts_of(const pugi::xml_node& document, const char* kind,
                                          const char* attribute) {
  std::map<std::string, Sentences> texts;
  for (const pugi::xpath_node& found : document.select_nodes(fmt::format(".//{}", kind).c_str()))
    texts[found.node().attribute(attribute).as_string()] = sentences_of(found.node());
  return texts;
}

struct XmlFile {
  std::map<std::string, std::vector<std::string>> references;  ///< by translator
  std::map<std::string, std::vector<std::string>> systems;
};

std::set<std::string> names_in(const pugi::xml_document& document, const char* kind, const char* attribute) {
  std::set<std::string> names;
  for (const pugi::xpath_node& found : document.select_nodes(fmt::format("//doc//{}", kind).c_str()))
    names.insert(found.node().attribute(attribute).as_string());
  return names;
}

/// Sentence `number` of each of `names`, empty where there is none.
void append(std::map<std::string, std::vector<std::string>>& texts, const std::set<std::string>& names,
            std::map<std::string, Sentences>& of_document, int number) {
  for (const std::string& name : names) texts[name].push_back(of_document[name][number]);
}

XmlFile read_xml(const pugi::xml_document& xml) {
  const std::set<std::string> translators = names_in(xml, "ref", "translator");
  const std::set<std::string> systems = names_in(xml, "hyp", "system");
  XmlFile file;
  for (const pugi::xpath_node& found : xml.select_nodes("//doc[not(@testsuite)]")) {
    const pugi::xml_node document = found.node();
    auto references = texts_of(document, "ref", "translator"), outputs = texts_of(document, "hyp", "system");
    const Sentences sources = sentences_of(document.select_node(".//src").node());
    for (const auto& [number, source] : sources) {
      const int id = number;
      const bool translated =
          std::ranges::any_of(references, [id](auto& text) { return !text.second[id].empty(); });
      if (!translated && !translators.empty()) continue;
      append(file.references, translators, references, number);
      append(file.systems, systems, outputs, number);
    }
  }
  return file;
}

/// The file as XML with references or systems; nothing when it has neither: then it is like .sgm.
std::optional<XmlFile> read_as_xml(const std::string& text, const std::string& path) {
  if (!without_gz(path).ends_with(".xml")) return std::nullopt;
  pugi::xml_document xml;
  const pugi::xml_parse_result parsed = xml.load_buffer(text.data(), text.size());
  if (!parsed) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: line {}: {}", path, line_of(text, static_cast<size_t>(parsed.offset)),
                            parsed.description()),
                "XML as the WMT shared tasks have it");
  }
  XmlFile file = read_xml(xml);
  if (file.references.empty() && file.systems.empty()) return std::nullopt;
  return file;
}

}  // namespace

bool is_wmt_file(std::string_view path) {
  const std::string_view plain = without_gz(path);
  return plain.ends_with(".sgm") || plain.ends_with(".sgml") || plain.ends_with(".xml");
}

std::vector<std::vector<std::string>> read_wmt_references(const std::string& path) {
  const std::string text = read_file(path, "a text file");
  check_utf8(text, path);
  const std::optional<XmlFile> xml = read_as_xml(text, path);
  if (!xml) return {segments_of_sgm(text, path)};
  if (xml->references.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: no reference", path), "a file with <ref> elements");
  std::vector<std::vector<std::string>> references;
  for (const auto& [translator, sentences] : xml->references) references.push_back(sentences);
  return references;
}

std::vector<std::string> read_wmt_hypothesis(const std::string& path) {
  const std::string text = read_file(path, "a text file");
  check_utf8(text, path);
  const std::optional<XmlFile> xml = read_as_xml(text, path);
  if (!xml) return segments_of_sgm(text, path);
  if (xml->systems.size() != 1) {
    throw Error(ErrorKind::kData, fmt::format("{}: {} systems (<hyp>), not one", path, xml->systems.size()),
                "a file with the output of one system");
  }
  return xml->systems.begin()->second;
}

}  // namespace mtf
