#pragma once
/// @file
/// The chapter's written-out functions as parts of a trainer: the first use of injection.

#include <memory>
#include <string>
#include <string_view>

#include "chapters/01_memory/recompute_mode.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/ops/adamw.hpp"
#include "common/train/cli/step_config.hpp"

namespace ultra::memory {

/// @brief Wraps a factory so that the norms run rms_norm_backward_row; on a device with streams, whose
/// memory that does not reach, the operation that it writes out.
class WrittenNormFactory : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  [[nodiscard]] std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                                const nn::NormSpec& spec) override;
};

/// @brief Wraps the last factory so that the written norms run and blocks recompute as the
/// configuration says.
/// @throws ConfigError when the configuration is not valid.
void wrap_written_parts(train::FactoryStack& factories, const RecomputeConfig& recompute);

/// @brief ops::adamw_into by way of adamw_step, on the host.
void written_adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                   const Tensor& second_moment, const ops::AdamWStep& constants);

/// @brief The rule of --optimizer, with the written AdamW.
[[nodiscard]] optim::Rule written_rule(std::string_view optimizer);

}  // namespace ultra::memory
