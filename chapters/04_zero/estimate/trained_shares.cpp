#include "chapters/04_zero/estimate/trained_shares.hpp"

namespace ultra::zero {

RankBytes in_formats(const memory::StoredFormats& formats, const RankBytes& of_fp32) {
  const memory::StateBytes fp32 = memory::bytes_per_parameter(memory::NumberFormats::kFp32);
  const auto in = [](double bytes, double width, std::size_t fp32_width) {
    return bytes / static_cast<double>(fp32_width) * width;
  };
  return {.parameters = in(of_fp32.parameters, formats.states.parameters, fp32.parameters),
          .gradients = in(of_fp32.gradients, formats.states.gradients, fp32.gradients),
          .optimizer = in(of_fp32.optimizer, formats.states.optimizer(), fp32.optimizer)};
}

RankBytes history_bytes(const memory::StoredFormats& formats, std::size_t numbers) {
  const auto all = static_cast<double>(numbers);
  const auto states = static_cast<double>(formats.states.states);
  return {.parameters = 4 * all, .gradients = 4 * all, .optimizer = 4 * states * all};
}

RankBytes trained_bytes_per_rank(const memory::StoredFormats& formats, const Sharding& sharding,
                                 std::size_t parameters, std::size_t layers) {
  const RankBytes shares =
      in_formats(formats, bytes_per_rank(sharding, parameters, memory::NumberFormats::kFp32));
  const RankBytes histories = history_bytes(formats, layers * formats.block_history());
  return {.parameters = shares.parameters + histories.parameters,
          .gradients = shares.gradients + histories.gradients,
          .optimizer = shares.optimizer + histories.optimizer};
}

}  // namespace ultra::zero
