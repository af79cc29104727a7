#include "engine/executable/process_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/round_up.h>

#include "engine/core/fold_tree.h"
#include "engine/executable/joined_views.h"
#include "engine/processes/exchange.h"

namespace lockstep::executable {
namespace {

/// Of a process in a piece. In windows an exchange begins with a copy, which should find its bytes in the cache again; a
/// message has to be long to be worth its way.
constexpr std::size_t chunk_bytes_in_windows = std::size_t{512} << 10;
constexpr std::size_t chunk_bytes_in_messages = std::size_t{4} << 20;
/// What two processes write into their windows between two meetings.
constexpr std::size_t bytes_in_pair = std::size_t{2} << 20;
/// Chunks begin where a vector of any dtype may.
constexpr std::int64_t granule = 64;

std::span<const std::byte> bytes_of(const void* data, std::size_t n) {
  return {static_cast<const std::byte*>(data), n};
}
std::span<std::byte> writable(void* data, std::size_t n) { return {static_cast<std::byte*>(data), n}; }

std::int64_t longest_chunk(DType dtype, const Processes& processes) {
  const std::size_t bytes = processes.has_windows() ? chunk_bytes_in_windows : chunk_bytes_in_messages;
  return static_cast<std::int64_t>(bytes / size_of(dtype));
}

}  // namespace

FoldCut FoldCut::of_whole(std::int64_t elements, DType dtype, const Processes& processes) {
  FoldCut cut{.dtype = dtype, .processes = processes.size(), .elements = elements};
  const std::int64_t whole = round_up(elements, granule);
  cut.is_gathered = cut.bytes(whole) <= processes::FirstMessages::room;
  const std::int64_t longest = longest_chunk(dtype, processes);
  const std::int64_t chunks = cut.processes;
  cut.pieces = cut.is_gathered ? 1 : ceil_div(elements, longest * chunks);
  const std::int64_t rest = elements - (cut.pieces - 1) * longest * chunks;
  cut.last_chunk = cut.is_gathered ? whole : round_up(ceil_div(rest, chunks), granule);
  cut.chunk = cut.pieces > 1 ? longest : cut.last_chunk;
  return cut;
}

FoldCut FoldCut::of_blocks(std::int64_t elements, DType dtype, const Processes& processes) {
  FoldCut cut{.dtype = dtype, .processes = processes.size(), .elements = elements};
  const std::int64_t longest = longest_chunk(dtype, processes);
  cut.pieces = std::max<std::int64_t>(1, ceil_div(elements, longest));
  cut.last_chunk = elements - (cut.pieces - 1) * longest;
  cut.chunk = cut.pieces > 1 ? longest : cut.last_chunk;
  return cut;
}

namespace {

/// S of what lies at leaf(p), of `slot` bytes or less. `temporaries` have room for two of them a level of the tree.
void fold_over_processes(int processes, const Kernel& combine, const ArrayType& type, const ProcessFold::Leaf& leaf,
                         std::byte* result, std::byte* temporaries, std::size_t slot, void* scratch) {
  const auto view = [&](const std::byte* data) {
    return contiguous_view(const_cast<std::byte*>(data), type.dtype, type.shape);
  };
  const auto at_leaf = [&](std::int64_t p, TreeNode) { return leaf(static_cast<int>(p)); };
  const auto combined = [&](const std::byte* left, const std::byte* right, TreeNode node) -> const std::byte* {
    const auto number = static_cast<std::size_t>(2 * node.level + node.side);
    std::byte* const sum = node.level == 0 ? result : temporaries + number * slot;
    const std::array<ArrayView, 2> inputs = {view(left), view(right)};
    const std::array<ArrayView, 1> outputs = {view(sum)};
    combine.run({inputs, outputs, scratch});
    return sum;
  };
  fold_tree<const std::byte*>(0, processes, at_leaf, combined);
}

/// Of two temporaries a level.
std::size_t slots(int processes) {
  std::size_t levels = 0;
  while ((1 << levels) < processes) ++levels;
  return 2 * (levels + 1);
}

}  // namespace

// ---- what all have ---------------------------------------------------------------------------------------------------

ProcessFold::ProcessFold(std::shared_ptr<Processes> processes, const FoldCut& cut, const ChunkKernels& kernels)
    : ProcessFold(processes, cut, kernels, cut.is_gathered || !processes->has_windows()) {}

ProcessFold::ProcessFold(std::shared_ptr<Processes> processes, const FoldCut& cut, const ChunkKernels& kernels,
                         bool has_messages)
    : processes_(std::move(processes)), cut_(cut), kernels_(kernels), has_messages_(has_messages) {}

std::size_t ProcessFold::temporaries_bytes() const {
  return slots(cut_.processes) * round_up(chunk_bytes(), buffer_alignment);
}

std::size_t ProcessFold::messages_bytes() const {
  return round_up(chunk_bytes() * static_cast<std::size_t>(cut_.processes), buffer_alignment);
}

std::size_t ProcessFold::scratch_bytes() const {
  const std::size_t own = std::max(kernels_[0]->scratch_bytes(), kernels_[1]->scratch_bytes());
  return temporaries_bytes() + (has_messages_ ? 2 * messages_bytes() : 0) + own;
}

std::span<std::byte> ProcessFold::messages(const KernelArguments& arguments, int side) const {
  auto* const first = static_cast<std::byte*>(arguments.scratch) + temporaries_bytes();
  return {first + static_cast<std::size_t>(side) * messages_bytes(),
          chunk_bytes() * static_cast<std::size_t>(cut_.processes)};
}

// Two, which take turns: a piece is written while others still read the one before.
std::byte* ProcessFold::window(int process, std::int64_t turn) const {
  const std::size_t bytes = chunk_bytes() * static_cast<std::size_t>(cut_.processes);
  return processes_->window(process, static_cast<int>(turn % 2), bytes).data();
}

std::byte* ProcessFold::sums_window(int process, std::int64_t turn) const {
  return processes_->window(process, 2 + static_cast<int>(turn % 2), chunk_bytes()).data();
}

namespace {

/// In front of the first of two windows.
struct TurnHead {
  std::uint64_t count = 0;  ///< Of calls that took one.
  std::uint64_t call = 0;   ///< The last of them.
};
static_assert(sizeof(TurnHead) <= ProcessFold::window_head);

}  // namespace

// The head of the first one has a count, and the call that it was last raised in. Where a window is written again, there
// was a call between, in which this process waited for what all others had begun in it: they had read what came before.
int ProcessFold::turn_of_call(const Processes& processes, int number, std::size_t bytes) {
  TurnHead head;
  std::byte* const at = processes.window(processes.rank(), number, window_head + bytes).data();
  std::memcpy(&head, at, sizeof(head));
  if (head.call != processes.calls()) {
    head.call = processes.calls();
    ++head.count;
    std::memcpy(at, &head, sizeof(head));
  }
  return static_cast<int>(head.count % 2);
}

// A call that throws before it has told the others takes no turn: the next one writes over what nobody was told of.
int ProcessFold::next_turn(const Processes& processes, int number, std::size_t bytes) {
  TurnHead head;
  std::memcpy(&head, processes.window(processes.rank(), number, window_head + bytes).data(), sizeof(head));
  return static_cast<int>((head.count + (head.call == processes.calls() ? 0 : 1)) % 2);
}

void ProcessFold::fold(std::int64_t piece, const Leaf& leaf, std::byte* result,
                       const KernelArguments& arguments) const {
  auto* const temporaries = static_cast<std::byte*>(arguments.scratch);
  void* const own = temporaries + temporaries_bytes() + (has_messages_ ? 2 * messages_bytes() : 0);
  fold_over_processes(cut_.processes, *kernels_.at(piece + 1 < cut_.pieces ? 0 : 1),
                      {cut_.dtype, Shape{cut_.chunk_of(piece)}, {}}, leaf, result, temporaries,
                      round_up(chunk_bytes(), buffer_alignment), own);
}

// ---- to all ----------------------------------------------------------------------------------------------------------

void FoldAcrossProcesses::run(const KernelArguments& arguments) const {
  if (cut().is_gathered) return fold_gathered(arguments);
  if (processes().has_windows()) return fold_windows(arguments);
  fold_messages(arguments);
}

void FoldAcrossProcesses::fold_gathered(const KernelArguments& arguments) const {
  const std::size_t all = cut().bytes(cut().elements);
  std::byte* const own = messages(arguments, 0).data();
  const std::span<std::byte> received = messages(arguments, 1);
  copy_in(arguments.inputs, 0, all, own);
  std::memset(own + all, 0, chunk_bytes() - all);
  processes().all_gather(bytes_of(own, chunk_bytes()), received, {"fold: gather of parts", cut().dtype});
  const auto leaf = [&](int p) { return received.data() + static_cast<std::size_t>(p) * chunk_bytes(); };
  fold(0, leaf, own, arguments);
  copy_out(own, 0, all, arguments.outputs);
}

void FoldAcrossProcesses::fold_messages(const KernelArguments& arguments) const {
  const auto processes = static_cast<std::size_t>(cut().processes);
  for (std::int64_t k = 0; k < cut().pieces; ++k) {
    const std::size_t chunk = cut().bytes(cut().chunk_of(k));
    const std::size_t first = static_cast<std::size_t>(k) * processes * chunk_bytes();
    const std::size_t last = std::min(first + processes * chunk, cut().bytes(cut().elements));
    const std::span<std::byte> sent = messages(arguments, 0).first(processes * chunk);
    const std::span<std::byte> received = messages(arguments, 1).first(processes * chunk);
    copy_in(arguments.inputs, first, last, sent.data());
    std::memset(sent.data() + (last - first), 0, sent.size() - (last - first));
    this->processes().all_to_all(sent, received, {"fold: exchange of parts", cut().dtype});
    std::byte* const own = static_cast<std::byte*>(arguments.scratch);
    fold(
        k, [&](int p) { return received.data() + static_cast<std::size_t>(p) * chunk; }, own, arguments);
    this->processes().all_gather(bytes_of(own, chunk), sent, {"fold: gather of sums", cut().dtype});
    copy_out(sent.data(), first, last, arguments.outputs);
  }
}

// One meeting a piece: behind it the parts of this piece can be read, and the sums of the one before.
void FoldAcrossProcesses::fold_windows(const KernelArguments& arguments) const {
  const auto processes = static_cast<std::size_t>(cut().processes);
  const std::size_t all = cut().bytes(cut().elements);
  const int rank = this->processes().rank();
  for (std::int64_t k = 0; k <= cut().pieces; ++k) {
    const std::size_t first = static_cast<std::size_t>(k) * processes * chunk_bytes();
    const std::size_t chunk = cut().bytes(cut().chunk_of(k));
    if (k < cut().pieces) {
      copy_in(arguments.inputs, first, std::min(first + processes * chunk, all), window(rank, k));
    }
    this->processes().meet({"fold: parts in windows", cut().dtype}, k < cut().pieces ? processes * chunk : 0);
    if (k > 0) {
      const std::size_t before = cut().bytes(cut().chunk_of(k - 1));
      const std::size_t begin = first - processes * chunk_bytes();
      for (std::size_t p = 0; p < processes; ++p) {
        const std::size_t from = std::min(begin + p * before, all);
        copy_out(sums_window(static_cast<int>(p), k - 1), from, std::min(from + before, all), arguments.outputs);
      }
    }
    if (k == cut().pieces) break;
    const auto leaf = [&](int p) { return window(p, k) + static_cast<std::size_t>(rank) * chunk; };
    fold(k, leaf, sums_window(rank, k), arguments);
  }
}

// ---- two processes ---------------------------------------------------------------------------------------------------

FoldPair::FoldPair(std::shared_ptr<Processes> processes, DType dtype, std::vector<Tile> tiles)
    : processes_(std::move(processes)), dtype_(dtype), tiles_(std::move(tiles)) {}

std::size_t FoldPair::scratch_bytes() const {
  std::size_t most = 0;
  for (const Tile& tile : tiles_) most = std::max(most, tile.kernel->scratch_bytes());
  return most;
}

// A window is written again at the next but one time that this process waits for the other: at the one between that has
// come too, and has read it.
void FoldPair::run(const KernelArguments& arguments) const {
  const int rank = processes_->rank();
  const std::size_t all = tiles_.back().window + bytes(tiles_.back());
  for (std::size_t first = 0, last = 0; first < tiles_.size(); first = last) {
    const std::size_t begin = tiles_[first].window;
    while (last < tiles_.size() && tiles_[last].window + bytes(tiles_[last]) <= begin + bytes_in_pair) ++last;
    const auto turn = static_cast<int>(processes_->meetings() % 2);
    const std::size_t end = last == tiles_.size() ? all : tiles_[last].window;
    copy_in(arguments.inputs, begin, end, processes_->window(rank, turn, end - begin).data());
    processes_->meet({"fold: parts in windows", dtype_}, end - begin);
    std::byte* const others = processes_->window(1 - rank, turn, end - begin).data();
    for (std::size_t i = first; i < last; ++i) {
      const Tile& tile = tiles_[i];
      const Shape shape{tile.elements};
      const auto view = [&](void* data) { return contiguous_view(data, dtype_, shape); };
      std::byte* const own = static_cast<std::byte*>(arguments.inputs[tile.operand].data) + tile.first;
      std::byte* const other = others + (tile.window - begin);
      const std::array<ArrayView, 2> inputs = {view(rank == 0 ? own : other), view(rank == 0 ? other : own)};
      const std::array<ArrayView, 1> sums = {
          view(static_cast<std::byte*>(arguments.outputs[tile.operand].data) + tile.first)};
      tile.kernel->run({inputs, sums, arguments.scratch});
    }
  }
}

// ---- where it lies in windows ----------------------------------------------------------------------------------------

namespace {

/// What PutIntoWindow gives, as int64.
class GivenByPut {
 public:
  explicit GivenByPut(const ArrayView& view, int processes)
      : at_(static_cast<const std::byte*>(view.data)), processes_(static_cast<std::size_t>(processes)) {}
  std::uint64_t number() const { return read<std::uint64_t>(0); }
  std::byte* window(int process) const { return read<std::byte*>(1 + static_cast<std::size_t>(process)); }
  /// Where an operand lies in this process.
  std::byte* here(std::size_t operand) const { return read<std::byte*>(1 + processes_ + operand); }

