#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {

/// What is counted from 0 by ids: ints, of which -1 stands for none.
template <class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(int size, const T& value = T()) : all_(static_cast<std::size_t>(size), value) {}

  int size() const { return static_cast<int>(all_.size()); }
  bool empty() const { return all_.empty(); }
  bool has(int id) const { return id >= 0 && id < size(); }

  decltype(auto) operator[](int id) { return all_[static_cast<std::size_t>(id)]; }
  decltype(auto) operator[](int id) const { return all_[static_cast<std::size_t>(id)]; }
  decltype(auto) back() { return all_.back(); }
  decltype(auto) back() const { return all_.back(); }

  /// Its id.
  int add(T value) {
    all_.push_back(std::move(value));
    return size() - 1;
  }
  void resize(int size) { all_.resize(static_cast<std::size_t>(size)); }
  void reserve(int size) { all_.reserve(static_cast<std::size_t>(size)); }

  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  auto rbegin() const { return all_.rbegin(); }
  auto rend() const { return all_.rend(); }

  std::vector<T>& list() { return all_; }
  const std::vector<T>& list() const { return all_; }

 private:
  std::vector<T> all_;
};

}  // namespace lockstep
