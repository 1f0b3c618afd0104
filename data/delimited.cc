#include "data/delimited.h"

#include <fmt/format.h>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr int kEnd = -1;

bool ends_line(int byte) { return byte == '\n' || byte == kEnd; }

}  // namespace

Delimiter delimiter_of(std::string_view path) {
  return without_gz(path).ends_with(".tsv") ? Delimiter::kTab : Delimiter::kComma;
}

DelimitedReader::DelimitedReader(const std::string& path, Delimiter delimiter)
    : file_(path, delimiter == Delimiter::kTab ? "a TSV file" : "a CSV file"),
      separator_(delimiter == Delimiter::kTab ? '\t' : ','),
      quotes_(delimiter == Delimiter::kComma),
      buffer_(1 << 16) {
  for (const int byte : {0xef, 0xbb, 0xbf}) {
    if (peek() != byte) break;
    take();
  }
}

int DelimitedReader::peek() {
  if (at_ == end_) {
    at_ = 0;
    end_ = static_cast<size_t>(file_.read(buffer_.data(), std::ssize(buffer_)));
    if (end_ == 0) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int DelimitedReader::take() {
  const int byte = peek();
  if (byte == kEnd) return kEnd;
  ++at_;
  if (byte == '\n') ++next_line_;
  return byte;
}

std::string DelimitedReader::place() const { return fmt::format("{}:{}", file_.path(), line_); }

void DelimitedReader::fail(const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", place(), what), hint);
}

void DelimitedReader::append(int byte) {
  if (++record_bytes_ > kMostBytes)
    fail(fmt::format("a record of more than {} bytes", kMostBytes),
         "values between commas, a line for each example");
  field_ += static_cast<char>(byte);
}

/// After the opening quote.
void DelimitedReader::read_quoted() {
  while (true) {
    const int byte = take();
    if (byte == kEnd)
      fail("a quote is opened and not closed", "a quote at the end of the value; a quote within is doubled");
    if (byte != '"') {
      append(byte);
    } else if (peek() == '"') {
      append(take());
    } else {
      break;
    }
  }
  if (peek() == '\r') take();
  const int byte = peek();
  if (byte != separator_ && !ends_line(byte))
    fail("text follows a closing quote", "a comma or the end of the line; a quote within a value is doubled");
}

bool DelimitedReader::next() {
  while (true) {
    if (peek() == kEnd) return false;
    line_ = next_line_;
    fields_.clear();
    record_bytes_ = 0;
    bool ended = false;
    while (!ended) {
      field_.clear();
      if (quotes_ && peek() == '"') {
        take();
        read_quoted();
      } else {
        while (peek() != separator_ && !ends_line(peek())) append(take());
        if (ends_line(peek()) && field_.ends_with('\r')) field_.pop_back();
      }
      ended = take() != separator_;
      if (fields_.size() == kMostFields)
        fail(fmt::format("a record of more than {} values", kMostFields), "a line for each example");
      fields_.push_back(field_);
    }
    if (fields_.size() > 1 || !fields_[0].empty()) return true;
  }
}

}  // namespace mtf
