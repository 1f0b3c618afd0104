#include "trainer/metrics/wmt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>

#include "data/input_file.h"
#include "engine/base/error.h"
#include "engine/base/parse_number.h"
#include "trainer/metrics/text_lines.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

/// The size above which a file is rejected; files of the shared tasks have a few MB.
constexpr int64_t kLargestFile = int64_t{256} << 20;

std::string read_text(const std::string& path) {
  std::string text = read_file(path, "a text file", kLargestFile);
  check_utf8(text, path);
  return text;
}

int64_t line_of(std::string_view text, size_t at) {
  return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())),
                    '\n') +
         1;
}

std::string ascii_lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return result;
}

/// Returns the index of the next `tag`, "<seg" for <seg ...> or <seg/>, in text in lower case; npos if there
/// is none.
size_t find_tag(const std::string& lower, std::string_view tag, size_t from) {
  size_t at = lower.find(tag, from);
  while (at != std::string::npos &&
         std::string_view(" \t\r\n/>").find(lower[at + tag.size()]) == std::string::npos)
    at = lower.find(tag, at + 1);
  return at;
}

size_t find_segment(const std::string& lower, size_t from) { return find_tag(lower, "<seg", from); }

/// Returns the value of `attribute` in the tag that begins at `tag`; empty if the tag does not have it.
std::string attribute_of(const std::string& text, const std::string& lower, size_t tag,
                         std::string_view attribute) {
  const std::string_view inside = std::string_view(lower).substr(tag, lower.find('>', tag) - tag);
  const std::string name = fmt::format(" {}=\"", attribute);
  const size_t begin = inside.find(name);
  if (begin == std::string_view::npos) return {};
  const size_t value = begin + name.size();
  return text.substr(tag + value, std::min(inside.find('"', value), inside.size()) - value);
}

/// Returns the origin of each <seg>, from the <doc ...> that contains it.
std::vector<SentenceOrigin> origins_in_sgm(const std::string& text) {
  const std::string lower = ascii_lower(text);
  std::vector<SentenceOrigin> origins;
  SentenceOrigin of_document;
  size_t document = find_tag(lower, "<doc", 0);
  for (size_t at = find_segment(lower, 0); at != std::string::npos; at = find_segment(lower, at + 1)) {
    for (; document < at; document = find_tag(lower, "<doc", document + 1))
      of_document.language = attribute_of(text, lower, document, "origlang");
    origins.push_back(of_document);
  }
  return origins;
}

/// Returns the texts between <seg ...> and </seg>. The files look like SGML, but few parsers accept them.
std::vector<std::string> segments_of_sgm(const std::string& text, const std::string& path) {
  const std::string lower = ascii_lower(text);
  std::vector<std::string> segments;
  for (size_t at = find_segment(lower, 0), next = 0; at != std::string::npos; at = next) {
    const size_t begin = lower.find('>', at);
    next = find_segment(lower, at + 1);
    if (begin < next && lower[begin - 1] == '/') {
      segments.emplace_back();
      continue;
    }
    const size_t end = lower.find("</seg>", at);
    if (end == std::string::npos || begin > end || next < end) {
      throw Error(ErrorKind::kData, fmt::format("{}: line {}: <seg> is not closed", path, line_of(text, at)),
                  "<seg id=\"1\">a sentence</seg>");
    }
    segments.push_back(collapse_white_space(std::string_view(text).substr(begin + 1, end - begin - 1)));
  }
  if (segments.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: no sentence", path), "<seg id=\"1\">a sentence</seg>");
  return segments;
}

/// The sentences of a document, by their numbers.
using Sentences = std::map<int, std::string>;

/// The parsed XML of a file; its errors name the line.
class XmlText {
 public:
  XmlText(const std::string& text, const std::string& path) : text_(text), path_(path) {
    // The text was checked to be UTF-8, whatever its XML declaration says.
    const pugi::xml_parse_result parsed = xml_.load_buffer(
        text.data(), text.size(), pugi::parse_default | pugi::parse_ws_pcdata, pugi::encoding_utf8);
    if (!parsed) fail(parsed.offset, parsed.description(), "XML as the WMT shared tasks have it");
  }

  pugi::xpath_node_set select(const char* path) const { return xml_.select_nodes(path); }

  Sentences sentences_of(const pugi::xml_node& node) const {
    Sentences sentences;
    for (const pugi::xpath_node& found : node.select_nodes(".//seg")) {
      const pugi::xml_node segment = found.node();
      const auto id = parse_number<int>(segment.attribute("id").value());
      if (!id) fail(segment.offset_debug(), "<seg> has no number", "<seg id=\"1\">a sentence</seg>");
      static const pugi::xpath_query all_text("string(.)");
      if (!sentences.emplace(*id, collapse_white_space(all_text.evaluate_string(segment))).second)
        fail(segment.offset_debug(), fmt::format("there are two <seg id=\"{}\">", *id),
             "another number for each sentence of a document");
    }
    return sentences;
  }

 private:
  [[noreturn]] void fail(std::ptrdiff_t at, const std::string& what, const std::string& hint) const {
    throw Error(ErrorKind::kData,
                fmt::format("{}: line {}: {}", path_, line_of(text_, static_cast<size_t>(at)), what), hint);
  }

