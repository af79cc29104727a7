#include <memory>

#include <doctest/doctest.h>

#include <lockstep/backend/reusable_memory.h>

#include "engine/core/idle_slots.h"

namespace lockstep {
namespace {

class Counted final : public backend::ReusableMemory {
 public:
  explicit Counted(int& released) : released_(released) {}
  ~Counted() override { forget(); }
  void release() noexcept override { ++released_; }

 private:
  int& released_;
};

/// An object that goes back to where it came from when it ends, as a call's space gives its frame back.
struct Holder {
  IdleSlots<int, 2>* slots;
  explicit Holder(IdleSlots<int, 2>* from) : slots(from) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { slots->put(std::make_unique<int>(1)); }
};

}  // namespace

TEST_CASE("what is kept for reuse is released while it lives, wherever it stands among others") {
  int first = 0, middle = 0, last = 0;
  auto a = std::make_unique<Counted>(first);
  auto b = std::make_unique<Counted>(middle);
  auto c = std::make_unique<Counted>(last);
  backend::release_reusable_memory();
  CHECK(first > 0);
  CHECK(middle > 0);
  CHECK(last > 0);
  const int once = middle;
  b.reset();
  backend::release_reusable_memory();
  CHECK(first == 2 * once);
  CHECK(middle == once);
  CHECK(last == 2 * once);
  c.reset();
  a.reset();
  backend::release_reusable_memory();
  CHECK(first == 2 * once);
}

TEST_CASE("idle objects are released, those that others give back when they go among them") {
  IdleSlots<int, 2> parts;
  IdleSlots<Holder, 2> holders;
  IdleSlots<int, 2> later;
  holders.put(std::make_unique<Holder>(&parts));
  parts.put(std::make_unique<int>(2));
  later.put(std::make_unique<int>(3));
  backend::release_reusable_memory();
  CHECK(holders.take() == nullptr);
  CHECK(parts.take() == nullptr);
  CHECK(later.take() == nullptr);
}

}  // namespace lockstep
