// Attention's gradients have the same bits in every run, although blocks add to d_q side by side: on a
// GPU, where nobody knows in which order blocks get there.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/problem_buffers.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "chapters/09_kernels/rung.hpp"
#include "kernels/device/device_info.hpp"
#include "kernels/ladders/attention/attention_backward_bf16/attention_backward_bf16.hpp"

namespace ultra::ladders::repeated_gradients_gpu_test {

namespace rungs_of = kernels::attention_backward_bf16;
using simt::bf16;

// d_q of 16 heads of 2048 tokens: 16 blocks add to the last queries of a head.
std::vector<bf16> gradients_of_queries(bool is_causal) {
  const kernels::attention::Shape shape{.batch = 1,
                                        .kv_heads = 16,
                                        .group = 1,
                                        .seq_len = 2048,
                                        .head_dim = 128,
                                        .causal = is_causal,
                                        .scale = 0.125F};
  const std::size_t count = shape.rows() * 128;
  ProblemBuffers buffers(simt::Executor::kGpu);
  const auto draw = [&](const char* name) {
    return buffers.input(name, to_bf16(normal_values(count, 1, name)));
  };
  const rungs_of::OrderedProblem problem{
      {{.shape = shape,
        .q = draw("q"),
        .k = draw("k"),
        .v = draw("v"),
        .o = draw("o"),
        .lse = buffers.input("lse", std::vector<float>(shape.rows(), 8.0F)),
        .d_o = draw("d_o"),
        .delta = buffers.output("delta", shape.rows()),
        .d_q = buffers.output<bf16>("d_q", count),
        .d_k = buffers.output<bf16>("d_k", count),
        .d_v = buffers.output<bf16>("d_v", count)},
       buffers.scratch("d_q_sums", rungs_of::d_q_sums_of(shape)),
       buffers.scratch<unsigned>("turns", rungs_of::turns_of(shape))}};
  everywhere<rungs_of::OrderedProblem>([]<simt::Executor executor>(const auto&... a) {
    rungs_of::one_kernel<executor>(a...);
  }).on(simt::Executor::kGpu)(problem, {});
  return buffers.download(problem.d_q);
}

TEST(RepeatedGradientsOnGpu, HaveTheSameBits) {
  const std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  if (devices.empty() || devices.front().compute_capability_major != 9) {
    GTEST_SKIP() << "no GPU of compute capability 9.0 on this machine";
  }
  for (const bool is_causal : {false, true}) {
    const std::vector<bf16> first = gradients_of_queries(is_causal);
    for (int run = 0; run < 10; ++run) {
      const std::vector<bf16> again = gradients_of_queries(is_causal);
      EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(bf16)), 0)
          << "run " << run;
    }
  }
}

}  // namespace ultra::ladders::repeated_gradients_gpu_test
