#pragma once
/// @file
/// Mesh: the ranks of a world as a grid with named axes, and a communicator for each of them.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/comm/communicator.hpp"

namespace ultra {

/// @brief What the ranks along an axis divide among themselves.
///
/// It says what adds up: gradients along axes that split the batch or its tokens, the loss along all
/// but those that split matrices, whose ranks all compute the same.
enum class Splits : std::uint8_t {
  kBatch,     ///< the sequences of a batch
  kTokens,    ///< the tokens of each sequence
  kLayers,    ///< the layers of the model
  kMatrices,  ///< each matrix of the model
};

/// @brief One axis of a mesh.
struct Axis {
  std::string name;                   ///< a word: what asks for the axis calls it so
  std::size_t size = 1;               ///< ranks along it
  Splits splits = Splits::kMatrices;  ///< among them
  /// Ranks along the axis with the largest number are neighbours; no two axes have the same.
  int nearness = 0;
  std::string flag = {};  ///< that asked for it, as given, for messages
  bool alike = true;      ///< its ranks do equal work: one of them can stand for all
};

/// @brief The ranks of some axes counted by other axes. It adds no ranks.
struct MeshView {
  std::vector<std::string> replaces;  ///< axes of the mesh
  std::string rest;                   ///< its outermost axis, of the size that the others leave
  std::vector<Axis> by;               ///< the others, the innermost last
};

/// @brief The axis of whole replicas of the model, which every mesh has: data parallelism.
inline constexpr std::string_view kReplicaAxis = "dp";

/// @brief So many replicas, the outermost axis: its communication hides best.
[[nodiscard]] Axis replicas(std::size_t size);

/// @brief How many ranks stand along each axis, and who is whose neighbour.
///
/// An axis that communicates more stands further inside, on neighbouring ranks of one node. Source:
/// Narayanan et al. 2021 (arXiv 2104.04473), section 3.
class MeshShape {
 public:
  /// @brief Sorts the axes by nearness.
  /// @throws ConfigError when a size is below 1, two axes have one name or one nearness, the sizes of
  /// a view do not divide what it replaces, or the product is huge.
  explicit MeshShape(std::vector<Axis> axes, std::vector<MeshView> views = {});

  /// @brief The axes, the outermost first: ranks count up along the last one first.
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  /// @brief The views of them.
  [[nodiscard]] const std::vector<MeshView>& views() const { return views_; }
  /// @brief The product of the axes' sizes.
  [[nodiscard]] int world_size() const;
  /// @brief Ranks along an axis, also of a view; 1 along one that the mesh does not have.
  [[nodiscard]] int size(std::string_view axis) const;
  /// @brief Where a rank of the world stands along an axis, also of a view.
  [[nodiscard]] int position(int world_rank, std::string_view axis) const;
  /// @brief "dp 2 * tp 2".
  [[nodiscard]] std::string str() const;

 private:
  std::vector<Axis> axes_;
  std::vector<MeshView> views_;  // `by` begins with the rest
};

/// @brief One rank's view of the grid: a communicator for each axis and for each product.
///
/// Collective: every rank of the world makes one, with the same shape.
class Mesh {
 public:
  /// @throws ConfigError when the shape does not have as many ranks as the world.
  Mesh(const Communicator& world, MeshShape shape);

  /// @brief The sizes.
  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  /// @brief All ranks.
  [[nodiscard]] const Communicator& world() const { return world_; }

  /// @brief The ranks that differ from this one along one axis only, in its order; this one alone
  /// along an axis that the mesh does not have.
  [[nodiscard]] const Communicator& along(std::string_view axis) const { return group({axis}); }
  /// @brief The ranks that differ from this one along these axes only, in mesh order.
  /// @throws ConfigError for a product with an axis of a view, which stands alone.
  [[nodiscard]] const Communicator& group(std::initializer_list<std::string_view> axes) const {
    return group(std::vector<std::string_view>(axes));
  }
  /// @brief The same.
  [[nodiscard]] const Communicator& group(const std::vector<std::string_view>& axes) const;

 private:
  Communicator world_;
  MeshShape shape_;
  std::map<std::string, Communicator> groups_;  // by the names of axes with more than one rank
};

}  // namespace ultra
