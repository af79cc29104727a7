#pragma once

#include <cstddef>
#include <memory>
#include <utility>

// What a class keeps out of its header.
namespace lockstep::detail {

/// The only owner of an object. (std::unique_ptr without its deleter, which costs a file that includes many headers more than
/// the classes themselves)
template <class T>
class Owned {
 public:
  template <class... Arguments>
  static Owned make(Arguments&&... arguments) {
    Owned made;
    made.object_ = new T(std::forward<Arguments>(arguments)...);
    return made;
  }

  Owned() = default;
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    T* const taken = other.release();
    reset();
    object_ = taken;
    return *this;
  }
  ~Owned() { delete object_; }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }
  void reset() { delete release(); }
  T* release() {
    T* const object = object_;
    object_ = nullptr;
    return object;
  }
  void swap(Owned& other) noexcept { std::swap(object_, other.object_); }

 private:
  T* object_ = nullptr;
};

/// An object that copies share, made by std::make_shared. Files that include its class make no std::shared_ptr of their own
/// for it.
template <class T>
class SharedObject {
 public:
  SharedObject() = default;
  template <class Made>
  SharedObject(std::shared_ptr<Made> made)  // NOLINT: implicit by design
      : object_(std::shared_ptr<T>(std::move(made))) {}

  T* get() const { return static_cast<T*>(const_cast<void*>(object_.get())); }
  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }
  bool operator==(const SharedObject& other) const { return object_ == other.object_; }
  explicit operator bool() const { return object_ != nullptr; }
  std::shared_ptr<T> pointer() const { return {object_, get()}; }

 private:
  std::shared_ptr<const void> object_;
};

}  // namespace lockstep::detail