  template <class T>
  static void write(const ArrayView& view, std::size_t number, T value) {
    static_assert(sizeof(T) == sizeof(std::int64_t));
    std::memcpy(static_cast<std::byte*>(view.data) + number * sizeof(T), &value, sizeof(T));
  }

 private:
  template <class T>
  T read(std::size_t number) const {
    T value{};
    std::memcpy(&value, at_ + number * sizeof(T), sizeof(T));
    return value;
  }

  const std::byte* at_;
  std::size_t processes_;
};

}  // namespace

std::byte* PutIntoWindow::begin_of_window(const Processes& processes, std::size_t all) {
  const int turn = ProcessFold::next_turn(processes, ProcessFold::parts_window, all);
  const std::size_t bytes = ProcessFold::window_head + all;
  return processes.window(processes.rank(), ProcessFold::parts_window + turn, bytes).data() + ProcessFold::window_head;
}

void PutIntoWindow::run(const KernelArguments& arguments) const {
  const int window =
      ProcessFold::parts_window + ProcessFold::turn_of_call(*processes_, ProcessFold::parts_window, all_);
  const auto begin = [&](int process) {
    return processes_->window(process, window, ProcessFold::window_head + all_).data() + ProcessFold::window_head;
  };
  std::byte* const own = begin(processes_->rank());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ArrayView& view = arguments.inputs[i];
    if (view.data != own + places_[i]) std::memcpy(own + places_[i], view.data, nbytes(view));
  }
  const ArrayView& given = arguments.outputs[0];
  std::size_t next = 0;
  GivenByPut::write(given, next++,
                    processes_->start_meet({"fold: parts in windows", dtype_}, nbytes(arguments.inputs)));
  for (int p = 0; p < processes_->size(); ++p) GivenByPut::write(given, next++, begin(p));
  for (const ArrayView& view : arguments.inputs) GivenByPut::write(given, next++, view.data);
}

