#pragma once
/// @file
/// MoeLayer: the mixture of experts in place of a block's feed-forward part.
///
/// | step      | what                                        | backward                  |
/// |-----------|---------------------------------------------|---------------------------|
/// | route     | affinities, top-k, capacity, terms of loss  | combine weights, router   |
/// | permute   | a row per choice, in the order of experts   | from_expert_order         |
/// | dispatch  | rows to their experts' ranks: an all-to-all | combine                   |
/// | compute   | each expert's SwiGLU: grouped products      | the same, backward        |
/// | combine   | rows back to the ranks of their tokens      | dispatch                  |
/// | unpermute | the weighted sum of each token's rows       | to_expert_order, weighted |
///
/// While dispatched rows travel, the shared experts compute.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "chapters/08_expert_parallel/moe/expert_exchange.hpp"
#include "chapters/08_expert_parallel/moe/experts.hpp"
#include "chapters/08_expert_parallel/moe/router.hpp"
#include "chapters/08_expert_parallel/moe_config.hpp"
#include "chapters/08_expert_parallel/token_permutation.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::expert_parallel {

/// @brief What a mixture of experts is, to this rank and the others.
struct MoeScope {
  MoeConfig config;                                 ///< with experts
  Communicator ep;                                  ///< the ranks that hold the experts
  std::shared_ptr<tensor_parallel::Region> region;  ///< of the ranks that share each expert; null:
                                                    ///< this rank has its experts for itself
  LocalExperts share;                               ///< what this rank holds
  RouterScope router;                               ///< what its routers know
  bool tells_places =
      false;  ///< whether experts are told in each backward pass at which place each
              ///< row's token stands, among those of the ranks of ep
};

/// @brief A router, experts on several ranks, and experts that every token uses.
///
/// With tp every rank routes and dispatches all tokens of the group, and has a part of each expert:
/// outputs, and with them the router's gradients, are parts of sums.
/// Saves "input", "gate_up/input", "gate", "up" and "down/input" (of the rows that came here),
/// "expert_output" (of the rows that went out), "received"; subtrees "router" and "shared". For experts
/// that are told places, in the backward pass, "gate_up/places" and "down/places", [rows] of i32.
/// Cost: see ExpertExchange: two all-to-alls forward, two backward, and one of counts; one of places.
class MoeLayer : public nn::Layer {
 public:
  /// @param layer  index of the block, for the names of the weights.
  MoeLayer(const nn::BuildContext& context, std::size_t layer, const MoeScope& scope);

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override;

  /// @brief The experts of this rank, for a technique that changes how they compute.
  [[nodiscard]] Experts& experts() { return experts_; }

 private:
  [[nodiscard]] Tensor enter(const Tensor& x) const;
  void tell_places(const ExpertOrder& order, const DispatchCounts& counts, nn::Saved& saved) const;

  std::size_t num_experts_;
  bool tells_places_;
  ExpertExchange exchange_;
  std::shared_ptr<tensor_parallel::Region> region_;  // null: one rank
  Router router_;
  Experts experts_;
  std::unique_ptr<nn::Layer> shared_;  // null: none
};

}  // namespace ultra::expert_parallel
