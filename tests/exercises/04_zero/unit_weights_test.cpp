// Contract of exercise 04.4: gathered weights against those of a model that has them all, through
// cycles of gather, wait, update and release; and what memory each state takes.
#include "chapters/04_zero/unit_weights.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/model.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

using Values = std::vector<double>;

constexpr const char* kSet =
    "Hint: wait() gives every parameter of the group its value: group_.view(whole_, i).";
constexpr const char* kWait =
    "Hint: wait() waits for the all-gather: before, the other ranks' weights have not arrived.";
constexpr const char* kStale =
    "Hint: these are the weights before the update: each gather brings what shard() holds now.";
constexpr const char* kTakeAway =
    "Hint: release() takes the values away from the unit's parameters: whoever reads them too late "
    "must notice, and a view keeps the memory of the whole unit alive.";
constexpr const char* kFree =
    "Hint: release() lets go of whole_: the memory is free when no handle on it is left.";
constexpr const char* kViews =
    "Hint: the values are views of the array that the all-gather writes: a copy takes its memory "
    "twice.";
constexpr const char* kCategory =
    "Hint: the whole unit counts as MemoryCategory::kCommunication, the shard as kParameters.";
constexpr const char* kBegin =
    "Hint: start_gather() only begins to gather: the rank computes with another unit meanwhile.";
constexpr const char* kOnce =
    "Hint: start_gather() throws InternalError when the unit is there or under way: ensure().";
constexpr const char* kStartFirst = "Hint: wait() throws InternalError without start_gather().";
constexpr const char* kReleased =
    "Hint: release() throws InternalError when the unit was not gathered, or was released already.";

/// A model, and how many ranks share its units.
struct Case {
  nn::ModelConfig config;
  int ranks = 1;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    return fmt::format("L {} h {} f {} v {}, {}", config.num_layers, config.hidden_size,
                       config.ffn_hidden_size, config.vocab_size, to_string(dtype));
  }
  /// What the parameters start with, in the model's forward order.
  [[nodiscard]] std::vector<Values> initial_values() const {
    nn::DenseFactory factory;
    const nn::Model model(config, Device::cpu(), dtype, seed, factory);
    std::vector<Values> all;
    for (const nn::Parameter* parameter : model.parameters()) {
      all.push_back(parameter->value().to_vector());
    }
    return all;
  }
};

/// One rank's model, whose weights are shards.
class Rank {
 public:
  Rank(const Case& the_case, const Communicator& shards)
      : shards_(shards),
        model_(the_case.config, device_, the_case.dtype, the_case.seed, factory_,
               nn::StageSpec::whole(the_case.config), nn::Values::kDeferred) {
    nn::Model* const chunk = &model_;
    for (const ParameterGroup& group :
         groups_by_part({&chunk, 1}, model_.parameters(), shards.size())) {
      units.emplace_back(group, shards);
      ultra::test::leave_garbage(device_, group.layout.padded, the_case.dtype);
    }
  }

  [[nodiscard]] std::size_t bytes(MemoryCategory category) const {
    return device_.memory().current()[category];
  }
  [[nodiscard]] std::size_t unit_bytes(std::size_t unit) const {
    const ParameterGroup& group = units[unit].group();
    return group.layout.padded * size_of(group.parameters.front()->dtype());
  }
  [[nodiscard]] std::size_t total() const { return device_.memory().current().total(); }

  /// @param expected  of all parameters of the model.
  void expect_values(std::size_t unit, const std::vector<Values>& expected,
                     const std::string& hint) const {
    const ParameterGroup& group = units[unit].group();
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const nn::Parameter& parameter = *group.parameters[i];
      if (!parameter.has_value()) {
        ADD_FAILURE() << parameter.name() << " has no value after wait()\n" << kSet;
        return;
      }
      const auto same = ultra::test::all_equal(parameter.value(), expected[group.numbers[i]]);
      EXPECT_TRUE(same) << parameter.name() << " on rank " << shards_.rank() << "\n" << hint;
      if (!same) return;
    }
  }

  /// Whether the parameters of a unit have values, and those of the others too.
  void expect_there(const std::vector<bool>& there) const {
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      for (const nn::Parameter* parameter : units[unit].group().parameters) {
        EXPECT_EQ(parameter->has_value(), there[unit])
            << parameter->name() << (there[unit] ? " has no value" : " has a value") << "\n"
            << (there[unit] ? kSet : kTakeAway);
        if (parameter->has_value() != there[unit]) return;
      }
    }
  }

  void expect_released() const { expect_there(std::vector<bool>(units.size(), false)); }

  std::vector<UnitWeights> units;  ///< in backward order

 private:
  Communicator shards_;
  Device device_ = Device::cpu();
  nn::DenseFactory factory_;
  nn::Model model_;
};

class UnitWeightsTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks) {
    return {.config = ultra::test::random_model_config(random),
            .ranks = ranks,
            .dtype = random.pick({DType::kF32, DType::kF64}),
            .seed = seed};
  }

  /// Calls fn on 1 to 5 ranks, with what the parameters start with, until one fails.
  void for_ranks(const std::function<void(Rank& rank, const Communicator& shards,
                                          const std::vector<Values>& initial)>& fn,
                 const RankOptions& options = {}, const std::string& hint = "") {
    for (int ranks = 1; ranks <= 5 && !HasFailure(); ++ranks) {
      const Case the_case = draw(ranks);
      const std::vector<Values> initial = the_case.initial_values();
      const auto body = [&](Communicator& shards) {
        Rank rank(the_case, shards);
        fn(rank, shards, initial);
      };
      ultra::test::on_ranks(ranks, the_case.str(), body, options, hint);
    }
  }
};

// What is gathered --------------------------------------------------------------------------------

TEST_F(UnitWeightsTest, EachRankBeginsWithItsShardOfTheInitialWeights) {
  for_ranks([](Rank& rank, const Communicator& shards, const std::vector<Values>& initial) {
    std::size_t bytes = 0;
    for (std::size_t u = 0; u < rank.units.size(); ++u) {
      const ParameterGroup& group = rank.units[u].group();
      Values expected(group.layout.shard, 0.0);  // what no piece covers is padding
      for (const Piece& piece : pieces_of(group.layout, shards.rank())) {
        for (std::size_t e = 0; e < piece.elements.size(); ++e) {
          expected[piece.place.begin + e] =
              initial[group.numbers[piece.tensor]][piece.elements.begin + e];
        }
      }
      EXPECT_TRUE(ultra::test::all_equal(rank.units[u].shard(), expected)) << group.name;
      bytes += rank.units[u].shard().nbytes();
    }
    EXPECT_EQ(rank.bytes(MemoryCategory::kParameters), bytes) << "bytes of the shards";
    rank.expect_released();
  });
}

TEST_F(UnitWeightsTest, AUnitHasItsInitialWeightsAfterWait) {
  for_ranks([](Rank& rank, const Communicator&, const std::vector<Values>& initial) {
    rank.expect_released();
    for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
      rank.units[unit].start_gather();
      rank.units[unit].wait();
      std::vector<bool> there(rank.units.size(), false);
      there[unit] = true;
      rank.expect_there(there);
      rank.expect_values(unit, initial, kSet);
      rank.units[unit].wait();  // it may be called again
      rank.expect_values(unit, initial, kSet);
      rank.units[unit].release();
      rank.expect_released();
    }
  });
}

TEST_F(UnitWeightsTest, SeveralUnitsMayBeThereAtOnce) {
  for_ranks([](Rank& rank, const Communicator&, const std::vector<Values>& initial) {
    for (UnitWeights& unit : rank.units) unit.start_gather();
    for (std::size_t unit = rank.units.size(); unit-- > 0;) rank.units[unit].wait();
    for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
      rank.expect_values(unit, initial, kSet);
      rank.units[unit].release();
      std::vector<bool> there(rank.units.size(), true);
      std::fill_n(there.begin(), unit + 1, false);
      rank.expect_there(there);
    }
  });
}

/// The weights of step `step`, which differ everywhere from those of the step before.
double updated(int step, std::size_t unit, std::size_t element) {
  return 20.0 * step + ultra::test::whole_number(1, step, unit, element);
}

TEST_F(UnitWeightsTest, AnUpdateOfTheShardsIsThereAfterTheNextGather) {
  for_ranks([](Rank& rank, const Communicator& shards, const std::vector<Values>& initial) {
    std::vector<Values> expected = initial;
    for (int step = 1; step <= 3; ++step) {
      const std::vector<Values> before = expected;
      for (std::size_t u = 0; u < rank.units.size(); ++u) {
        UnitWeights& unit = rank.units[u];
        const FlatLayout& layout = unit.group().layout;
        for (std::size_t i = 0; i < unit.group().parameters.size(); ++i) {
          for (std::size_t e = 0; e < layout.places[i].size(); ++e) {
            expected[unit.group().numbers[i]][e] = updated(step, u, layout.places[i].begin + e);
          }
        }
        const std::size_t begin = shard_range(layout, shards.rank()).begin;
        dispatch_float(unit.shard().dtype(), [&]<class T>() {
          const std::span<T> own = unit.shard().span<T>();
          for (std::size_t e = 0; e < own.size(); ++e) {
            own[e] = static_cast<T>(updated(step, u, begin + e));
          }
        });
        unit.start_gather();
        unit.wait();
        const nn::Parameter& first = *unit.group().parameters.front();
        const bool stale =
            first.has_value() && first.value().to_vector() == before[unit.group().numbers.front()];
        rank.expect_values(u, expected, stale ? kStale : kSet);
        unit.release();
      }
    }
  });
}

