#pragma once
/// @file
/// Placement: which rank has which parts of the model.

#include <cstddef>
#include <vector>

namespace ultra::pipeline_parallel {

/// @brief A chunk of a stage's rank.
struct ChunkSite {
  std::size_t stage = 0;  ///< the rank along pp
  std::size_t chunk = 0;  ///< of that rank

  bool operator==(const ChunkSite&) const = default;
};

/// @brief The way of a micro-batch through the ranks: part 0 has the embedding, the last the head.
///
/// All ranks have equally many chunks. Its chunks are numbered in the order of the model's layers.
class Placement {
 public:
  /// @brief Part i is chunk i / stages of rank i % stages: once round the ranks for each chunk.
  /// Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.
  [[nodiscard]] static Placement loop(std::size_t stages, std::size_t chunks = 1);
  /// @brief Two chunks per rank, there and back: the first rank has the first part and the last.
  /// Source: Qi et al. 2023 (arXiv 2401.10241), section 6 on ZB-V.
  [[nodiscard]] static Placement v_shape(std::size_t stages);

  /// @brief Ranks along pp.
  [[nodiscard]] std::size_t stages() const { return stages_; }
  /// @brief Chunks of each rank.
  [[nodiscard]] std::size_t chunks() const { return way_.size() / stages_; }
  /// @brief Parts of the model: stages() * chunks().
  [[nodiscard]] std::size_t parts() const { return way_.size(); }
  /// @brief Where a part is.
  [[nodiscard]] ChunkSite at(std::size_t part) const { return way_[part]; }
  /// @brief Which part a chunk has.
  /// @throws InternalError when there is no such chunk.
  [[nodiscard]] std::size_t part_at(ChunkSite site) const;

 private:
  Placement(std::size_t stages, std::vector<ChunkSite> way);

  std::size_t stages_;
  std::vector<ChunkSite> way_;      // by part
  std::vector<std::size_t> parts_;  // by stage * chunks() + chunk
};

}  // namespace ultra::pipeline_parallel
