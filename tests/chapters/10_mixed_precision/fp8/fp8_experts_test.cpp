// Experts in fp8 on one rank: each expert's products are those of a linear layer of its own.

#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"

#include <numeric>

#include "common/comm/run_ranks.hpp"
#include "common/nn/layers/linear.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using expert_parallel::GroupedExpertLinears;

constexpr std::size_t kMaps = 2;

class Fp8Experts : public ultra::test::RandomTest {
 protected:
  /// The weights of each map and expert.
  GroupedExpertLinears::Weights weights(std::size_t map, std::size_t experts, std::size_t in,
                                        std::size_t out) {
    GroupedExpertLinears::Weights all;
    for (std::size_t e = 0; e < experts; ++e) {
      all.push_back(std::make_unique<nn::Parameter>(
          nn::ParameterSpec{.name = fmt::format("model.layers.0.{}.{}.weight", map, e),
                            .global_shape = {out, in},
                            .shard = {{0, out}, {0, in}},
                            .initializer = {.standard_deviation = 0.1}},
          device, nn::Precision(DType::kF64), seed, nn::Values::kAllocated));
    }
    return all;
  }

  Device device = Device::cpu();
};

TEST_F(Fp8Experts, EachExpertIsALayerInFp8) {
  run_ranks(1, [&](Communicator& one) {
    const nn::ModelConfig config;
    nn::DenseFactory dense;
    const nn::BuildContext context{config, device, DType::kF64, seed, nullptr, dense};
    const Fp8Scope scope{
        .recipe = {.scaling = Scaling::kBlockwise}, .tp = one, .tokens = one, .history_copies = {}};
    const std::size_t in = random.between(1, 300);
    const std::size_t out = random.between(1, 300);
    std::vector<std::size_t> rows = {random.between(1, 9), 0, random.between(1, 9)};
    const std::size_t all = std::reduce(rows.begin(), rows.end());
    std::vector<GroupedExpertLinears::Weights> maps;
    for (std::size_t map = 0; map < kMaps; ++map)
      maps.push_back(weights(map, rows.size(), in, out));
    Fp8ExpertLinears experts(context, std::make_unique<GroupedExpertLinears>(std::move(maps)),
                             scope);
    const Tensor x = random.tensor(device, {all, in}, DType::kF64, 3.0);
    const std::vector<Tensor> d_y = {random.tensor(device, {all, out}, DType::kF64, 1e-6),
                                     random.tensor(device, {all, out}, DType::kF64, 1e3)};
    nn::Saved saved;
    const std::vector<Tensor> y = experts.forward(x, rows, saved);
    EXPECT_EQ(saved.bytes(), all * ((in + 3) / 4 * 4) + 4 * all * ((in + 127) / 128));
    const Tensor d_x = experts.backward(d_y, rows, saved);
    EXPECT_TRUE(saved.empty());

    Fp8Factory fp8(dense, scope);
    std::size_t begin = 0;
    for (std::size_t e = 0; e < rows.size(); ++e) {
      const Range group{begin, begin + rows[e]};
      begin = group.end;
      if (rows[e] == 0) continue;
      const auto maps_of_expert = fp8.column_linear(
          context,
          {{"model.layers.0.a.weight", in, out, 0.1}, {"model.layers.0.b.weight", in, out, 0.1}});
      const auto of = [&](std::size_t map) { return experts.parameters()[map * rows.size() + e]; };
      for (std::size_t map = 0; map < kMaps; ++map) {
        maps_of_expert->parameters()[map]->value().copy_from(of(map)->value());
      }
      nn::Saved kept;
      const auto part = [&](const Tensor& t) {
        return t.slice(0, group).contiguous().view({1, rows[e], t.size(1)});
      };
      const std::vector<Tensor> expected = maps_of_expert->forward(part(x), kept);
      const std::vector<Tensor> gradients = {part(d_y[0]), part(d_y[1])};
      EXPECT_TRUE(test::all_equal(part(d_x), maps_of_expert->backward(gradients, kept)));
      for (std::size_t map = 0; map < kMaps; ++map) {
        EXPECT_TRUE(test::all_equal(part(y[map]), expected[map]));
        EXPECT_TRUE(test::all_equal(of(map)->grad(), maps_of_expert->parameters()[map]->grad()));
      }
    }
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
