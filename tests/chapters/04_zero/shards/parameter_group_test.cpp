#include "chapters/04_zero/shards/parameter_group.hpp"

#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::zero {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

class ParameterGroupTest : public test::RandomTest {
 protected:
  [[nodiscard]] nn::Model model() {
    return {
        config, device, dtype, seed, factory, nn::StageSpec::whole(config), nn::Values::kDeferred};
  }

  [[nodiscard]] std::vector<ParameterGroup> by_bucket(nn::Model& of, std::size_t capacity) const {
    nn::Model* const chunk = &of;
    return groups_by_bucket({&chunk, 1}, of.parameters(), capacity, ranks);
  }
  [[nodiscard]] std::vector<ParameterGroup> by_part(nn::Model& of) const {
    nn::Model* const chunk = &of;
    return groups_by_part({&chunk, 1}, of.parameters(), ranks);
  }

  static std::vector<std::string> names_of(const std::vector<ParameterGroup>& groups) {
    std::vector<std::string> names;
    for (const ParameterGroup& group : groups) names.push_back(group.name);
    return names;
  }

  nn::ModelConfig config = test::random_model_config(random);
  DType dtype = random.pick({DType::kF32, DType::kF64});
  int ranks = static_cast<int>(random.between(1, 7));
  nn::DenseFactory factory;
};

TEST_F(ParameterGroupTest, BucketsAreThoseOfChapter03) {
  nn::Model deferred = model();
  std::vector<std::size_t> counts;
  for (const nn::Parameter* parameter : deferred.parameters()) counts.push_back(parameter->count());
  for (const std::size_t capacity : {std::size_t{0}, random.between(1, 2000), kEverything}) {
    const std::vector<ParameterGroup> groups = by_bucket(deferred, capacity);
    EXPECT_EQ(as_buckets(groups), data_parallel::assign_buckets(counts, capacity));
    EXPECT_EQ(groups.front().name, "bucket 0");
  }
}

TEST_F(ParameterGroupTest, PartsStandInTheOrderOfTheBackwardPass) {
  config.num_layers = 2;
  nn::Model deferred = model();
  const std::vector<ParameterGroup> groups = by_part(deferred);
  EXPECT_THAT(names_of(groups), ::testing::ElementsAre("head", "block 1", "block 0", "embedding"));
  EXPECT_THAT(groups.back().numbers, ::testing::ElementsAre(0)) << "the first of the forward pass";
  EXPECT_EQ(groups.front().numbers.back(), deferred.parameters().size() - 1);
}

TEST_F(ParameterGroupTest, EveryParameterIsInOneGroup) {
  nn::Model deferred = model();
  for (const auto& groups : {by_part(deferred), by_bucket(deferred, 500)}) {
    std::vector<std::size_t> numbers;
    for (const ParameterGroup& group : groups) {
      std::vector<std::size_t> counts;
      for (std::size_t i = 0; i < group.numbers.size(); ++i) {
        EXPECT_EQ(group.parameters[i], deferred.parameters()[group.numbers[i]]);
        counts.push_back(group.parameters[i]->count());
      }
      EXPECT_EQ(group.layout, flat_layout(counts, ranks));
      numbers.insert(numbers.end(), group.numbers.begin(), group.numbers.end());
    }
    std::ranges::sort(numbers);
    std::vector<std::size_t> all(deferred.parameters().size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(numbers, all);
  }
}

/// Each rank makes the elements of its own shard, and zeros for padding.
TEST_F(ParameterGroupTest, InitialValuesDoNotDependOnTheRankThatMakesThem) {
  ranks = 7;  // which divide hardly any group
  nn::Model deferred = model();
  const nn::Model plain(config, device, dtype, seed, factory);
  for (const ParameterGroup& group : by_bucket(deferred, 700)) {
    std::vector<double> expected(group.layout.padded, 0.0);
    for (std::size_t i = 0; i < group.numbers.size(); ++i) {
      const std::vector<double> values = plain.parameters()[group.numbers[i]]->value().to_vector();
      std::ranges::copy(
          values, expected.begin() + static_cast<std::ptrdiff_t>(group.layout.places[i].begin));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const Range own = shard_range(group.layout, rank);
      const Tensor made = group.flat(own.size(), MemoryCategory::kParameters);
      made.fill(7);
      group.initialize(made, rank);
      EXPECT_TRUE(test::all_equal(
          made, std::vector<double>(expected.begin() + static_cast<std::ptrdiff_t>(own.begin),
                                    expected.begin() + static_cast<std::ptrdiff_t>(own.end))))
          << group.name << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace ultra::zero