TileFold::TileFold(int processes, DType dtype, std::int64_t elements, const Kernel* combine)
    : processes_(processes), dtype_(dtype), elements_(elements), combine_(combine) {}

namespace {

/// Of two processes the one sum is the result.
std::size_t temporaries_bytes_of_tile(int processes, std::size_t bytes) {
  return processes == 2 ? 0 : slots(processes) * round_up(bytes, buffer_alignment);
}

}  // namespace

std::size_t TileFold::scratch_bytes() const {
  const std::size_t bytes = static_cast<std::size_t>(elements_) * size_of(dtype_);
  return temporaries_bytes_of_tile(processes_, bytes) + combine_->scratch_bytes();
}

void TileFold::run(const ProcessFold::Leaf& leaf, std::byte* result, void* scratch) const {
  const std::size_t bytes = static_cast<std::size_t>(elements_) * size_of(dtype_);
  auto* const temporaries = static_cast<std::byte*>(scratch);
  fold_over_processes(processes_, *combine_, {dtype_, Shape{elements_}, {}}, leaf, result, temporaries,
                      round_up(bytes, buffer_alignment), temporaries + temporaries_bytes_of_tile(processes_, bytes));
}

void FoldWithWindow::run(const KernelArguments& arguments) const {
  const GivenByPut given(arguments.inputs[1], processes_->size());
  processes_->finish(given.number());
  auto* const own = static_cast<std::byte*>(arguments.inputs[0].data);
  const std::size_t at = place_ + static_cast<std::size_t>(own - given.here(operand_));
  const auto leaf = [&](int p) { return p == processes_->rank() ? own : given.window(p) + at; };
  fold_.run(leaf, static_cast<std::byte*>(arguments.outputs[0].data), arguments.scratch);
}