TEST_F(UnitWeightsTest, EachGatherSendsTheOwnShardToTheOthers) {
  for_ranks([](Rank& rank, const Communicator& shards, const std::vector<Values>&) {
    std::size_t bytes = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
        rank.units[unit].start_gather();
        rank.units[unit].wait();
        rank.units[unit].wait();
        rank.units[unit].release();
        bytes += rank.unit_bytes(unit) / static_cast<std::size_t>(shards.size()) *
                 static_cast<std::size_t>(shards.size() - 1);
      }
    }
    EXPECT_EQ(shards.stats()[OpKind::kAllGather].sent_bytes, bytes) << "bytes sent to gather";
    EXPECT_EQ(shards.stats().sent_bytes(), bytes)
        << "bytes sent in all\nHint: one all-gather per start_gather(), (S-1)/S of the unit.";
  });
}

// What is under way -------------------------------------------------------------------------------

TEST_F(UnitWeightsTest, WaitEndsWhenTheLastRankHasJoined) {
  for_ranks([](Rank& rank, const Communicator& shards, const std::vector<Values>& initial) {
    ultra::test::come_late(shards);
    rank.units[0].start_gather();
    rank.units[0].wait();
    rank.expect_values(0, initial, kWait);
    shards.barrier();  // what nobody waited for ends before its memory is used again
    rank.units[0].release();
  });
}

/// Rank 0 is ahead of the others, who begin when it says so.
TEST_F(UnitWeightsTest, TheRankComputesWhileAUnitIsUnderWay) {
  const auto ahead = [](Rank& rank, const Communicator& shards,
                        const std::vector<Values>& initial) {
    const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
    if (shards.rank() > 0) shards.recv(word, 0);
    rank.units[0].start_gather();
    rank.units[1].start_gather();
    if (shards.rank() == 0) {
      for (int peer = 1; peer < shards.size(); ++peer) shards.send(word, peer);
    }
    for (const std::size_t unit : {0U, 1U}) {
      rank.units[unit].wait();
      rank.expect_values(unit, initial, kSet);
      rank.units[unit].release();
    }
  };
  for_ranks(ahead, {}, kBegin);
}

// Memory and errors -------------------------------------------------------------------------------

TEST_F(UnitWeightsTest, MemoryIsTakenFromStartGatherToRelease) {
  const auto measure = [](Rank& rank, const Communicator&, const std::vector<Values>&) {
    const std::size_t shards = rank.bytes(MemoryCategory::kParameters);
    const std::size_t before = rank.total();
    for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
      rank.units[unit].start_gather();
      EXPECT_EQ(rank.bytes(MemoryCategory::kCommunication), rank.unit_bytes(unit))
          << "bytes of the unit after start_gather()\n"
          << kCategory;
      rank.units[unit].wait();
      EXPECT_EQ(rank.total(), before + rank.unit_bytes(unit)) << "bytes after wait()\n" << kViews;
      rank.units[unit].release();
      rank.expect_released();
      EXPECT_EQ(rank.total(), before) << "bytes after release()\n" << kFree;
      EXPECT_EQ(rank.bytes(MemoryCategory::kParameters), shards) << kCategory;
    }
  };
  for_ranks(measure, ultra::test::on_call());
}

void expect_error(const std::function<void()>& fn, const char* hint) {
  try {
    fn();
  } catch (const InternalError&) {
    return;
  }
  ADD_FAILURE() << "nothing was thrown\n" << hint;
}

TEST_F(UnitWeightsTest, CallsOutOfOrderAreErrors) {
  for_ranks([](Rank& rank, const Communicator&, const std::vector<Values>& initial) {
    UnitWeights& unit = rank.units[1];
    expect_error([&] { unit.wait(); }, kStartFirst);
    expect_error([&] { unit.release(); }, kReleased);
    unit.start_gather();
    expect_error([&] { unit.start_gather(); }, kOnce);
    unit.wait();
    expect_error([&] { unit.start_gather(); }, kOnce);
    rank.expect_values(1, initial, kSet);
    unit.release();
    expect_error([&] { unit.release(); }, kReleased);
    expect_error([&] { unit.wait(); }, kStartFirst);
  });
}

}  // namespace
}  // namespace ultra::zero
