#pragma once
/// @file
/// Counts what a warp's accesses cost. The lanes run one after the other; the accesses that their
/// warp would have made at once are found again by their number: the k-th execution of a line by each
/// lane since the lanes last met is one request.

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/report.hpp"

namespace ultra::simt::emulator {

/// @brief Counters per source line during one launch.
class Counters {
 public:
  /// @brief Forgets everything; the blocks will have `warps` warps.
  void start(std::size_t warps);

  /// @brief The number of a line, kind and access size: small and dense, the same for every lane.
  [[nodiscard]] std::uint32_t site_of(SourceLine place, AccessKind kind, std::size_t size);

  /// @brief Takes one lane's access. For a branch, `address` is 1 if it is taken.
  void record(std::size_t warp, std::size_t lane, std::uint32_t site, std::uint64_t address);

  /// @brief Counts a box that TMA moves, as one request of one lane: its bytes that lie in the tensor.
  void count_box(std::uint32_t site, std::uint64_t bytes, std::uint64_t sectors);

  /// @brief Counts a warp's requests: its lanes have met, or ended.
  void flush(std::size_t warp);

  /// @brief Drops what is not counted yet.
  void drop();

  /// @brief The place of a site.
  [[nodiscard]] SourceLine place_of(std::uint32_t site) const { return keys_[site].place; }

  /// @brief All sites; lines that several translation units share are one.
  [[nodiscard]] std::vector<Site> sites() const;

 private:
  struct Key {
    SourceLine place;
    AccessKind kind;
    std::size_t size;
  };
  struct Request {
    LaneMask lanes = 0;
    std::array<std::uint64_t, 32> addresses;
  };
  // A site's accesses of one warp since its lanes met.
  struct Pending {
    std::array<std::uint32_t, 32> executions{};
    std::vector<Request> requests;
  };
  struct Warp {
    std::vector<Pending> pending;
    std::vector<std::uint32_t> active;
  };

  [[nodiscard]] std::uint32_t add_site(const Key& key);
  void count(const Request& request, std::uint32_t site);

  std::vector<Key> keys_;
  std::vector<Site> sums_;
  std::vector<Warp> warps_;
  // Recently used sites, found by a hash of their keys.
  std::array<std::uint32_t, 512> recent_{};
};

/// @brief Sectors of 32 bytes that the lanes' accesses touch.
[[nodiscard]] std::uint64_t count_sectors(const std::array<std::uint64_t, 32>& addresses,
                                          LaneMask lanes, std::size_t size);

/// @brief Passes over the banks of shared memory, as they are and at best.
struct Wavefronts {
  /// @brief With the words where they are.
  std::uint64_t needed;
  /// @brief With no two words in one bank.
  std::uint64_t ideal;
};

/// @brief Wavefronts of one request. There are 32 banks of 4 bytes; lanes that read the same word share
/// it. Accesses of 8 and 16 bytes are made by half and quarter warps, one after the other.
[[nodiscard]] Wavefronts count_wavefronts(const std::array<std::uint64_t, 32>& addresses,
                                          LaneMask lanes, std::size_t size);

}  // namespace ultra::simt::emulator
