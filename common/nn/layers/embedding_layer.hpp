#pragma once
/// @file
/// The token table as a layer.

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief The parameter of a token table, whole.
[[nodiscard]] ParameterSpec embedding_spec(const ModelConfig& config);

/// @brief A table of one vector per token, [vocab_size, hidden_size]. Saves "tokens".
class DenseEmbedding : public TokenEmbedding {
 public:
  /// @brief A table for the context's vocabulary.
  explicit DenseEmbedding(const BuildContext& context);

  [[nodiscard]] Tensor forward(const Tensor& tokens, Saved& saved) override;
  void backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  Parameter table_;
};

}  // namespace ultra::nn