std::size_t FoldDealtTiles::scratch_bytes() const {
  std::size_t most = 0;
  for (const Tile& tile : tiles_) most = std::max(most, tile.fold.scratch_bytes());
  return most;
}

// The others read the sums until this process waits for them in the next call that puts something there, which takes the
// other window.
void FoldDealtTiles::run(const KernelArguments& arguments) const {
  const ArrayView& given = arguments.inputs[0];
  const GivenByPut put(given, processes_->size());
  processes_->finish(put.number());
  std::byte* const own = put.window(processes_->rank());
  for (const Tile& tile : tiles_) {
    const auto leaf = [&](int p) { return put.window(p) + tile.place; };
    tile.fold.run(leaf, own + tile.place, arguments.scratch);
  }
  std::memcpy(arguments.outputs[0].data, given.data, nbytes(given));
  GivenByPut::write(arguments.outputs[0], 0, processes_->start_meet({"fold: sums in windows", dtype_}, bytes_));
}

void TakeFromWindow::run(const KernelArguments& arguments) const {
  const GivenByPut given(arguments.inputs[1], processes_->size());
  processes_->finish(given.number());
  const auto* const own = static_cast<const std::byte*>(arguments.inputs[0].data);
  const auto at = static_cast<std::size_t>(own - given.here(operand_));
  const ArrayView& sum = arguments.outputs[0];
  std::memcpy(sum.data, given.window(owners_[at / tile_bytes_]) + place_ + at, nbytes(sum));
}

