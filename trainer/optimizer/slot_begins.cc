#include "trainer/optimizer/slot_begins.h"

#include "trainer/optimizer/slot_blocks.h"

namespace mtf {

bool has_begin(const Variable& variable) {
  return variable.kind == Variable::Kind::kSlot && !variable.name.ends_with(kSlotBlocksSuffix);
}

}  // namespace mtf
