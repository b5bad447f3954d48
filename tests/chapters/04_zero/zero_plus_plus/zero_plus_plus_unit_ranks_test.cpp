// Units that travel quantised, or of which nodes keep copies: whose weights are there, what memory
// they take, and what each gather sends to whom.
//
// Covers: chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp

#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"

#include "tests/chapters/04_zero/zero_plus_plus/zero_plus_plus_case.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using Values = std::vector<double>;

/// One rank's unit of a few parameters, as a model's block.
struct UnitRank {
  UnitRank(const Communicator& dp, const ZeroCase& c)
      : shards(dp),
        how(c.settings.plus_plus),
        model(c.options.model, device, c.options.dtype, c.options.seed, factory,
              nn::StageSpec::whole(c.options.model), nn::Values::kDeferred) {
    std::optional<NodeGroups> nodes;
    if (how.node_size) nodes = make_node_groups(dp, *how.node_size);
    for (const ParameterGroup& group : groups_of(model, c)) {
      units.push_back(std::make_unique<ZeroPlusPlusUnit>(group, dp, how, nodes));
      groups.push_back(group);
    }
  }

  [[nodiscard]] std::size_t in_use(MemoryCategory category) const {
    return device.memory().current()[category];
  }

  /// Gathers a unit, looks at it and lets go of it.
  void use(std::size_t unit, UseKind kind, const std::function<void()>& look = {}) {
    units[unit]->next_use(kind);
    units[unit]->start_gather();
    units[unit]->wait();
    if (look) look();
    units[unit]->release();
  }

  /// All elements of a unit as its parameters have them, in the order of the array.
  [[nodiscard]] Values weights(std::size_t unit) const {
    Values all;
    for (const nn::Parameter* parameter : groups[unit].parameters) {
      const Values values = parameter->value().to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  /// What everybody should compute with: each shard as its owner's message says.
  [[nodiscard]] Values expected(std::size_t unit) const {
    const ParameterGroup& group = groups[unit];
    const Tensor& shard = units[unit]->shard();
    const Tensor whole = Tensor::zeros(Device::cpu(), {group.layout.padded}, shard.dtype());
    const Tensor own = whole.slice(0, shard_range(group.layout, shards.rank()));
    own.copy_from(shard);
    if (how.weights) {
      const std::size_t bytes = quantized_bytes(*how.weights, shard.numel(), shard.dtype());
      const Tensor message = Tensor::empty(Device::cpu(), {bytes / 4}, DType::kI32);
      quantize(*how.weights, own.clone(), message);
      const Tensor numbers = Tensor::empty(Device::cpu(), {shard.numel()}, shard.dtype());
      dequantize(*how.weights, message, numbers);
      own.copy_from(numbers);
    }
    shards.all_reduce(whole).wait();  // exact: the others have zeros there
    Values values = whole.to_vector();
    values.resize(group.layout.count);
    return values;
  }

  Communicator shards;
  ZeroPlusPlus how;
  Device device = Device::cpu();
  nn::DenseFactory factory;
  nn::Model model;
  std::vector<ParameterGroup> groups;
  std::vector<std::unique_ptr<ZeroPlusPlusUnit>> units;
};

/// At the forward-backward boundary the head is still there: no backward pass gathers it.
constexpr UseKind kPasses[] = {UseKind::kForward, UseKind::kForward, UseKind::kBackward};

class ZeroPlusPlusUnitTest : public ZeroPlusPlusTest {
 protected:
  /// On 1 to 8 ranks, with each way in which units travel.
  void for_ranks(const std::function<void(UnitRank&, const Communicator&)>& fn) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const char* list : {"weights-int8", "hierarchical", "weights-int8,hierarchical"}) {
        const ZeroCase c = draw_with(list, ranks, random.pick({DType::kF32, DType::kF64}));
        SCOPED_TRACE(text_of(c.settings.plus_plus));
        on_ranks(
            c,
            [&](Communicator& dp) {
              UnitRank rank(dp, c);
              fn(rank, dp);
            },
            in_rank_order(Progress::kOnCall));
      }
    }
  }
};

