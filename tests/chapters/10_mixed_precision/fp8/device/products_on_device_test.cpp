// Which products a device computes in fp8, and that they are those of the CPU.
//
// Covers: common/ops/fp8/fp8_products.hpp

#include "common/ops/fp8/fp8_products.hpp"

#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/nn/layers/linear.hpp"
#include "common/ops/matmul.hpp"
#include "tests/support/emulated_device.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using ops::Transpose;

/// What a pass gave, on the CPU, and how many factors it packed.
struct Passed {
  Tensor weight;
  std::vector<Tensor> results;  // y, d_x, d_weight
  std::size_t packed_forward = 0;
  std::size_t packed_backward = 0;
};

/// The sizes of all terms of each element of a product.
std::vector<double> sums_of_sizes(const Tensor& a, Transpose transpose_a, const Tensor& b,
                                  Transpose transpose_b) {
  const auto sizes = [](const Tensor& x) {
    const Tensor all = ops::as_matrix(x).to(DType::kF64).clone();
    for (double& number : all.span<double>()) number = std::abs(number);
    return all;
  };
  return ops::matmul(sizes(a), transpose_a, sizes(b), transpose_b).to_vector();
}

class ProductsOnDevice : public ultra::test::RandomTest {
 protected:
  /// Columns of the whole weight that are here.
  Range columns{0, 8 * random.between(8, 40)};
  std::size_t out = 8 * random.between(8, 40);
  std::size_t tokens = random.between(64, 300);
  Tensor x = random.tensor(Device::cpu(), {1, tokens, columns.size()}, DType::kBF16, 3.0);
  Tensor d_y = random.tensor(Device::cpu(), {1, tokens, out}, DType::kBF16, 1e-6);

  [[nodiscard]] Passed pass(const Communicator& one, const Device& device, Scaling scaling) const {
    const nn::ModelConfig config;
    nn::DenseFactory dense;
    const nn::BuildContext context{config, device, DType::kBF16, seed, nullptr, dense};
    Fp8Linear map(context,
                  std::make_unique<nn::DenseLinear>(
                      nn::ParameterSpec{.name = "model.layers.0.a.weight",
                                        .global_shape = {out, columns.end},
                                        .shard = {{0, out}, columns},
                                        .initializer = {.standard_deviation = 0.1}},
                      device, nn::Precision(DType::kBF16), seed, nn::Values::kAllocated),
                  {.recipe = {.scaling = scaling}, .tp = one, .tokens = one});
    std::size_t packed = 0;
    if (has_streams(device.kind())) {
      device.streams().set_listener([&](const gpu::StreamSlice& slice) {
        if (slice.operation == "fp8_factor") ++packed;
      });
    }
    Passed passed;
    nn::Saved saved;
    passed.results.push_back(map.forward(x.to(device), saved));
    passed.packed_forward = packed;
    passed.results.push_back(map.backward(d_y.to(device), saved));
    passed.packed_backward = packed - passed.packed_forward;
    if (has_streams(device.kind())) device.streams().set_listener(nullptr);
    const nn::Parameter& weight = *map.parameters().front();
    passed.results.push_back(weight.grad());
    for (Tensor& result : passed.results) result = result.to(Device::cpu());
    passed.weight = weight.value().to(Device::cpu());
    return passed;
  }

  /// Both are sums in f32 of the same terms, rounded once.
  void expect_the_cpus(const Passed& found, const Passed& cpu) const {
    const std::vector<std::vector<double>> sizes = {
        sums_of_sizes(x, Transpose::kNo, cpu.weight, Transpose::kYes),
        sums_of_sizes(d_y, Transpose::kNo, cpu.weight, Transpose::kNo),
        sums_of_sizes(d_y, Transpose::kYes, x, Transpose::kNo)};
    const std::vector<std::size_t> terms = {columns.size(), out, tokens};
    constexpr double kOnGrid = 1.25;  // rounding to fp8 makes numbers an eighth larger at most
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<double> expected = cpu.results[i].to_vector();
      std::vector<double> tolerances;
      for (std::size_t k = 0; k < expected.size(); ++k) {
        tolerances.push_back(
            2 * rounding_bound(DType::kBF16, 1, std::abs(expected[k])) +
            2 * rounding_bound(DType::kF32, count_of(terms[i] + 2), kOnGrid * sizes[i][k]));
      }
      EXPECT_TRUE(test::all_near(found.results[i], expected, tolerances)) << "result " << i;
    }
  }
};

TEST_F(ProductsOnDevice, AnH100sAreInFp8AndTheCpus) {
  run_ranks(1, [&](Communicator& one) {
    for (const Scaling scaling :
         {Scaling::kNone, Scaling::kDelayed, Scaling::kCurrent, Scaling::kBlockwise}) {
      SCOPED_TRACE(static_cast<int>(scaling));
      const Passed cpu = pass(one, Device::cpu(), scaling);
      const Passed h100 = pass(one, test::emulated_device("9"), scaling);
      const Passed other = pass(one, test::emulated_device(""), scaling);
      expect_the_cpus(h100, cpu);
      expect_the_cpus(other, cpu);
      EXPECT_EQ(h100.packed_forward, 2U) << "two factors";
      EXPECT_EQ(h100.packed_backward, scaling == Scaling::kBlockwise ? 2U : 4U)
          << "tiles cross the sums of a weight's gradient";
      EXPECT_EQ(other.packed_forward + other.packed_backward, 0U);
    }
  });
}

TEST_F(ProductsOnDevice, TilesThatBeginElsewhereAreMultipliedInBf16) {
  run_ranks(1, [&](Communicator& one) {
    columns = {64, 64 + columns.size()};
    for (const Scaling scaling : {Scaling::kCurrent, Scaling::kBlockwise}) {
      SCOPED_TRACE(static_cast<int>(scaling));
      const Passed cpu = pass(one, Device::cpu(), scaling);
      const Passed h100 = pass(one, test::emulated_device("9"), scaling);
      expect_the_cpus(h100, cpu);
      const bool has_one_scale = scaling == Scaling::kCurrent;  // a tile that is never cut
      EXPECT_EQ(h100.packed_forward, has_one_scale ? 2U : 0U);
      EXPECT_EQ(h100.packed_backward, has_one_scale ? 4U : 0U);
    }
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
