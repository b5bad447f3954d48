#include "chapters/04_zero/estimate/trained_shares.hpp"

#include "chapters/01_memory/estimate/trained_bytes.hpp"

namespace ultra::zero {

RankBytes in_formats_of(const train::TrainOptions& options, const RankBytes& of_fp32) {
  const memory::StateWidths widths = memory::state_widths(options);
  const memory::StateBytes fp32 = memory::bytes_per_parameter(memory::Precision::kFp32);
  const auto in = [](double bytes, double width, std::size_t fp32_width) {
    return bytes / static_cast<double>(fp32_width) * width;
  };
  return {.parameters = in(of_fp32.parameters, widths.parameters, fp32.parameters),
          .gradients = in(of_fp32.gradients, widths.gradients, fp32.gradients),
          .optimizer = in(of_fp32.optimizer, widths.optimizer, fp32.optimizer)};
}

RankBytes history_bytes(std::size_t numbers) {
  const auto all = static_cast<double>(numbers);
  return {.parameters = 4 * all, .gradients = 4 * all, .optimizer = 8 * all};
}

RankBytes trained_bytes_per_rank(const train::TrainOptions& options, const Sharding& sharding,
                                 std::size_t parameters, std::size_t layers) {
  const RankBytes shares =
      in_formats_of(options, bytes_per_rank(sharding, parameters, memory::Precision::kFp32));
  const RankBytes histories = history_bytes(layers * memory::block_history(options));
  return {.parameters = shares.parameters + histories.parameters,
          .gradients = shares.gradients + histories.gradients,
          .optimizer = shares.optimizer + histories.optimizer};
}

}  // namespace ultra::zero
