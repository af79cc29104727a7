#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

namespace lockstep::executable {

using namespace backend;

/// How elements that all processes have are cut for a fold: into pieces that go one after the other, so that what is on
/// its way stays in the caches; a piece into a chunk for each process, which adds it up.
struct FoldCut {
  /// All processes get all sums. What goes with a collective's first message is one piece that each adds up for itself.
  static FoldCut of_whole(std::int64_t elements, DType dtype, const Processes& processes);
  /// Each process gets the sums of its block of so many elements: a piece has a chunk of every block.
  static FoldCut of_blocks(std::int64_t elements, DType dtype, const Processes& processes);

  DType dtype = DType::float32;
  int processes = 1;
  bool is_gathered = false;
  std::int64_t elements = 0;
  std::int64_t pieces = 1;
  std::int64_t chunk = 0;       ///< Elements, but of the last piece's chunks.
  std::int64_t last_chunk = 0;  ///< Of those.

  std::int64_t chunk_of(std::int64_t piece) const { return piece + 1 < pieces ? chunk : last_chunk; }
  std::size_t bytes(std::int64_t n) const { return static_cast<std::size_t>(n) * size_of(dtype); }
};

/// Kernels that combine two chunks: of `FoldCut::chunk` and of `last_chunk` elements.
using ChunkKernels = std::array<const Kernel*, 2>;

/// Of all kernels that fold over the processes: process p gives S(pV/P, (p+1)V/P) of the fixed tree. They run on the
/// calling thread, and read the others' windows where there are such.
class ProcessFold : public Kernel {
 public:
  using Leaf = std::function<const std::byte*(int process)>;
  ProcessFold(std::shared_ptr<Processes> processes, const FoldCut& cut, const ChunkKernels& kernels);
  std::size_t scratch_bytes() const override;
  /// Where this process's writing and the others' reading of two windows, of which the first has this number, take turns
  /// by calls of compiled functions: 0 or 1. What is written lies behind `window_head` bytes.
  static int turn_of_call(const Processes& processes, int number, std::size_t bytes);
  /// The one that a call takes which has not written there yet.
  static int next_turn(const Processes& processes, int number, std::size_t bytes);
  static constexpr std::size_t window_head = 64;
  static constexpr int parts_window = 4;  ///< Two of them, of what is folded where it lies.

 protected:
  /// `has_messages`: whether there is room for them in the scratch.
  ProcessFold(std::shared_ptr<Processes> processes, const FoldCut& cut, const ChunkKernels& kernels, bool has_messages);
  Processes& processes() const { return *processes_; }
  const FoldCut& cut() const { return cut_; }
  std::size_t chunk_bytes() const { return cut_.bytes(cut_.chunk); }
  /// Behind temporaries of the fold in the scratch: room for two chunks of every process, where there are no windows.
  std::span<std::byte> messages(const KernelArguments& arguments, int side) const;
  /// The operands' window of a turn. There are two.
  std::byte* window(int process, std::int64_t turn) const;
  /// Where the sums of this process's chunk are read by the others.
  std::byte* sums_window(int process, std::int64_t turn) const;
  /// S of the chunks of a piece, process p's at leaf(p), into `result`.
  void fold(std::int64_t piece, const Leaf& leaf, std::byte* result, const KernelArguments& arguments) const;

 private:
  std::size_t messages_bytes() const;
  std::size_t temporaries_bytes() const;

  std::shared_ptr<Processes> processes_;
  FoldCut cut_;
  ChunkKernels kernels_;
  bool has_messages_;
};

/// Every process gets S(0, V). Any number of operands of one dtype go together, as if they were one.
class FoldAcrossProcesses final : public ProcessFold {
 public:
  using ProcessFold::ProcessFold;
  void run(const KernelArguments& arguments) const override;

 private:
  void fold_gathered(const KernelArguments& arguments) const;
  void fold_messages(const KernelArguments& arguments) const;
  void fold_windows(const KernelArguments& arguments) const;
};

/// The same of two processes with windows, which both add up everything: own operands with what lies in the other's window.
class FoldPair final : public Kernel {
 public:
  /// A part of an operand, and the kernel for so many elements.
  struct Tile {
    std::size_t operand = 0;
    std::size_t first = 0;   ///< Byte of the operand.
    std::size_t window = 0;  ///< Byte of all operands, one behind the other.
    std::int64_t elements = 0;
    const Kernel* kernel = nullptr;
  };
  /// Elements of a tile at most: what is folded is still near when the next kernel reads it.
  static constexpr std::int64_t longest_tile = 16384;

  /// The tiles of all operands, in order.
  FoldPair(std::shared_ptr<Processes> processes, DType dtype, std::vector<Tile> tiles);
  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override;

 private:
  std::size_t bytes(const Tile& tile) const { return static_cast<std::size_t>(tile.elements) * size_of(dtype_); }

