#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <lockstep/export.h>
#include <lockstep/tree.h>

// How a struct says which members it has as a tree: see tree.h.
namespace lockstep::detail {

/// How many members LOCKSTEP_TREE takes.
inline constexpr std::size_t most_members = 128;

/// How many names "a, b, c" lists.
constexpr std::size_t count_names(std::string_view list) {
  std::size_t count = list.empty() ? 0 : 1;
  for (const char c : list) count += c == ',' ? 1 : 0;
  return count;
}

/// The members of a struct as keys of a dict, and where each stands among the sorted keys.
class LOCKSTEP_API MemberKeys {
 public:
  MemberKeys(const char* const* names, std::size_t count);
  MemberKeys(const MemberKeys&) = delete;
  MemberKeys& operator=(const MemberKeys&) = delete;
  ~MemberKeys();

  const TreeKeys& keys() const { return keys_; }
  const std::size_t* places() const { return places_; }

 private:
  TreeKeys keys_;
  std::size_t* places_;
};

/// A struct declared with LOCKSTEP_TREE as a tree. Its functions stand outside of the class, so that they are no inline ones:
/// those of the library's own structs are made once, in it.
template <class T>
class StructTree {
 public:
  static Tree to_tree(const T& value);
  /// Members are moved out.
  static Tree to_tree(T&& value);
  static T from_tree(Tree tree);

 private:
  static const MemberKeys& member_keys(T& value);
};

template <class T>
Tree StructTree<T>::to_tree(const T& value) {
  return to_tree(T(value));
}
template <class T>
Tree StructTree<T>::to_tree(T&& value) {
  const MemberKeys& members = member_keys(value);
  Tree tree = Tree::blank_dict(members.keys());
  Tree* const items = tree.own_items().data();
  const std::size_t* place = members.places();
  lockstep_visit_members(value, [&](const char*, auto& member) {
    items[*place++] = TreeTraits<std::remove_cvref_t<decltype(member)>>::to_tree(std::move(member));
  });
  check_depth(tree);
  return tree;
}
template <class T>
T StructTree<T>::from_tree(Tree tree) {
  T value{};
  const MemberKeys& members = member_keys(value);
  if (tree.is_dict_of(members.keys())) {
    Tree* const items = tree.own_items().data();
    const std::size_t* place = members.places();
    lockstep_visit_members(value, [&](const char*, auto& member) {
      member = TreeTraits<std::remove_cvref_t<decltype(member)>>::from_tree(std::move(items[*place++]));
    });
  } else {
    lockstep_visit_members(value, [&](const char* name, auto& member) {
      member = TreeTraits<std::remove_cvref_t<decltype(member)>>::from_tree(tree.at(name));
    });
  }
  return value;
}
template <class T>
const MemberKeys& StructTree<T>::member_keys(T& value) {
  static const MemberKeys keys = [&] {
    const char* names[most_members] = {};
    std::size_t count = 0;
    lockstep_visit_members(value, [&](const char* name, auto&) { names[count++] = name; });
    return MemberKeys(names, count);
  }();
  return keys;
}

}  // namespace lockstep::detail

// A member that is no name, of which LOCKSTEP_TREE adds so many that all parameters below have one, is left out.
// clang-format off
#define LOCKSTEP_TREE_ONE(...) __VA_OPT__(visit(#__VA_ARGS__, value.__VA_ARGS__);)
#define LOCKSTEP_TREE_EIGHT(a, b, c, d, e, f, g, h) \
  LOCKSTEP_TREE_ONE(a) LOCKSTEP_TREE_ONE(b) LOCKSTEP_TREE_ONE(c) LOCKSTEP_TREE_ONE(d) \
  LOCKSTEP_TREE_ONE(e) LOCKSTEP_TREE_ONE(f) LOCKSTEP_TREE_ONE(g) LOCKSTEP_TREE_ONE(h)
#define LOCKSTEP_TREE_MEMBERS( \
    m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, \
    m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, \
    m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62, m63, m64, \
    m65, m66, m67, m68, m69, m70, m71, m72, m73, m74, m75, m76, m77, m78, m79, m80, m81, m82, m83, m84, m85, \
    m86, m87, m88, m89, m90, m91, m92, m93, m94, m95, m96, m97, m98, m99, m100, m101, m102, m103, m104, m105, \
    m106, m107, m108, m109, m110, m111, m112, m113, m114, m115, m116, m117, m118, m119, m120, m121, m122, m123, \
    m124, m125, m126, m127, ...) \
  LOCKSTEP_TREE_EIGHT(m0, m1, m2, m3, m4, m5, m6, m7) \
  LOCKSTEP_TREE_EIGHT(m8, m9, m10, m11, m12, m13, m14, m15) \
  LOCKSTEP_TREE_EIGHT(m16, m17, m18, m19, m20, m21, m22, m23) \
  LOCKSTEP_TREE_EIGHT(m24, m25, m26, m27, m28, m29, m30, m31) \
  LOCKSTEP_TREE_EIGHT(m32, m33, m34, m35, m36, m37, m38, m39) \
  LOCKSTEP_TREE_EIGHT(m40, m41, m42, m43, m44, m45, m46, m47) \
  LOCKSTEP_TREE_EIGHT(m48, m49, m50, m51, m52, m53, m54, m55) \
  LOCKSTEP_TREE_EIGHT(m56, m57, m58, m59, m60, m61, m62, m63) \
  LOCKSTEP_TREE_EIGHT(m64, m65, m66, m67, m68, m69, m70, m71) \
  LOCKSTEP_TREE_EIGHT(m72, m73, m74, m75, m76, m77, m78, m79) \
  LOCKSTEP_TREE_EIGHT(m80, m81, m82, m83, m84, m85, m86, m87) \
  LOCKSTEP_TREE_EIGHT(m88, m89, m90, m91, m92, m93, m94, m95) \
  LOCKSTEP_TREE_EIGHT(m96, m97, m98, m99, m100, m101, m102, m103) \
  LOCKSTEP_TREE_EIGHT(m104, m105, m106, m107, m108, m109, m110, m111) \
  LOCKSTEP_TREE_EIGHT(m112, m113, m114, m115, m116, m117, m118, m119) \
  LOCKSTEP_TREE_EIGHT(m120, m121, m122, m123, m124, m125, m126, m127)
#define LOCKSTEP_TREE_NO_MEMBERS \
  , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , \
  , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , , \
  , , , , , , , , , , , , , , , , ,
// clang-format on
// So that the commas above are counted.
#define LOCKSTEP_TREE_PADDED(...) LOCKSTEP_TREE_MEMBERS(__VA_ARGS__)

/// Makes a struct of arrays and trees usable wherever a tree is: LOCKSTEP_TREE(Params, w, b) after its definition, in its
/// namespace. At most 128 members.
#define LOCKSTEP_TREE(Type, ...)                                                                                  \
  static_assert(                                                                                                  \
      ::lockstep::detail::count_names(#__VA_ARGS__) <= ::lockstep::detail::most_members,                          \
      "LOCKSTEP_TREE lists at most 128 members: put some of them into a struct with a LOCKSTEP_TREE of its own"); \
  template <class Visitor>                                                                                        \
  void lockstep_visit_members([[maybe_unused]] Type& value, [[maybe_unused]] Visitor&& visit) {                   \
    LOCKSTEP_TREE_PADDED(__VA_ARGS__, LOCKSTEP_TREE_NO_MEMBERS)                                                   \
  }                                                                                                               \
  static_assert(true, "")
