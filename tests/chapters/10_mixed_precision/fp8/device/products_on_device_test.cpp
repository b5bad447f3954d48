// Which products a device computes in fp8, and that they are those of the CPU.
//
// Covers: common/ops/fp8/fp8_products.hpp

#include "common/ops/fp8/fp8_products.hpp"

#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/nn/layers/linear.hpp"
#include "tests/support/emulated_device.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

/// What a pass gave, on the CPU, and how many factors it packed.
struct Passed {
  std::vector<Tensor> results;
  std::size_t packed_forward = 0;
  std::size_t packed_backward = 0;
};

class ProductsOnDevice : public ultra::test::RandomTest {
 protected:
  /// Columns of the whole weights that are here.
  Range columns{0, 8 * random.between(8, 40)};
  std::size_t tokens = random.between(64, 150);
  std::vector<std::size_t> outs{8 * random.between(8, 40), 8 * random.between(8, 40)};
  Tensor x = random.tensor(Device::cpu(), {1, tokens, columns.size()}, DType::kBF16, 3.0);

  [[nodiscard]] std::vector<Tensor> gradients() {
    std::vector<Tensor> d_y;
    for (const std::size_t out : outs) {
      d_y.push_back(random.tensor(Device::cpu(), {1, tokens, out}, DType::kBF16, 1e-6));
    }
    return d_y;
  }

  [[nodiscard]] Passed pass(const Communicator& one, const Device& device, Scaling scaling,
                            const std::vector<Tensor>& d_y) const {
    std::vector<nn::ParameterSpec> weights;
    for (std::size_t map = 0; map < outs.size(); ++map) {
      weights.push_back({.name = fmt::format("model.layers.0.{}.weight", map),
                         .global_shape = {outs[map], columns.end},
                         .shard = {{0, outs[map]}, columns},
                         .initializer = {.standard_deviation = 0.1}});
    }
    const nn::ModelConfig config;
    nn::DenseFactory dense;
    const nn::BuildContext context{config, device, DType::kBF16, seed, nullptr, dense};
    Fp8Projections maps(
        context,
        std::make_unique<nn::DenseProjections>(
            std::move(weights), device, nn::Precision(DType::kBF16), seed, nn::Values::kAllocated),
        {.recipe = {.scaling = scaling}, .tp = one, .tokens = one});
    std::size_t packed = 0;
    if (has_streams(device.kind())) {
      device.streams().set_listener([&](const gpu::StreamSlice& slice) {
        if (slice.operation == "fp8_factor") ++packed;
      });
    }
    Passed passed;
    nn::Saved saved;
    passed.results = maps.forward(x.to(device), saved);
    passed.packed_forward = packed;
    std::vector<Tensor> there;
    for (const Tensor& each : d_y) there.push_back(each.to(device));
    passed.results.push_back(maps.backward(there, saved));
    passed.packed_backward = packed - passed.packed_forward;
    for (std::size_t map = 0; map < outs.size(); ++map) {
      passed.results.push_back(maps.parameters()[map]->grad());
    }
    for (Tensor& result : passed.results) result = result.to(Device::cpu());
    if (has_streams(device.kind())) device.streams().set_listener(nullptr);
    return passed;
  }

  void expect_the_cpus(const Passed& found, const Passed& cpu) const {
    for (std::size_t i = 0; i < cpu.results.size(); ++i) {
      const std::vector<double> expected = cpu.results[i].to_vector();
      // Sums of at most 320 terms in f32, rounded to bf16; d_x is one of two such.
      EXPECT_TRUE(
          test::all_near(found.results[i], expected,
                         4.0 * rounding_bound(DType::kBF16, 1, test::largest_magnitude(expected))))
          << "result " << i;
    }
  }
};

TEST_F(ProductsOnDevice, AnH100sAreInFp8AndTheCpus) {
  run_ranks(1, [&](Communicator& one) {
    for (const Scaling scaling :
         {Scaling::kNone, Scaling::kDelayed, Scaling::kCurrent, Scaling::kBlockwise}) {
      SCOPED_TRACE(static_cast<int>(scaling));
      const std::vector<Tensor> d_y = gradients();
      const Passed cpu = pass(one, Device::cpu(), scaling, d_y);
      const Passed h100 = pass(one, test::emulated_device("9"), scaling, d_y);
      const Passed other = pass(one, test::emulated_device(""), scaling, d_y);
      expect_the_cpus(h100, cpu);
      expect_the_cpus(other, cpu);
      EXPECT_EQ(h100.packed_forward, 4U) << "two factors of two products";
      EXPECT_EQ(h100.packed_backward, scaling == Scaling::kBlockwise ? 4U : 8U)
          << "tiles cross the sums of a weight's gradient";
      EXPECT_EQ(other.packed_forward + other.packed_backward, 0U);
    }
  });
}

TEST_F(ProductsOnDevice, TilesThatBeginElsewhereAreMultipliedInBf16) {
  run_ranks(1, [&](Communicator& one) {
    columns = {64, 64 + columns.size()};
    const std::vector<Tensor> d_y = gradients();
    for (const Scaling scaling : {Scaling::kCurrent, Scaling::kBlockwise}) {
      const Passed cpu = pass(one, Device::cpu(), scaling, d_y);
      const Passed h100 = pass(one, test::emulated_device("9"), scaling, d_y);
      expect_the_cpus(h100, cpu);
      const bool has_one_scale = scaling == Scaling::kCurrent;  // a tile that is never cut
      EXPECT_EQ(h100.packed_forward, has_one_scale ? 4U : 0U);
      EXPECT_EQ(h100.packed_backward, has_one_scale ? 8U : 0U);
    }
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
