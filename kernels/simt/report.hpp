#pragma once
/// @file
/// What the emulator counted during a launch, per source line and for the whole kernel, in the words
/// of Nsight Compute.
///
/// A *request* is one instruction of one warp. A *sector* is 32 bytes of global memory, the unit of
/// traffic; a *wavefront* is one pass over the 32 banks of shared memory.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/simt/config.hpp"

namespace ultra::simt {

/// @brief What a source line does to memory or to the control flow.
enum class AccessKind : std::uint8_t {
  /// @brief ldg(), or a tile of global memory loaded.
  kGlobalLoad,
  /// @brief stg(), or a tile stored to global memory.
  kGlobalStore,
  /// @brief An atomic on global memory.
  kGlobalAtomic,
  /// @brief lds(), or a tile of shared memory loaded.
  kSharedLoad,
  /// @brief sts(), or a tile stored to shared memory.
  kSharedStore,
  /// @brief An atomic on shared memory.
  kSharedAtomic,
  /// @brief branch().
  kBranch,
};

/// @brief The name of a kind, for tables: "global load".
[[nodiscard]] const char* name_of(AccessKind kind);

/// @brief The counters of one source line, one kind and one access size.
struct Site {
  /// @brief Source file, as the compiler saw it.
  std::string file = {};
  /// @brief Line of the access.
  int line = 0;
  /// @brief What it does.
  AccessKind kind = AccessKind::kGlobalLoad;
  /// @brief Bytes that one lane accesses; 0 for a branch.
  int size = 0;
  /// @brief Instructions of warps.
  std::uint64_t requests = 0;
  /// @brief Active lanes, summed over the requests.
  std::uint64_t lanes = 0;
  /// @brief Sectors of global memory, summed over the requests; 0 for shared memory.
  std::uint64_t sectors = 0;
  /// @brief Bytes that the lanes asked for: lanes x size.
  std::uint64_t bytes = 0;
  /// @brief Passes over the banks of shared memory; 0 for global memory.
  std::uint64_t wavefronts = 0;
  /// @brief Passes that would be needed with no two words in one bank.
  std::uint64_t ideal_wavefronts = 0;
  /// @brief Branches at which the active lanes of the warp disagreed.
  std::uint64_t divergent = 0;

  /// @brief Sectors per request: 4 is best for 4-byte elements of a full warp, 32 the worst.
  [[nodiscard]] double sectors_per_request() const;
  /// @brief Wavefronts per request: 1 is best, 32 the worst (a 32-way bank conflict).
  [[nodiscard]] double wavefronts_per_request() const;
  /// @brief Active lanes per request, at most 32.
  [[nodiscard]] double lanes_per_request() const;
};

/// @brief The shape of a launch that a report covers.
struct Launched {
  /// @brief Config::name of the launch.
  std::string kernel;
  /// @brief Blocks of the launch.
  Extents grid;
  /// @brief Threads of each block.
  Extents block;
  /// @brief Equal names and shapes.
  bool operator==(const Launched&) const = default;
};

/// @brief What was counted during the launches of a Queue; empty on a GPU and in the fast emulator.
struct Report {
  /// @brief The launches, in their order.
  std::vector<Launched> launches;
  /// @brief One entry per source line, kind and size, in the order of file, line, kind and size.
  std::vector<Site> sites;

  /// @brief Adds what one more launch counted.
  void add(const Launched& launched, const std::vector<Site>& counted);
  /// @brief The counters of all sites of a kind, summed.
  [[nodiscard]] Site total(AccessKind kind) const;
  /// @brief The counters of all sites of one line, summed; its kind is the first's.
  [[nodiscard]] Site at_line(int line) const;
  /// @brief Active lanes per instruction, over the accesses and branches that were recorded.
  [[nodiscard]] double active_lanes() const;
  /// @brief Sums of the kernel under the names of Nsight Compute's metrics. Its
  /// smsp__thread_inst_executed_per_inst_executed covers every instruction, ours what is recorded.
  [[nodiscard]] std::vector<std::pair<std::string, double>> metrics() const;
  /// @brief The metric of that name.
  /// @throws std::out_of_range when there is none.
  [[nodiscard]] double metric(const std::string& name) const;
};

/// @brief The sites as a table of text, one line each.
[[nodiscard]] std::string to_table(const Report& report);

}  // namespace ultra::simt
