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

#include "common/nn/token_places.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief What the module of the token after next gets of a micro-batch: see MultiTokenPrediction.
struct NextTokens {
  Tensor tokens;   ///< [batch, seq] of i32: the token after each; 0 where its document has none
  Tensor targets;  ///< [batch, seq] of i32: the one after that; ops::kNoTarget where there is none
  double weight = 1.0;     ///< of their loss; above 0
  double* loss = nullptr;  ///< to which their loss is added, weighted and scaled as the gradients
  Tensor loss_sum = {};    ///< as Pass::loss_sum, of this loss
};

/// @brief A micro-batch on its way through a chunk of the model.
///
/// It goes along with Saved: what belongs to one micro-batch stands here, never in a layer, for
/// several micro-batches may be under way at a time.
struct Pass {
  std::size_t step = 0;         ///< 0 for the first
  std::size_t micro_batch = 0;  ///< of the step, on this rank
  std::size_t chunk = 0;        ///< of this rank's parts of the model
  double token_weight = 1.0;    ///< of its tokens in losses and statistics: 0 for those of a
                                ///< micro-batch that is only there to keep the ranks in step
  double loss_scale = 1.0;      ///< factor on all gradients of the loss and of its terms
  bool recomputes = false;      ///< a forward pass that runs again, for its backward pass: what
                                ///< counts once per micro-batch has been counted
  std::shared_ptr<const TokenPlaces> places = {};  ///< of its tokens; null: whole sequences, each
                                                   ///< one document
  double* loss_terms = nullptr;  ///< sum of what layers add to the loss; null: nobody asks
  Tensor loss_sum = {};          ///< [ops::digits_of_sums] of f64: where the head's loss is
                                 ///< added up; undefined: it is returned
  double z_loss = 0.0;  ///< weight of the squared log-sum-exps of logits in the head's loss
  std::shared_ptr<const NextTokens> next =
      {};  ///< what the token after next is predicted from; null: it is not

  /// @brief Adds a layer's own term to the loss, like the head's a share of a sum over ranks: once,
  /// whether or not the forward pass runs again, and without the loss scale.
  void add_to_loss(double share) const {
    if (loss_terms != nullptr && !recomputes) *loss_terms += share;
  }
};

/// @brief A tensor that a layer can make again from what stays saved.
struct Remakeable {
  Tensor tensor;                        ///< what the layer made; undefined once it is forgotten
  std::function<Tensor()> make;         ///< makes it again, bit for bit; holds what it is made from
  std::vector<std::string> paths = {};  ///< where it was saved, for who forgets it
};

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
    kRemake,  ///< kept, and layers say which of them they can make again
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
  /// @param path  the name, after those of subtrees if it has any: "qkv/input".
  void put(std::string_view path, const Tensor& tensor);

  /// @brief The tensor of that name.
  /// @throws InternalError when there is none: backward without its forward, or run twice.
  [[nodiscard]] const Tensor& get(std::string_view name) const;

  /// @brief Removes and returns the tensor of that name.
  /// @throws InternalError when there is none.
  [[nodiscard]] Tensor take(std::string_view name);

  /// @brief Forgets the tensor of that name, if there is one.
  /// @param path  as of put().
  void drop(std::string_view path);

  /// @brief True when a tensor of that name is kept here.
  [[nodiscard]] bool has(std::string_view name) const;

  /// @brief The subtree of that name, made when there is none.
  [[nodiscard]] Saved& child(std::string_view name) { return child(name, mode_); }

  /// @brief The same, made in another mode; but below a tree that discards, all discard.
  [[nodiscard]] Saved& child(std::string_view name, Mode mode);

  /// @brief The same, for a loss that is added up elsewhere than this pass's.
  /// @param loss_sum  as Pass::loss_sum.
  [[nodiscard]] Saved& child_with_loss(std::string_view name, const Tensor& loss_sum) {
    Saved& made = child(name);
    made.pass_.loss_sum = loss_sum;
    return made;
  }

  /// @brief Notes how a tensor is made again, in a tree of Mode::kRemake: cheaply, from tensors that
  /// stay saved. Who overwrites the tensor must say it again.
  void remakeable(const Tensor& y, std::function<Tensor()> make);

  /// @brief True when a layer has said how that tensor is made again.
  [[nodiscard]] bool can_remake(const Tensor& y) const;

  /// @brief Those of the whole tree of Mode::kRemake, in the order in which they were made.
  [[nodiscard]] std::vector<Remakeable>& remakeables();

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
  std::shared_ptr<std::vector<Remakeable>>
      remakeables_;  // one list for subtrees too; null: none yet
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::vector<std::pair<std::string, std::unique_ptr<Saved>>> children_;
};

}  // namespace ultra::nn