  std::shared_ptr<Processes> processes_;
  DType dtype_;
  std::vector<Tile> tiles_;
};

/// Of processes with windows: puts the operands of this one where the others read them, those that were not written there
/// at once, begins a collective that says so, and gives its number, where each process's window begins and where each
/// operand lies here, as int64 (`GivenByPut`).
class PutIntoWindow final : public Kernel {
 public:
  /// What all of them put there in a call has `all` bytes; each operand's begin at one of `places`.
  PutIntoWindow(std::shared_ptr<Processes> processes, DType dtype, std::vector<std::size_t> places, std::size_t all)
      : processes_(std::move(processes)), dtype_(dtype), places_(std::move(places)), all_(all) {}
  void run(const KernelArguments& arguments) const override;
  /// Where this process writes in a call that has begun what it puts there: so many bytes.
  static std::byte* begin_of_window(const Processes& processes, std::size_t all);
  /// Numbers that are given for so many operands.
  static std::int64_t given(int processes, std::size_t operands) {
    return 1 + processes + static_cast<std::int64_t>(operands);
  }

 private:
  std::shared_ptr<Processes> processes_;
  DType dtype_;
  std::vector<std::size_t> places_;
  std::size_t all_;
};

/// S over the processes of so many elements, which lie somewhere of each.
class TileFold {
 public:
  /// `combine` is of two times so many elements.
  TileFold(int processes, DType dtype, std::int64_t elements, const Kernel* combine);
  std::size_t scratch_bytes() const;
  /// Of what lies at leaf(p); `result` may be one of these places.
  void run(const ProcessFold::Leaf& leaf, std::byte* result, void* scratch) const;

 private:
  int processes_;
  DType dtype_;
  std::int64_t elements_;
  const Kernel* combine_;
};

/// An operand, or a tile of it, with those of all other processes, once they have come so far: the second operand is what
/// PutIntoWindow gave.
class FoldWithWindow final : public Kernel {
 public:
  /// `operand` is its number among those of PutIntoWindow, `place` where it begins in windows.
  FoldWithWindow(std::shared_ptr<Processes> processes, const TileFold& fold, std::size_t operand, std::size_t place)
      : processes_(std::move(processes)), fold_(fold), operand_(operand), place_(place) {}
  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override { return fold_.scratch_bytes(); }

 private:
  std::shared_ptr<Processes> processes_;
  TileFold fold_;
  std::size_t operand_;
  std::size_t place_;
};

/// Once all processes have come so far: adds up the tiles that were dealt to this one, of what PutIntoWindow put, in place of
/// its own part, which nobody else reads. Begins a collective that says so, and gives what PutIntoWindow gave with its number.
class FoldDealtTiles final : public Kernel {
 public:
  struct Tile {
    std::size_t place;  ///< In windows.
    TileFold fold;
  };
  /// `bytes`: of all tiles, whoever has them.
  FoldDealtTiles(std::shared_ptr<Processes> processes, DType dtype, std::vector<Tile> tiles, std::size_t bytes)
      : processes_(std::move(processes)), dtype_(dtype), tiles_(std::move(tiles)), bytes_(bytes) {}
  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override;

 private:
  std::shared_ptr<Processes> processes_;
  DType dtype_;
  std::vector<Tile> tiles_;
  std::size_t bytes_;
};

/// The sum of an operand, or a tile of it, from the window of the process that has added it up, once that has: operands as
/// those of FoldWithWindow, the second from FoldDealtTiles.
class TakeFromWindow final : public Kernel {
 public:
  /// `owners`: by tile of so many bytes, who has it.
  TakeFromWindow(std::shared_ptr<Processes> processes, std::size_t operand, std::size_t place, std::vector<int> owners,
                 std::size_t tile_bytes)
      : processes_(std::move(processes)),
        operand_(operand),
        place_(place),
        owners_(std::move(owners)),
        tile_bytes_(tile_bytes) {}
  void run(const KernelArguments& arguments) const override;

 private:
  std::shared_ptr<Processes> processes_;
  std::size_t operand_;
  std::size_t place_;
  std::vector<int> owners_;
  std::size_t tile_bytes_;
};

/// Every process gets its block of S(0, V): an operand has a block for each, one behind the other. Any number of operands of
/// one dtype go together, as if they were one.
class FoldBlocksAcrossProcesses final : public ProcessFold {
 public:
  using ProcessFold::ProcessFold;
  void run(const KernelArguments& arguments) const override;
};

/// The blocks of all processes, one behind the other.
class GatherFromProcesses final : public Kernel {
 public:
  explicit GatherFromProcesses(std::shared_ptr<Processes> processes) : processes_(std::move(processes)) {}
  void run(const KernelArguments& arguments) const override;

 private:
  std::shared_ptr<Processes> processes_;
};

}  // namespace lockstep::executable