// ---- to each its block -----------------------------------------------------------------------------------------------

void FoldBlocksAcrossProcesses::run(const KernelArguments& arguments) const {
  const auto processes = static_cast<std::size_t>(cut().processes);
  const int rank = this->processes().rank();
  const bool has_windows = this->processes().has_windows();
  auto* const sums = static_cast<std::byte*>(arguments.scratch);
  for (std::int64_t k = 0; k < cut().pieces; ++k) {
    const std::size_t chunk = cut().bytes(cut().chunk_of(k));
    const std::size_t first = static_cast<std::size_t>(k) * chunk_bytes();
    // Windows take turns as those of pairs do.
    const auto turn = static_cast<std::int64_t>(this->processes().meetings());
    std::byte* const sent = has_windows ? window(rank, turn) : messages(arguments, 0).data();
    for (std::size_t p = 0; p < processes; ++p) {
      copy_in(arguments.inputs, {p, processes}, first, first + chunk, sent + p * chunk);
    }
    if (has_windows) {
      this->processes().meet({"fold: blocks in windows", cut().dtype}, processes * chunk);
      fold(
          k, [&](int p) { return window(p, turn) + static_cast<std::size_t>(rank) * chunk; }, sums, arguments);
    } else {
      const std::span<std::byte> received = messages(arguments, 1).first(processes * chunk);
      this->processes().all_to_all(bytes_of(sent, processes * chunk), received,
                                   {"fold: exchange of blocks", cut().dtype});
      fold(
          k, [&](int p) { return received.data() + static_cast<std::size_t>(p) * chunk; }, sums, arguments);
    }
    copy_out(sums, first, first + chunk, arguments.outputs);
  }
  // The next fold writes where the others may still read the last piece.
  if (has_windows) this->processes().meet({"fold: blocks are read", cut().dtype}, 0);
}

void GatherFromProcesses::run(const KernelArguments& arguments) const {
  const ArrayView& own = arguments.inputs[0];
  const ArrayView& all = arguments.outputs[0];
  processes_->all_gather(bytes_of(own.data, nbytes(own)), writable(all.data, nbytes(all)),
                         {"gather of blocks", own.dtype});
}

}  // namespace lockstep::executable
