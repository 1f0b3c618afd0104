// Models that SentencePiece trains with options of its own, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mtf {

/// Returns the bytes of a .model file.
inline std::string library_model(std::vector<std::string> texts,
                                 std::unordered_map<std::string, std::string> options) {
  class Texts final : public sentencepiece::SentenceIterator {
   public:
    explicit Texts(std::vector<std::string> texts) : texts_(std::move(texts)) {}
    bool done() const override { return next_ == texts_.size(); }
    void Next() override { ++next_; }
    const std::string& value() const override { return texts_[next_]; }
    sentencepiece::util::Status status() const override { return {}; }

   private:
    std::vector<std::string> texts_;
    size_t next_ = 0;
  } iterator(std::move(texts));
  options.emplace("minloglevel", "3");
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

}  // namespace mtf
