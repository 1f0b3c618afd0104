#include "data/labelled/token_rows.h"

#include <algorithm>

#include "data/text/lowercase.h"
#include "data/worker_pool.h"
#include "engine/base/check.h"

namespace mtf {

void TokenRows::add(const TokenRow& row) {
  MTF_CHECK(std::ssize(row.ids) <= length_, "{} tokens in a row of {}", row.ids.size(), length_);
  ids_.insert(ids_.end(), row.ids.begin(), row.ids.end());
  begin_.push_back(std::ssize(ids_));
  second_.push_back(static_cast<int32_t>(row.second));
  pairs_ = pairs_ || row.second < std::ssize(row.ids);
}

std::span<const int32_t> TokenRows::ids(int64_t row) const {
  MTF_CHECK(row >= 0 && row < rows(), "row {} of {}", row, rows());
  const auto at = static_cast<size_t>(row);
  return std::span(ids_).subspan(static_cast<size_t>(begin_[at]),
                                 static_cast<size_t>(begin_[at + 1] - begin_[at]));
}

int64_t TokenRows::bytes_in_memory() const {
  return std::ssize(ids_) * 4 + std::ssize(begin_) * 8 + std::ssize(second_) * 4;
}

std::vector<Feature> TokenRows::features(int64_t length, int64_t vocabulary, bool pairs) {
  const Shape shape{{"length", length}};
  return {
      {"inputs", shape, DType::kInt32, vocabulary},
      {"inputs_segmentation", shape, DType::kInt32},
      {.name = "inputs_type", .shape = shape, .dtype = DType::kInt32, .vocabulary = 2, .one_text = !pairs}};
}

void TokenRows::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  fill_entries(rows, slices[0], length_, [this](int64_t row, int64_t i) {
    const std::span<const int32_t> tokens = ids(row);
    return i < std::ssize(tokens) ? tokens[static_cast<size_t>(i)] : kPadId;
  });
  fill_entries(rows, slices[1], length_,
               [this](int64_t row, int64_t i) { return i < std::ssize(ids(row)) ? 1 : 0; });
  fill_entries(rows, slices[2], length_, [this](int64_t row, int64_t i) {
    return i >= second(row) && i < std::ssize(ids(row)) ? 1 : 0;
  });
}

void fill_entries(std::span<const int64_t> rows, const FeatureSlice& slice, int64_t length,
                  const std::function<int32_t(int64_t row, int64_t i)>& value) {
  const int64_t begin = slice.box ? slice.box->begin[0] : 0;
  const int64_t count = slice.box ? slice.box->shape[0].size : length;
  auto* output = reinterpret_cast<int32_t*>(slice.output);
  for (const int64_t row : rows) {
    for (int64_t i = begin; i < begin + count; ++i) *output++ = value(row, i);
  }
}

const Vocabulary& row_vocabulary(const SourceContext& context) {
  if (const auto& vocabulary = context.text.vocabularies.inputs) return *vocabulary;
  throw Error(ErrorKind::kConfig, context.mark, "texts need `data.vocabulary`",
              "for example {type: sentencepiece, size: 8000}, or bytes");
}

int64_t row_length(const SourceContext& context) {
  if (context.text.lengths.inputs > 0) return context.text.lengths.inputs;
  throw Error(ErrorKind::kConfig, context.mark, "texts need `data.sequence_length`",
              "tokens of a row, such as 128");
}

void encode_in_parallel(const SourceContext& context, int64_t count,
                        const std::function<void(int64_t)>& encode) {
  constexpr int64_t kChunk = 256;
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  WorkerPool pool(std::max(1, context.threads));
  pool.run(chunks, [&](int64_t chunk) {
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) encode(i);
  });
}

std::vector<int32_t> encode_text(const SourceContext& context, std::string_view text) {
  const Vocabulary& vocabulary = row_vocabulary(context);
  return context.text.lowercase ? vocabulary.encode(to_lower_case(text)) : vocabulary.encode(text);
}

}  // namespace mtf
