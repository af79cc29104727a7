#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/export.h>

// Containers and pointers as members of options, for headers that every program includes.
namespace lockstep::detail {

/// A container whose making, copying and end are no inline functions. Declared as an `extern template`, they are made once, in
/// the library, and not again in each file that has options with such a member.
template <class Container>
class OutOfLine : public Container {
 public:
  using Container::Container;

  OutOfLine();
  OutOfLine(const OutOfLine& other);
  OutOfLine(OutOfLine&& other) noexcept;
  OutOfLine(const Container& other);      // NOLINT: implicit by design
  OutOfLine(Container&& other) noexcept;  // NOLINT: implicit by design
  OutOfLine& operator=(const OutOfLine& other);
  OutOfLine& operator=(OutOfLine&& other) noexcept;
  ~OutOfLine();
};

template <class Container>
OutOfLine<Container>::OutOfLine() = default;
template <class Container>
OutOfLine<Container>::OutOfLine(const OutOfLine& other) = default;
template <class Container>
OutOfLine<Container>::OutOfLine(OutOfLine&& other) noexcept = default;
template <class Container>
OutOfLine<Container>::OutOfLine(const Container& other) : Container(other) {}
template <class Container>
OutOfLine<Container>::OutOfLine(Container&& other) noexcept : Container(static_cast<Container&&>(other)) {}
template <class Container>
OutOfLine<Container>& OutOfLine<Container>::operator=(const OutOfLine& other) = default;
template <class Container>
OutOfLine<Container>& OutOfLine<Container>::operator=(OutOfLine&& other) noexcept = default;
template <class Container>
OutOfLine<Container>::~OutOfLine() = default;

/// A vector is made of a braced list there, too.
template <class T>
class OutOfLine<std::vector<T>> : public std::vector<T> {
 public:
  using std::vector<T>::vector;

  OutOfLine();
  OutOfLine(const OutOfLine& other);
  OutOfLine(OutOfLine&& other) noexcept;
  OutOfLine(const std::vector<T>& other);      // NOLINT: implicit by design
  OutOfLine(std::vector<T>&& other) noexcept;  // NOLINT: implicit by design
  OutOfLine(std::initializer_list<T> items);
  OutOfLine& operator=(const OutOfLine& other);
  OutOfLine& operator=(OutOfLine&& other) noexcept;
  ~OutOfLine();
};

template <class T>
OutOfLine<std::vector<T>>::OutOfLine() = default;
template <class T>
OutOfLine<std::vector<T>>::OutOfLine(const OutOfLine& other) = default;
template <class T>
OutOfLine<std::vector<T>>::OutOfLine(OutOfLine&& other) noexcept = default;
template <class T>
OutOfLine<std::vector<T>>::OutOfLine(const std::vector<T>& other) : std::vector<T>(other) {}
template <class T>
OutOfLine<std::vector<T>>::OutOfLine(std::vector<T>&& other) noexcept : std::vector<T>(std::move(other)) {}
template <class T>
OutOfLine<std::vector<T>>::OutOfLine(std::initializer_list<T> items) : std::vector<T>(items) {}
template <class T>
OutOfLine<std::vector<T>>& OutOfLine<std::vector<T>>::operator=(const OutOfLine& other) = default;
template <class T>
OutOfLine<std::vector<T>>& OutOfLine<std::vector<T>>::operator=(OutOfLine&& other) noexcept = default;
template <class T>
OutOfLine<std::vector<T>>::~OutOfLine() = default;

extern template class LOCKSTEP_API OutOfLine<std::vector<std::int64_t>>;
extern template class LOCKSTEP_API OutOfLine<std::vector<double>>;
extern template class LOCKSTEP_API OutOfLine<std::vector<std::string>>;
extern template class LOCKSTEP_API OutOfLine<std::vector<std::pair<std::int64_t, std::int64_t>>>;

}  // namespace lockstep::detail