TEST_F(ZeroPlusPlusUnitTest, BothPassesOfAllRanksHaveTheWeightsThatTravelled) {
  for_ranks([](UnitRank& rank, const Communicator& dp) {
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      ZeroPlusPlusUnit& unit = *rank.units[u];
      for (int step = 0; step < 2; ++step) {
        const Values wanted = rank.expected(u);
        for (const UseKind pass : kPasses) {
          rank.use(u, pass, [&] {
            EXPECT_TRUE(rank.weights(u) == wanted) << "step " << step;
            unit.wait();  // it may be called again
            EXPECT_TRUE(rank.weights(u) == wanted);
          });
          EXPECT_FALSE(rank.groups[u].parameters.front()->has_value());
        }
        Random numbers(static_cast<std::uint64_t>(10 * step + dp.rank() + 1));
        numbers.fill(unit.shard(), 1.0);  // an update, of the exact weights
        EXPECT_TRUE(rank.expected(u) != wanted);
      }
    }
  });
}

TEST_F(ZeroPlusPlusUnitTest, ASecondaryShardIsOneNthOfWhatTravels) {
  for_ranks([](UnitRank& rank, const Communicator& dp) {
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      ZeroPlusPlusUnit& unit = *rank.units[u];
      const std::size_t before = rank.in_use(MemoryCategory::kParameters);
      const auto ranks = static_cast<std::size_t>(dp.size());
      const std::size_t travels =
          rank.how.weights ? ranks * quantized_bytes(*rank.how.weights, unit.shard().numel(),
                                                     unit.shard().dtype())
                           : ranks * unit.shard().nbytes();
      const bool kept = rank.how.secondary == SecondaryShards::kInNode;
      for (const UseKind pass : kPasses) {
        rank.use(u, pass);
        EXPECT_EQ(rank.in_use(MemoryCategory::kCommunication), 0U);
        EXPECT_EQ(unit.secondary().defined(), kept);
        EXPECT_EQ(rank.in_use(MemoryCategory::kParameters) - before,
                  kept ? travels / rank.how.node_size.value() : 0U);
      }
    }
  });
}

/// Notes in which groups of ranks operations take place.
struct Groups : CommObserver {
  void operation_ended(const OperationInfo& info, std::size_t, Clock::time_point,
                       Clock::time_point) override {
    names.push_back(info.communicator);
  }
  void waited(const OperationInfo&, Clock::time_point, Clock::time_point) override {}
  std::vector<std::string> names;
};

/// A pipeline has several micro-batches under way, of which each may gather for its backward pass.
TEST_F(ZeroPlusPlusUnitTest, ASecondaryShardOutlivesTheBackwardPassOfAnotherMicroBatch) {
  for (const char* list : {"hierarchical", "weights-int8,hierarchical"}) {
    ZeroCase c = draw_with(list, 4, DType::kF32);
    c.settings.plus_plus.node_size = 2;
    on_ranks(c, [&](Communicator& dp) {
      UnitRank rank(dp, c);
      const Values wanted = rank.expected(0);
      Groups groups;
      dp.set_observer(&groups);
      for (const UseKind kind : {UseKind::kForward, UseKind::kForward, UseKind::kRecomputation,
                                 UseKind::kBackward, UseKind::kForward, UseKind::kBackward}) {
        rank.use(0, kind, [&] { EXPECT_TRUE(rank.weights(0) == wanted); });
      }
      dp.set_observer(nullptr);
      EXPECT_THAT(groups.names,
                  ::testing::ElementsAre("world", "world", "node", "node", "world", "node"));
    });
  }
}

TEST_F(ZeroPlusPlusUnitTest, ReleasedUnitsTakeNoBuffersAndMessagesGoWhenTheUnitComes) {
  for_ranks([](UnitRank& rank, const Communicator& dp) {
    ZeroPlusPlusUnit& unit = *rank.units.front();
    const auto ranks = static_cast<std::size_t>(dp.size());
    const std::size_t whole = ranks * unit.shard().nbytes();
    unit.start_gather();
    EXPECT_EQ(rank.in_use(MemoryCategory::kCommunication),
              rank.how.weights ? ranks * quantized_bytes(*rank.how.weights, unit.shard().numel(),
                                                         unit.shard().dtype())
                               : whole);
    unit.wait();
    EXPECT_EQ(rank.in_use(MemoryCategory::kCommunication), whole);
    unit.release();
    EXPECT_EQ(rank.in_use(MemoryCategory::kCommunication), 0U);
  });
}

}  // namespace
}  // namespace ultra::zero
