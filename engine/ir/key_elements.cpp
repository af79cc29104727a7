#include "engine/ir/key_elements.h"

#include <set>

#include <lockstep/error.h>

namespace lockstep::ir {

KeyElements new_keys(const ArrayType& type) {
  KeyElements keys;
  if (type.dtype != DType::key || type.size() > most_keys) return keys;
  for (std::int64_t i = 0; i < type.size(); ++i) keys.push_back(std::make_shared<KeyElement>());
  return keys;
}

void use_keys(const KeyElements& keys, const std::string& by) {
  std::set<KeyElement*> distinct;
  for (const auto& key : keys) distinct.insert(key.get());
  for (KeyElement* key : distinct) {
    if (!key->used_by.empty()) {
      throw KeyReuseError("key reuse: " + by + " uses a random key that " + key->used_by +
                          " has used before, so both see the same random bits. Give each a key of its own: split the "
                          "key first, or fold another number into it for each use; random::clone(key) says that equal "
                          "numbers are meant.");
    }
    key->used_by = by;
  }
}

std::string first_use(const KeyElements& keys) {
  for (const auto& key : keys) {
    if (!key->used_by.empty()) return key->used_by;
  }
  return {};
}

}  // namespace lockstep::ir
