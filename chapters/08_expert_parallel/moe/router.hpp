#pragma once
/// @file
/// Router: which experts the tokens of a micro-batch go to, and what the decision adds to the loss.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/08_expert_parallel/balancing_loss.hpp"
#include "chapters/08_expert_parallel/moe/capacity.hpp"
#include "chapters/08_expert_parallel/moe_config.hpp"
#include "chapters/08_expert_parallel/top_k_routing.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/rank_counters.hpp"

namespace ultra::expert_parallel {

/// @brief What a router knows of the run.
struct RouterScope {
  Communicator cp;                                  ///< the ranks that share each sequence
  std::size_t sequences = 1;                        ///< of the global batch
  std::vector<nn::Replication> weight_copies = {};  ///< who else holds the router's weight
  std::vector<nn::Replication> bias_copies = {};    ///< and its biases, all of them equal
  bool adds_loss_gradients =
      true;  ///< whether the terms' gradients are this rank's to add: the ranks
             ///< of tp have parts of one gradient, and the terms count once
  train::RankCounters* counters = nullptr;  ///< of this rank; null: nobody counts
};

/// @brief What a router has decided for the tokens of a micro-batch; on the host, wherever these are.
struct Decision {
  Tensor affinities;  ///< [tokens, experts]
  Routing routing;    ///< all choices, with their weights
  Tensor
      destinations;  ///< [tokens, top_k] of i32: where they go; kDropped for padding, and for what
                     ///< was dropped
};

/// @brief A linear map to one logit per expert, the choice, and the terms that keep it even.
///
/// The weight is called gate.weight, the biases e_score_correction_bias, as Hugging Face calls
/// them. Biases have no gradient; they are the same on every rank, which keeps all of them
/// (nn::kLocalGroup). Padding, and tokens without weight, go nowhere and count for nothing.
/// Saves the decision: "affinities", "experts", "weights" and "destinations"; "choices" with a
/// balancing term, "logits" with a z-loss.
class Router : public nn::Module {
 public:
  /// @param layer  index of the block.
  Router(const nn::BuildContext& context, std::size_t layer, MoeConfig config, RouterScope scope);

  /// @brief Decides, and adds its terms to the loss.
  /// @param x      [batch * seq, hidden].
  /// @param batch  sequences of x.
  /// Collective over cp with a balancing term or a capacity of sequences.
  Decision forward(const Tensor& x, std::size_t batch, nn::Saved& saved);

  /// @brief What forward() has decided, and saved.
  [[nodiscard]] static Decision take_decision(nn::Saved& saved);

  /// @brief The gradient of x by the affinities and the terms; adds that of the weight.
  /// @param d_affinities  [batch * seq, experts] from the combine weights; overwritten.
  /// @param affinities    of the decision.
  /// @param x             as forward() had it.
  [[nodiscard]] Tensor backward(const Tensor& d_affinities, const Tensor& affinities,
                                const Tensor& x, std::size_t batch, nn::Saved& saved);

  [[nodiscard]] std::vector<nn::Parameter*> parameters() override;

 private:
  [[nodiscard]] LocalTokens tokens_of(std::size_t batch, std::size_t tokens,
                                      const nn::Pass& pass) const;
  [[nodiscard]] BalancingTerm balancing_term() const;
  [[nodiscard]] double z_scale() const;
  [[nodiscard]] std::vector<double> balancing_shares(const Tensor& probabilities,
                                                     const Tensor& of_sequences) const;
  [[nodiscard]] Tensor choices_of(const Tensor& experts, std::size_t batch) const;
  void count(const Tensor& choices, const Tensor& destinations, const nn::Pass& pass) const;
  void add_balancing_term(const Tensor& affinities, const Tensor& choices,
                          const LocalTokens& tokens, nn::Saved& saved) const;
  void add_z_loss(const Tensor& logits, const LocalTokens& tokens, nn::Saved& saved) const;
  [[nodiscard]] bool decides() const;
  [[nodiscard]] Tensor affinities_of_numbers(const Tensor& logits) const;
  [[nodiscard]] Routing route(const Tensor& affinities) const;
  [[nodiscard]] Tensor logits_backward(const Tensor& d_affinities, const Tensor& affinities,
                                       const LocalTokens& tokens, nn::Saved& saved);

  MoeConfig config_;
  RouterScope scope_;
  std::size_t seq_len_;
  nn::Parameter weight_;                   // [experts, hidden]
  std::unique_ptr<nn::Parameter> biases_;  // [experts]; null: none
  std::vector<std::string> load_names_;    // by expert
  std::string dropped_name_;
};

/// @brief The name of the counter of how many choices fell on an expert, dropped or not.
[[nodiscard]] std::string load_counter(std::size_t layer, std::size_t expert);
/// @brief The name of the counter of choices that were dropped.
[[nodiscard]] std::string dropped_counter(std::size_t layer);

}  // namespace ultra::expert_parallel
