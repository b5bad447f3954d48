#pragma once
/// @file
/// A quiet training run with the chapter's own parts, wired as its executable wires them.

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "common/train/trainer.hpp"
#include "tests/support/short_run.hpp"

namespace ultra::memory::test {

inline train::TrainResult chapter_run(const train::TrainOptions& options,
                                      const RecomputeConfig& recompute = {}) {
  nn::DenseFactory dense;
  WrittenNormFactory written(dense);
  RecomputeFactory factory(written, recompute);
  const auto forward_backward = [&](nn::Model& model, const data::Sampler& sampler,
                                    std::size_t step) {
    return accumulate_gradients(model, sampler, step, options.micro_batch);
  };
  train::TrainResult result;
  static_cast<void>(ultra::test::printed_by([&] {
    result = train::train(options, {.factory = factory,
                                    .forward_backward = forward_backward,
                                    .update = train::clipped_adamw(options, written_adamw),
                                    .extra_config = {}});
  }));
  return result;
}

}  // namespace ultra::memory::test
