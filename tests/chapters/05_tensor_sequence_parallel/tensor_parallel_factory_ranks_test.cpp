// Models made by the factory: shards of all weights, and the gradients of one device.

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"

#include "common/nn/model.hpp"
#include "tests/chapters/05_tensor_sequence_parallel/split_run.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::tensor_parallel {
namespace {

using namespace tensor_parallel::test;

class FactoryTest : public SplitTest {
 protected:
  /// A weight's shard of a whole tensor, without the padding.
  static Tensor shard_of(const nn::Parameter& parameter, const Tensor& whole) {
    Tensor shard = whole;
    for (std::size_t dim = 0; dim < parameter.shard().size(); ++dim) {
      shard = shard.slice(static_cast<int>(dim), parameter.shard()[dim]);
    }
    return shard.contiguous();
  }

  static Tensor without_padding(const nn::Parameter& parameter, const Tensor& values) {
    const Range& rows = parameter.shard()[0];
    return values.slice(0, {0, rows.size()}).contiguous();
  }
};

TEST_F(FactoryTest, RanksStartWithTheirShardsOfTheWholeWeights) {
  for (const std::size_t tp : {1U, 2U, 3U, 4U}) {
    const Split how = draw_split();
    const MeshCase c = draw({.tp = tp}, DType::kF32, how);
    on_mesh(c, [&](Communicator& ranks) {
      nn::DenseFactory dense;
      TensorParallelFactory split(dense, ranks, how.sequence_parallel, how.overlap);
      const nn::Model model(c.options.model, Device::cpu(), DType::kF32, seed, split);
      const nn::Model whole(c.options.model, Device::cpu(), DType::kF32, seed, dense);
      ASSERT_EQ(model.parameters().size(), whole.parameters().size());
      for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
        const nn::Parameter& own = *model.parameters()[i];
        SCOPED_TRACE(own.name());
        EXPECT_EQ(own.name(), whole.parameters()[i]->name());
        EXPECT_EQ(own.global_shape(), whole.parameters()[i]->global_shape());
        EXPECT_TRUE(all_equal(without_padding(own, own.value()),
                              shard_of(own, whole.parameters()[i]->value())));
      }
    });
  }
}

TEST_F(FactoryTest, HeadsStayWholeAndFewHeadsAreCopied) {
  const nn::LinearSpec keys{.name = "k",
                            .in_features = 6,
                            .out_features = 8,
                            .standard_deviation = 0.02,
                            .output_heads = 2};
  const TensorParallelLayout four{.tp = 4};
  for (int rank = 0; rank < 4; ++rank) {
    const nn::ParameterSpec shard = column_shard(keys, four, rank);
    const std::size_t head = rank < 2 ? 0 : 1;
    EXPECT_EQ(shard.shard[0], (Range{4 * head, 4 * head + 4}));
    EXPECT_EQ(shard.padding, 0U);
    EXPECT_EQ(column_replication(keys, four, rank),
              (nn::Replication{.group = std::string(kHeadGroup),
                               .size = 2,
                               .index = rank % 2,
                               .gradients = nn::CopyGradients::kPartial}));
  }
  EXPECT_EQ(column_replication(keys, {.tp = 2}, 1).size, 1);
  EXPECT_EQ(row_shard(keys, {.tp = 3}, 1).shard[1], (Range{2, 4}));
}

TEST_F(FactoryTest, AVocabularyThatDoesNotDivideIsPadded) {
  const nn::LinearSpec head{
      .name = "lm_head", .in_features = 2, .out_features = 10, .standard_deviation = 0.02};
  std::vector<Range> rows;
  std::vector<std::size_t> padding;
  for (int rank = 0; rank < 4; ++rank) {
    const nn::ParameterSpec shard = column_shard(head, {.tp = 4}, rank);
    rows.push_back(shard.shard[0]);
    padding.push_back(shard.padding);
  }
  EXPECT_EQ(rows, (std::vector<Range>{{0, 3}, {3, 6}, {6, 9}, {9, 10}}));
  EXPECT_EQ(padding, (std::vector<std::size_t>{0, 0, 0, 2}));
}

}  // namespace
}  // namespace ultra::tensor_parallel
