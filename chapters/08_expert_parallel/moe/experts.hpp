#pragma once
/// @file
/// Experts: the SwiGLUs of the experts that a rank holds, for rows in the order of the experts.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chapters/08_expert_parallel/moe/expert_linears.hpp"
#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::expert_parallel {

/// The group of the ranks that hold the same experts: what their gradients are summed over.
inline constexpr const char* kExpertGroup = "experts";

/// @brief Which part of the experts a rank holds, and of each of them.
struct LocalExperts {
  Range experts;            ///< of all experts
  std::size_t tp = 1;       ///< ranks that share each expert's matrices
  std::size_t tp_rank = 0;  ///< which of them this is
  std::string data_group;   ///< of the experts' gradients
};

/// @brief down_e(silu(gate_e(x)) * up_e(x)) for the rows of each expert e.
///
/// With tp, each rank has a part of every expert's width, and the ranks' results add up. Weights
/// have the names of the model's family (checkpoint::ExpertNames).
/// Saves "gate_up/input", "gate", "up" and "down/input", which is remakeable.
class Experts : public nn::Module {
 public:
  /// @param layer  index of the block, for the names of the weights.
  Experts(const nn::BuildContext& context, std::size_t layer, const MoeConfig& config,
          const LocalExperts& share);

  /// @brief The outputs of the rows; with tp, this rank's part of the sum.
  /// @param x     [rows, hidden], expert by expert.
  /// @param rows  [held experts] rows of each.
  /// @return [rows, hidden].
  [[nodiscard]] Tensor forward(const Tensor& x, std::span<const std::size_t> rows,
                               nn::Saved& saved);

  /// @brief The gradient of the rows, and of the weights.
  [[nodiscard]] Tensor backward(const Tensor& d_y, std::span<const std::size_t> rows,
                                nn::Saved& saved);

  [[nodiscard]] std::vector<nn::Parameter*> parameters() override;

  /// @brief Puts other linear maps around these, as a factory does with those of dense layers.
  void wrap(const WrapExpertLinears& wrapper);

 private:
  std::unique_ptr<ExpertLinears> gate_up_;  // w1 and w3, [ffn / tp, hidden]
  std::unique_ptr<ExpertLinears> down_;     // w2, [hidden, ffn / tp]
};

/// @brief What all names of a layer begin with: "model.layers.L.block_sparse_moe" or what the
/// model's family calls it.
[[nodiscard]] std::string moe_prefix(const nn::ModelConfig& model, std::size_t layer);

}  // namespace ultra::expert_parallel
