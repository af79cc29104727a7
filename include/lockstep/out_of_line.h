#pragma once

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

}  // namespace lockstep::detail
