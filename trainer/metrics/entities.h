// Entities in sentences whose words have tags, and how many of them are found, by the definition of CoNLL (conlleval).
//
//   EntityCounts counts;
//   counts.add({"B-PER", "I-PER", "O"}, {"B-PER", "O", "O"});   // the tags of a sentence, then those predicted
//   counts.f1()
//
// A tag is a letter and a type, I-PER, or O. B begins an entity, I goes on with it or begins one where none of its type
// goes before, E ends it, S is one of a single word: IOB1, IOB2 and IOBES are all read so.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace mtf {

struct Entity {
  int64_t begin = 0, end = 0;  ///< words [begin, end)
  std::string type;
  friend auto operator<=>(const Entity&, const Entity&) = default;
};

/// Returns the entities of a sentence in their order.
std::vector<Entity> entities_of(const std::vector<std::string>& tags);

/// An entity counts as found if begin, end and type are right.
class EntityCounts {
 public:
  /// Both have a tag for each word of one sentence.
  void add(const std::vector<std::string>& tags, const std::vector<std::string>& predicted);

  /// found / predicted, found / there, and their harmonic mean; 0 where the denominator is 0.
  double precision() const;
  double recall() const;
  double f1() const;

 private:
  int64_t found_ = 0, predicted_ = 0, there_ = 0;
};

}  // namespace mtf
