#pragma once
/// @file
/// Saved: the activations that a forward pass keeps for its backward pass, as a plain tree.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/nn/pass.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief A tree of named tensors.
///
/// Every technique that trades activation memory works on this tree: recomputation drops it, a
/// pipeline queues it, offloading moves it. A tensor that is put here counts as
/// MemoryCategory::kActivations from then on.
class Saved {
 public:
  /// @brief Whether tensors that are put here are kept.
  enum class Mode {
    kKeep,    ///< kept, for a backward pass
    kDiscard  ///< forgotten at once: for a forward pass that has no backward pass
  };

  /// @brief An empty tree.
  /// @param pass  whose activations these are; subtrees share it.
  explicit Saved(Mode mode = Mode::kKeep, const Pass& pass = {}) : mode_(mode), pass_(pass) {}

  /// @brief The pass that these activations belong to.
  [[nodiscard]] const Pass& pass() const { return pass_; }

  /// @brief An empty tree for the same pass, whose forward pass runs again.
  [[nodiscard]] Saved recomputing() const;

  /// @brief Keeps a tensor under a name, replacing what had that name.
  void put(std::string_view name, const Tensor& tensor);

  /// @brief The tensor of that name.
  /// @throws InternalError when there is none: backward without its forward, or run twice.
  [[nodiscard]] const Tensor& get(std::string_view name) const;

  /// @brief Removes and returns the tensor of that name.
  /// @throws InternalError when there is none.
  [[nodiscard]] Tensor take(std::string_view name);

  /// @brief Forgets the tensor of that name, if there is one.
  void drop(std::string_view name);

  /// @brief True when a tensor of that name is kept here.
  [[nodiscard]] bool has(std::string_view name) const;

  /// @brief The subtree of that name, made when there is none.
  [[nodiscard]] Saved& child(std::string_view name);

  /// @brief Forgets all tensors and subtrees.
  void clear();

  /// @brief True when neither this tree nor a subtree keeps a tensor.
  [[nodiscard]] bool empty() const;

  /// @brief Calls `visit(path, tensor)` for each tensor, in the order in which they were put.
  void for_each(const std::function<void(const std::string&, const Tensor&)>& visit) const;

  /// @brief Bytes of the storages that the tree keeps alive; a storage that is shared counts once.
  [[nodiscard]] std::size_t bytes() const;

 private:
  void visit_under(const std::string& prefix,
                   const std::function<void(const std::string&, const Tensor&)>& visit) const;

  Mode mode_;
  Pass pass_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::vector<std::pair<std::string, std::unique_ptr<Saved>>> children_;
};

}  // namespace ultra::nn
