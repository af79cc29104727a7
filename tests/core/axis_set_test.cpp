#include <doctest/doctest.h>

#include <lockstep/types.h>

namespace lockstep {

TEST_CASE("axis sets are sets") {
  const AxisSet axes{"model", "batch", "model"};
  CHECK(axes.names() == std::vector<std::string>{"batch", "model"});
  CHECK(axes == AxisSet{"batch", "model"});
  CHECK(axes.size() == 2);
  CHECK_FALSE(axes.empty());
  CHECK(AxisSet().empty());
  CHECK(axes.contains("batch"));
  CHECK_FALSE(axes.contains("time"));
  CHECK(axes.contains(AxisSet{"model"}));
  CHECK(axes.contains(AxisSet{}));
  CHECK_FALSE(AxisSet{"model"}.contains(axes));
  CHECK(AxisSet{"model"}.joined({"batch"}) == axes);
  CHECK(axes.without({"batch", "time"}) == AxisSet{"model"});
  CHECK(AxisSet{}.joined(axes) == axes);
  CHECK(axes.without(axes).empty());
  CHECK(axes.without(axes) == AxisSet{});
  CHECK(to_string(axes) == "batch,model");
  CHECK(to_string(AxisSet{"a b"}) == "\"a b\"");
}

TEST_CASE("array types print and compare") {
  const ArrayType type{float32, {784, 512}, {"batch"}};
  CHECK(to_string(type) == "f32[784,512]{batch}");
  CHECK(to_string(ArrayType{bool_, {}, {}}) == "bool[]");
  CHECK(type.size() == 784 * 512);
  CHECK(type.nbytes() == 784 * 512 * 4);
  CHECK(type != ArrayType{float32, {784, 512}, {}});
  CHECK(type != ArrayType{float16, {784, 512}, {"batch"}});
  CHECK(type != ArrayType{float32, {784, 511}, {"batch"}});
  CHECK(type == ArrayType{float32, {784, 512}, {"batch"}});
}

}  // namespace lockstep
