#include "engine/base/with_article.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

TEST(WithArticle, FollowsTheSpokenName) {
  for (const char* name :
       {"mBART", "XLM-RoBERTa", "M2M100", "OPT", "MPTForCausalLM", "ELECTRA", "ALBERT", "image"})
    EXPECT_EQ(with_article(name), std::string("an ") + name);
  for (const char* name :
       {"BERT", "RoBERTa", "BART", "Marian", "GPT2LMHeadModel", "T5", "ViT", "mpt", "ResNet"})
    EXPECT_EQ(with_article(name), std::string("a ") + name);
}

}  // namespace
}  // namespace mtf