  const std::string& text_;
  const std::string& path_;
  pugi::xml_document xml_;
};

/// Returns the texts of a kind (<ref translator="..."> or <hyp system="...">) in one document, by name.
std::map<std::string, Sentences> texts_of(const XmlText& xml, const pugi::xml_node& document,
                                          const char* kind, const char* attribute) {
  std::map<std::string, Sentences> texts;
  for (const pugi::xpath_node& found : document.select_nodes(fmt::format(".//{}", kind).c_str()))
    texts[found.node().attribute(attribute).as_string()] = xml.sentences_of(found.node());
  return texts;
}

struct XmlFile {
  std::map<std::string, std::vector<std::string>> references;  ///< by translator
  std::map<std::string, std::vector<std::string>> systems;
  std::vector<SentenceOrigin> origins;
  std::string missing;  ///< describes the first sentence that a system lacks
};

std::set<std::string> names_in(const XmlText& xml, const char* kind, const char* attribute) {
  std::set<std::string> names;
  for (const pugi::xpath_node& found : xml.select(fmt::format("//doc//{}", kind).c_str()))
    names.insert(found.node().attribute(attribute).as_string());
  return names;
}

/// Returns the numbers of the sentences of a document: those of its source, or of all its texts if it has
/// none.
std::set<int> numbers_of(const XmlText& xml, const pugi::xml_node& document) {
  const pugi::xml_node source = document.select_node(".//src").node();
  std::set<int> numbers;
  for (const pugi::xpath_node& text : document.select_nodes(source ? ".//src" : ".//ref | .//hyp")) {
    for (const auto& [number, sentence] : xml.sentences_of(text.node())) numbers.insert(number);
  }
  return numbers;
}

/// Appends sentence `number` of each of `names`, an empty one if it does not exist.
void append(std::map<std::string, std::vector<std::string>>& texts, const std::set<std::string>& names,
            std::map<std::string, Sentences>& of_document, int number) {
  for (const std::string& name : names) texts[name].push_back(of_document[name][number]);
}

XmlFile read_xml(const XmlText& xml) {
  const std::set<std::string> translators = names_in(xml, "ref", "translator");
  const std::set<std::string> systems = names_in(xml, "hyp", "system");
  XmlFile file;
  for (const pugi::xpath_node& found : xml.select("//doc[not(@testsuite)]")) {
    const pugi::xml_node document = found.node();
    auto references = texts_of(xml, document, "ref", "translator");
    auto outputs = texts_of(xml, document, "hyp", "system");
    for (const int number : numbers_of(xml, document)) {
      const bool translated =
          std::ranges::any_of(references, [&](auto& text) { return !text.second[number].empty(); });
      if (!translated && !translators.empty()) continue;
      for (const std::string& name : systems) {
        if (file.missing.empty() && !outputs[name].contains(number)) {
          file.missing = fmt::format("system `{}` lacks sentence {} of document `{}`", name, number,
                                     document.attribute("id").value());
        }
      }
      file.origins.push_back(
          {document.attribute("origlang").as_string(), document.attribute("domain").as_string()});
      append(file.references, translators, references, number);
      append(file.systems, systems, outputs, number);
    }
  }
  return file;
}

/// Reads the file as WMT's XML; nullopt if it has no such documents, in which case it is read like .sgm.
std::optional<XmlFile> read_as_xml(const std::string& text, const std::string& path) {
  if (!ascii_lower(without_gz(path)).ends_with(".xml")) return std::nullopt;
  const XmlText xml(text, path);
  if (xml.select("//doc//src | //doc//ref | //doc//hyp").empty()) return std::nullopt;
  return read_xml(xml);
}

}  // namespace

bool is_wmt_file(std::string_view path) {
  const std::string plain = ascii_lower(without_gz(path));
  return plain.ends_with(".sgm") || plain.ends_with(".sgml") || plain.ends_with(".xml");
}

WmtReferences read_wmt_references(const std::string& path) {
  const std::string text = read_text(path);
  const std::optional<XmlFile> xml = read_as_xml(text, path);
  if (!xml) return {{segments_of_sgm(text, path)}, origins_in_sgm(text)};
  if (xml->references.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: no reference", path), "a file with <ref> elements");
  WmtReferences result{.references = {}, .origins = xml->origins};
  for (const auto& [translator, sentences] : xml->references) result.references.push_back(sentences);
  return result;
}

std::vector<std::string> read_wmt_hypothesis(const std::string& path) {
  const std::string text = read_text(path);
  const std::optional<XmlFile> xml = read_as_xml(text, path);
  if (!xml) return segments_of_sgm(text, path);
  if (xml->systems.size() != 1) {
    throw Error(ErrorKind::kData, fmt::format("{}: {} systems (<hyp>), not one", path, xml->systems.size()),
                "a file with the output of one system");
  }
  if (!xml->missing.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: {}", path, xml->missing),
                "an empty <seg> where it has none");
  return xml->systems.begin()->second;
}

}  // namespace mtf
