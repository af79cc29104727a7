#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include <lockstep/backend/threefry.h>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/moves/moves.h"
#include "backends/cpu/random/threefry_blocks.h"

namespace lockstep::backend::cpu::kernels {

namespace {

using Key = std::array<std::uint32_t, 2>;

/// Order of the counters over the drawn shape: element (o, c, i) has counter first + (c * outer + o) * inner + i. Without a
/// cut the outer extent is 1.
struct Order {
  std::int64_t outer = 1;
  std::int64_t cut = 1;
  std::int64_t inner = 1;

  std::int64_t size() const { return outer * cut * inner; }
};

Order order_of(const Attrs& attrs) {
  const Shape shape(attrs.get<std::vector<std::int64_t>>("shape"));
  if (!attrs.has("cut")) return {1, 1, shape.size()};
  const auto cut = static_cast<int>(attrs.get<std::int64_t>("cut"));
  Order order{1, shape[cut], 1};
  for (int d = 0; d < cut; ++d) order.outer *= shape[d];
  for (int d = cut + 1; d < shape.rank(); ++d) order.inner *= shape[d];
  return order;
}

/// Counters of elements position, position + 1, ...
void fill_counters(const Order& order, std::uint64_t first, std::int64_t position, std::span<std::uint64_t> counters) {
  if (order.outer == 1) {
    for (std::size_t i = 0; i < counters.size(); ++i) counters[i] = first + static_cast<std::uint64_t>(position) + i;
    return;
  }
  std::int64_t i = position % order.inner;
  std::int64_t c = position / order.inner % order.cut;
  std::int64_t o = position / order.inner / order.cut;
  for (std::uint64_t& counter : counters) {
    counter = first + static_cast<std::uint64_t>((c * order.outer + o) * order.inner + i);
    if (++i < order.inner) continue;
    i = 0;
    if (++c < order.cut) continue;
    c = 0;
    ++o;
  }
}

/// A word of T's width, or a key.
template <class T>
T drawn_element(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, Key>) {
    return {static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(bits)};
  } else {
    return static_cast<T>(threefry_draw(bits, static_cast<int>(sizeof(T)) * 8));
  }
}

/// Block by block, so that counters and words stay in the nearest cache.
template <class T>
void draw_in_order(const Order& order, Key key, std::uint64_t first, T* out) {
  constexpr std::int64_t block = 512;
  std::array<std::uint64_t, block> counters;
  const std::int64_t size = order.size();
  for (std::int64_t position = 0; position < size; position += block) {
    const auto count = static_cast<std::size_t>(std::min(block, size - position));
    fill_counters(order, first, position, std::span(counters).first(count));
    threefry_blocks(key, counters.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      out[position + static_cast<std::int64_t>(i)] = drawn_element<T>(counters[i]);
    }
  }
}

template <class T>
void draw_all(const Order& order, const KernelArguments& arguments) {
  const ArrayView& keys = arguments.inputs[0];
  const Key* key = static_cast<const Key*>(keys.data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  std::uint64_t first = 0;
  if (arguments.inputs.size() > 1) {
    first = static_cast<std::uint64_t>(integer_at(arguments.inputs[1], 0)) * static_cast<std::uint64_t>(order.size());
  }
  for (std::int64_t k = 0; k < keys.shape.size(); ++k) draw_in_order(order, key[k], first, out + k * order.size());
}

using RunDraws = void (*)(const Order&, const KernelArguments&);

RunDraws run_of_width(std::int64_t width) {
  switch (width) {
    case 8:
      return draw_all<std::uint8_t>;
    case 16:
      return draw_all<std::uint16_t>;
    case 32:
      return draw_all<std::uint32_t>;
    default:
      return draw_all<std::uint64_t>;
  }
}

std::unique_ptr<Kernel> make_byte_copy() {
  return make_function_kernel([](const KernelArguments& arguments) {
    const ArrayView& x = arguments.inputs[0];
    const auto nbytes = static_cast<std::size_t>(x.shape.size()) * size_of(x.dtype);
    if (nbytes > 0) std::memcpy(arguments.outputs[0].data, x.data, nbytes);
  });
}

}  // namespace

std::unique_ptr<Kernel> random_bits(const KernelRequest& request) {
  return make_function_kernel(
      [run = run_of_width(request.attrs.get<std::int64_t>("width")),
       order = order_of(request.attrs)](const KernelArguments& arguments) { run(order, arguments); });
}

std::unique_ptr<Kernel> random_split(const KernelRequest& request) {
  return make_function_kernel(
      [order = order_of(request.attrs)](const KernelArguments& arguments) { draw_all<Key>(order, arguments); });
}

std::unique_ptr<Kernel> random_fold_in(const KernelRequest& /*request*/) {
  return make_function_kernel([](const KernelArguments& arguments) {
    const Key* keys = static_cast<const Key*>(arguments.inputs[0].data);
    const std::uint32_t* data = static_cast<const std::uint32_t*>(arguments.inputs[1].data);
    Key* out = static_cast<Key*>(arguments.outputs[0].data);
    const std::int64_t size = arguments.outputs[0].shape.size();
    for (std::int64_t i = 0; i < size; ++i) out[i] = threefry2x32(keys[i], {0, data[i]});
  });
}

std::unique_ptr<Kernel> random_wrap(const KernelRequest& /*request*/) { return make_byte_copy(); }
std::unique_ptr<Kernel> random_unwrap(const KernelRequest& /*request*/) { return make_byte_copy(); }

}  // namespace lockstep::backend::cpu::kernels
