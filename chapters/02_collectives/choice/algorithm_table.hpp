#pragma once
/// @file
/// The chapter's algorithms by name: what tests, the executable and the notebook loop over.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/comm/collectives/schedule.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::collectives {

/// @brief What some algorithms want to know about the machine, and their dials; rank-uniform.
struct Tuning {
  int ranks_per_node = 1;  ///< for two-level
  std::vector<int>
      grid{};        ///< extents for torus and mesh, the last changes fastest; empty: as equal
                     ///< as the group's size allows
  int segments = 0;  ///< per chunk of a segmented ring, per tree of a double tree; 0: by size
  std::size_t segment_bytes = 64 * 1024;  ///< size of a segment when `segments` is 0
  std::size_t small_bytes = 16 * 1024;    ///< messages up to here take the way with fewer rounds
  bool operator==(const Tuning&) const = default;
};

/// @brief The arguments of a collective, whichever it is.
struct CollectiveRequest {
  comm::Group group;              ///< who takes part, and which of them this rank is
  comm::Chunks chunks;            ///< of the data, one per member; all_to_all: of what is sent
  comm::Chunks received;          ///< all_to_all: of what is received
  int root = 0;                   ///< a position, where the operation has a root
  std::size_t element_bytes = 4;  ///< size of one element
  Tuning tuning{};                ///< dials

  /// @brief An operation on `count` elements in equal chunks: for all_to_all, equal to the element.
  /// @throws ConfigError for an all_to_all whose count is no multiple of the group's size.
  [[nodiscard]] static CollectiveRequest of(OpKind op, const comm::Group& group, std::size_t count,
                                            const Tuning& tuning = {});

  /// @brief Bytes of the whole operation.
  [[nodiscard]] std::size_t bytes() const { return chunks.whole().size() * element_bytes; }
};

/// @brief One algorithm of one collective.
struct NamedAlgorithm {
  std::string_view name;     ///< for `--algorithm`
  std::string_view summary;  ///< one line, for tables
  /// The steps of the request's rank.
  comm::Schedule (*schedule)(const CollectiveRequest& request);
  /// One sentence that says what it would need; empty when the request suits. The same on all ranks.
  std::string (*why_not)(const CollectiveRequest& request);
};

/// @brief Operations that have algorithms here, in the order of OpKind.
[[nodiscard]] std::span<const OpKind> collective_ops();

/// @brief All algorithms of an operation; the first suits every group and count. Empty for an
/// operation that is no collective.
[[nodiscard]] std::span<const NamedAlgorithm> algorithms(OpKind op);

/// @brief The algorithm of that name.
/// @throws ConfigError with all names for an unknown one.
[[nodiscard]] const NamedAlgorithm& find_algorithm(OpKind op, std::string_view name);

/// @brief The collective of that name, "all_reduce" for example.
/// @throws ConfigError with all names for an unknown one.
[[nodiscard]] OpKind parse_collective(std::string_view name);

/// @brief `dimensions` factors of `size`, as equal as possible, smallest first: 12 is 3 x 4, 7 is
/// 1 x 7.
[[nodiscard]] std::vector<int> balanced_grid(int size, int dimensions);

}  // namespace ultra::collectives
