#pragma once
/// @file
/// WholeMatrices: matrices of which each rank has a part, whole for the time of a step.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "chapters/04_zero/shards/parameter_group.hpp"
#include "common/comm/communicator.hpp"
#include "common/optim/matrix_exchange.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::zero {

/// @brief A part of a matrix that a rank has.
struct MatrixPart {
  Shape view;                 ///< in which the matrix is looked at: flat, or rows and columns
  std::vector<Range> ranges;  ///< of each dimension of that

  /// @brief How many elements it has.
  [[nodiscard]] std::size_t numel() const;
  /// @brief It, of a whole matrix; no copy.
  [[nodiscard]] Tensor of(const Tensor& matrix) const;
};

/// @brief A matrix that several ranks have parts of.
struct SharedMatrix {
  const nn::Parameter* parameter;  ///< whose
  Shape shape;                     ///< [rows, columns] that the parts make up
  std::vector<std::optional<MatrixPart>>
      parts;              ///< by rank; absent: it has none. Empty: every rank
                          ///< has all of it, and transforms it for itself
  std::size_t piece = 0;  ///< this rank's part, among the pieces it updates
};

/// @brief Sends the parts of each matrix to its owner, which transforms it, and the results back.
///
/// Every matrix is transformed once, on one rank, whatever its parts are: flat shards, rows or columns.
/// Cost: the elements that the owner of a matrix lacks travel twice, there and back: in all
/// 2 (S-1)/S times those of the matrices where the S parts of each are equal. Two all-to-alls for each batch.
/// Memory: for the time of a batch this rank's parts and the matrices of it that it owns as
/// MemoryCategory::kCommunication, and the latter once more as kOther.
/// Source: microsoft/dion, dion/muon.py, for batches of one matrix per rank.
/// @see matrix_owners()
class WholeMatrices : public optim::MatrixExchange {
 public:
  /// @param matrices  the same on all ranks, except `piece`.
  /// @param ranks     that have the parts.
  /// @param within    makes whole what is a part of a matrix even when all parts of `ranks` are
  /// together; empty: nothing is.
  /// @param at_once   matrices of an owner that are a batch, the most expensive ones first; 0: all are.
  WholeMatrices(std::vector<SharedMatrix> matrices, const Communicator& ranks,
                const train::MakeWhole& within = {}, std::size_t at_once = 0);

  void transform(std::span<const Tensor> pieces,
                 const std::function<void(const Tensor& matrix)>& transform) override;

 private:
  /// Matrices that are whole at the same time.
  struct Batch {
    std::vector<std::size_t> matrices;  // all, in their order
    std::vector<std::size_t> own;       // of them, those of which this rank is the owner
    std::unique_ptr<optim::MatrixExchange> within;  // of own, by their place there
  };

  [[nodiscard]] std::vector<std::size_t> counts_of(const Batch& batch, bool own) const;
  [[nodiscard]] std::vector<Tensor> gather(const Batch& batch,
                                           std::span<const Tensor> pieces) const;
  void send_back(const Batch& batch, const std::vector<Tensor>& own,
                 std::span<const Tensor> pieces) const;
  [[nodiscard]] std::vector<Tensor> parts_here(const Batch& batch,
                                               std::span<const Tensor> pieces) const;
  [[nodiscard]] std::vector<Tensor> parts_of(const Batch& batch,
                                             const std::vector<Tensor>& own) const;

  std::vector<SharedMatrix> matrices_;
  std::vector<SharedMatrix> here_;  // those that every rank has as a whole
  std::vector<int> owners_;         // by matrix
  Communicator ranks_;
  std::vector<Batch> batches_;
};

/// @brief The matrices in flat arrays of which each rank has a shard.
[[nodiscard]] std::vector<SharedMatrix> matrices_in(const std::vector<ParameterGroup>& groups,
                                                    const Communicator& shards);

/// @brief The matrices that the ranks of a group split by rows or by columns, evenly.
/// @param parameters  this rank's parts; null where a weight is no matrix.
[[nodiscard]] std::vector<SharedMatrix> split_matrices(
    const std::vector<const nn::Parameter*>& parameters, const Communicator& ranks);

}  // namespace ultra::zero
