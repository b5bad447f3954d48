#pragma once
/// @file
/// Mesh: the ranks of a world as a grid with named dimensions, and a communicator for each of them.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/comm/communicator.hpp"

namespace ultra {

/// @brief The dimensions of a mesh.
enum class MeshDim : std::uint8_t {
  kDp,   ///< data parallel: replicas of the model, each with its share of the batch
  kPp,   ///< pipeline parallel: stages of consecutive layers
  kCp,   ///< context parallel: parts of the sequence
  kTp,   ///< tensor (and sequence) parallel: parts of each matrix
  kEp,   ///< expert parallel: parts of the experts; re-factors dp x cp
  kEdp,  ///< expert data parallel: replicas of an expert; dp x cp = edp x ep
};

/// @brief "dp", "pp", "cp", "tp", "ep" or "edp".
[[nodiscard]] std::string_view to_string(MeshDim dim);

/// @brief How many ranks stand along each dimension.
struct MeshShape {
  int dp = 1;  ///< data parallel
  int pp = 1;  ///< pipeline parallel
  int cp = 1;  ///< context parallel
  int ep = 1;  ///< expert parallel; divides dp * cp and adds no ranks
  int tp = 1;  ///< tensor parallel

  /// @brief dp * pp * cp * tp.
  /// @throws ConfigError when a size is below 1, ep does not divide dp * cp, or the product is
  /// huge.
  [[nodiscard]] int world_size() const;
  /// @brief Ranks along one dimension.
  [[nodiscard]] int size(MeshDim dim) const;
  /// @brief Changes the ranks along dp, pp, cp, ep or tp.
  void set(MeshDim dim, int ranks);
  /// @brief "dp 2 * pp 2 * cp 1 * tp 2".
  [[nodiscard]] std::string str() const;
  /// @brief Equal when all sizes are.
  bool operator==(const MeshShape&) const = default;
};

/// @brief Where one rank stands on the grid.
struct MeshCoordinates {
  int dp = 0;   ///< along dp
  int pp = 0;   ///< along pp
  int cp = 0;   ///< along cp
  int tp = 0;   ///< along tp
  int ep = 0;   ///< along ep, of the same rank
  int edp = 0;  ///< along edp, of the same rank
  /// @brief Position along one dimension.
  [[nodiscard]] int along(MeshDim dim) const;
  /// @brief Equal when all positions are.
  bool operator==(const MeshCoordinates&) const = default;
};

/// @brief The coordinates of a world rank: (dp, pp, cp, tp) with tp fastest.
///
/// tp communicates most and so stands innermost, on neighbouring ranks of one node; then cp, then
/// pp, and dp, which can hide its communication best, outermost. ep counts fastest through dp x cp.
/// Source: Narayanan et al. 2021 (arXiv 2104.04473), section 3, for the reasons; the order of pp
/// and dp differs between systems.
[[nodiscard]] MeshCoordinates coordinates_of(const MeshShape& shape, int world_rank);

/// @brief One rank's view of the grid: a communicator for each dimension and for each product.
///
/// Collective: every rank of the world makes one, with the same shape.
class Mesh {
 public:
  /// @throws ConfigError when the shape does not have as many ranks as the world.
  Mesh(const Communicator& world, const MeshShape& shape);

  /// @brief The sizes.
  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  /// @brief This rank's place.
  [[nodiscard]] const MeshCoordinates& coordinates() const { return coordinates_; }
  /// @brief All ranks.
  [[nodiscard]] const Communicator& world() const { return world_; }

  /// @brief The ranks that differ from this one along `dims` only, in mesh order.
  ///
  /// Any product of dp, pp, cp and tp: group({kDp, kCp}) adds up gradients, group({kPp, kTp}) holds
  /// one replica. kEp and kEdp stand alone.
  /// @throws ConfigError for a product with kEp or kEdp.
  [[nodiscard]] const Communicator& group(std::initializer_list<MeshDim> dims) const;

  /// @brief The replicas of this rank's part of the model.
  [[nodiscard]] const Communicator& dp() const { return group({MeshDim::kDp}); }
  /// @brief The stages of this rank's pipeline.
  [[nodiscard]] const Communicator& pp() const { return group({MeshDim::kPp}); }
  /// @brief The ranks that share this rank's sequences.
  [[nodiscard]] const Communicator& cp() const { return group({MeshDim::kCp}); }
  /// @brief The ranks that share this rank's matrices.
  [[nodiscard]] const Communicator& tp() const { return group({MeshDim::kTp}); }
  /// @brief The ranks that hold the other experts.
  [[nodiscard]] const Communicator& ep() const { return group({MeshDim::kEp}); }
  /// @brief The ranks that hold the same experts.
  [[nodiscard]] const Communicator& edp() const { return group({MeshDim::kEdp}); }

 private:
  Communicator world_;
  MeshShape shape_;
  MeshCoordinates coordinates_;
  std::map<unsigned, Communicator> groups_;  // by set of dimensions, as bits
};

}  // namespace ultra
