#include "common/nn/parameter.hpp"

#include "common/ops/elementwise.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

using enum MemoryCategory;

class ParameterTest : public test::RandomTest {
 protected:
  [[nodiscard]] static ParameterSpec spec(const Shape& shape, std::vector<Range> shard = {}) {
    return {.name = "model.w",
            .global_shape = shape,
            .shard = std::move(shard),
            .initializer = {.standard_deviation = 0.02}};
  }

  /// A part of each dimension; it may be empty.
  std::vector<Range> draw_shard(const Shape& shape) {
    std::vector<Range> shard;
    for (const std::size_t extent : shape.dims()) {
      const std::size_t begin = random.between(0, extent);
      shard.push_back({begin, random.between(begin, extent)});
    }
    return shard;
  }

  [[nodiscard]] std::size_t bytes_of_parameters() const {
    return device.memory().current()[kParameters];
  }

  /// Adds a constant to every element of the gradient.
  static void add(Parameter& parameter, double amount) {
    parameter.add_grad([amount](const Tensor& grad, ops::Write write) {
      const Tensor term = Tensor::empty(grad.device(), grad.shape(), grad.dtype());
      term.fill(amount);
      ops::write_or_add(grad, term, write);
    });
  }
};

TEST_F(ParameterTest, AnyShardStartsAsThatPartOfTheWhole) {
  for (int round = 0; round < 20; ++round) {
    const Shape shape{random.between(1, 9), random.between(1, 9)};
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const Parameter whole(spec(shape), device, dtype, seed);
    const std::vector<Range> shard = draw_shard(shape);
    const Parameter part(spec(shape, shard), device, dtype, seed);
    EXPECT_TRUE(test::all_equal(part.value(), whole.value().slice(0, shard[0]).slice(1, shard[1])));
  }
}

TEST_F(ParameterTest, PaddingStandsBehindTheShardAndIsZero) {
  for (const DType dtype : test::kFloatDTypes) {
    const Shape shape{random.between(1, 9), random.between(1, 9)};
    const Parameter whole(spec(shape), device, dtype, seed);
    ParameterSpec padded = spec(shape, draw_shard(shape));
    padded.padding = random.between(1, 4);
    const Parameter part(padded, device, dtype, seed);
    const Range rows = padded.shard[0];
    EXPECT_EQ(part.shape(), (Shape{rows.size() + padded.padding, padded.shard[1].size()}));
    EXPECT_EQ(part.own_count(), rows.size() * padded.shard[1].size());
    const Tensor own = part.value().slice(0, {0, rows.size()});
    EXPECT_TRUE(test::all_equal(own, whole.value().slice(0, rows).slice(1, padded.shard[1])));
    const std::size_t first = random.between(0, part.count());
    const Tensor some = Tensor::empty(device, {part.count() - first}, dtype);
    part.initial_values_into(some, first);
    const Tensor flat = part.value().view({part.count()});
    EXPECT_TRUE(test::all_equal(some, flat.slice(0, {first, part.count()})));
    for (const double value : flat.slice(0, {part.own_count(), part.count()}).to_vector()) {
      EXPECT_EQ(value, 0.0);
    }
  }
}

TEST_F(ParameterTest, OtherNamesAndSeedsStartElsewhere) {
  const Parameter a(spec({9}), device, DType::kF64, seed);
  const Parameter b(spec({9}), device, DType::kF64, seed + 1);
  ParameterSpec renamed = spec({9});
  renamed.name = "model.v";
  const Parameter c(renamed, device, DType::kF64, seed);
  EXPECT_FALSE(test::all_equal(a.value(), b.value()));
  EXPECT_FALSE(test::all_equal(a.value(), c.value()));
}

TEST_F(ParameterTest, GradientsAddUpUntilTheyAreDropped) {
  Parameter p(spec({4}), device, DType::kF64, seed);
  add(p, 1.5);
  EXPECT_THAT(p.grad().to_vector(), ::testing::Each(1.5));
  EXPECT_EQ(p.grad().category(), kGradients);
  add(p, 1.5);
  EXPECT_THAT(p.grad().to_vector(), ::testing::Each(3.0));
  p.drop_grad();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_EQ(device.memory().current()[kGradients], 0U);
  add(p, -2.0);
  EXPECT_THAT(p.grad().to_vector(), ::testing::Each(-2.0));
}

TEST_F(ParameterTest, GradientsCanStandInAPartOfALargerBuffer) {
  Parameter p(spec({2, 2}), device, DType::kF64, seed);
  const Tensor flat = Tensor::zeros(device, {7}, DType::kF64, kGradients);
  flat.fill(9.0);
  const HookHandle hook = p.allocate_grad_by([&] { return flat.slice(0, {1, 5}).view({2, 2}); });
  EXPECT_FALSE(p.grad().defined());
  add(p, 2.0);
  EXPECT_THAT(flat.to_vector(), ElementsAre(9, 2, 2, 2, 2, 9, 9)) << "over what stood there";
  EXPECT_TRUE(p.grad().shares_storage(flat));
  add(p, 0.5);
  EXPECT_THAT(flat.to_vector(), ElementsAre(9, 2.5, 2.5, 2.5, 2.5, 9, 9)) << "added";
  EXPECT_EQ(device.memory().current()[kGradients], 56U) << "the buffer and nothing else";

  p.drop_grad();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_THAT(flat.to_vector(), ElementsAre(9, 2.5, 2.5, 2.5, 2.5, 9, 9)) << "let go of, not freed";
  add(p, 3.0);
  EXPECT_THAT(flat.to_vector(), ElementsAre(9, 3, 3, 3, 3, 9, 9)) << "afresh";
}

TEST_F(ParameterTest, MemoryOfAnotherShapeOrDtypeCannotHoldTheGradient) {
  Parameter p(spec({4}), device, DType::kF64, seed);
  const auto message_for = [&](const Tensor& memory) {
    const HookHandle hook = p.allocate_grad_by([memory] { return memory; });
    const std::string message = message_of<ShapeError>([&] { add(p, 1.0); });
    EXPECT_FALSE(p.grad().defined());
    return message;
  };
  const std::string expected = "gradient of a parameter: expected [4] of f64, found ";
  EXPECT_THAT(message_for(Tensor::zeros(device, {10}, DType::kF64)),
              HasSubstr(expected + "[10] of f64"));
  EXPECT_THAT(message_for(Tensor::zeros(device, {2, 2}, DType::kF64)),
              HasSubstr(expected + "[2, 2] of f64"));
  EXPECT_THAT(message_for(Tensor::zeros(device, {4}, DType::kF32)),
              HasSubstr(expected + "[4] of f32"));
  EXPECT_THAT(message_for(Tensor()), HasSubstr(expected + "an undefined tensor"));
}

TEST_F(ParameterTest, ADeferredAdditionAsksForMemoryWhenItRuns) {
  Parameter p(spec({1}), device, DType::kF64, seed);
  int asked = 0;
  const HookHandle hook = p.allocate_grad_by([&] {
    ++asked;
    return Tensor::zeros(device, {1}, DType::kF64, kGradients);
  });
  DeferredGradients queue;
  p.defer_grads_to(&queue);
  add(p, 1.0);
  add(p, 2.0);
  EXPECT_EQ(asked, 0);
  queue.run();
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(p.grad().to_vector(), ElementsAre(3.0));
}

TEST_F(ParameterTest, AnotherShapeOrDtypeCannotHoldTheValues) {
  Parameter p(spec({4}), device, DType::kF64, seed, Values::kDeferred);
  const auto message_for = [&](const Tensor& value) {
    return message_of<ShapeError>([&] { p.set_value(value); });
  };
  const std::string expected = "model.w: expected [4] of f64, found ";
  EXPECT_THAT(message_for(Tensor::zeros(device, {5}, DType::kF64)),
              HasSubstr(expected + "[5] of f64"));
  EXPECT_THAT(message_for(Tensor::zeros(device, {2, 2}, DType::kF64)),
              HasSubstr(expected + "[2, 2] of f64"));
  EXPECT_THAT(message_for(Tensor::zeros(device, {4}, DType::kF32)),
              HasSubstr(expected + "[4] of f32"));
  EXPECT_THAT(message_for(Tensor()), HasSubstr(expected + "an undefined tensor"));
  EXPECT_FALSE(p.has_value());
}

TEST_F(ParameterTest, GroupsThatHoldItAreKnownByName) {
  Parameter p(spec({2}), device, DType::kF32, seed);
  EXPECT_TRUE(p.replications().empty());
  EXPECT_TRUE(p.is_owner()) << "nobody else has it";
  const Replication heads{
      .group = "heads", .size = 2, .index = 0, .gradients = CopyGradients::kPartial};
  const Replication twins{.group = "twins", .size = 2, .index = 1};
  p.replicate(heads);
  EXPECT_TRUE(p.is_owner()) << "the first of the group";
  p.replicate({.group = "alone", .size = 1});
  p.replicate(twins);
  EXPECT_THAT(p.replications(), ElementsAre(heads, twins)) << "a group of one rank is none";
  EXPECT_FALSE(p.is_owner()) << "not the first in each";
  EXPECT_THAT(message_of<InternalError>([&] { p.replicate({.group = "heads", .size = 4}); }),
              HasSubstr("parameter model.w is replicated over 'heads' twice"));
}

TEST_F(ParameterTest, ValuesThatAreNotHereAreAnErrorThatNamesTheParameter) {
  Parameter p(spec({2}), device, DType::kF64, seed, Values::kDeferred);
  const auto message = [&] {
    return message_of<InternalError>([&] { static_cast<void>(p.value()); });
  };
  EXPECT_THAT(message(), HasSubstr("the values of model.w are not on this rank"));
  p.set_value(Tensor::zeros(device, {2}, DType::kF64));
  EXPECT_THAT(p.value().to_vector(), ElementsAre(0, 0));
  p.drop_value();
  EXPECT_THAT(message(), HasSubstr("the values of model.w are not on this rank"));
}

TEST_F(ParameterTest, ValuesComeAndGo) {
  Parameter p(spec({2, 3}), device, DType::kF64, seed);
  EXPECT_TRUE(p.has_value());
  EXPECT_EQ(bytes_of_parameters(), 48U);
  p.drop_value();
  EXPECT_FALSE(p.has_value());
  EXPECT_EQ(bytes_of_parameters(), 0U) << "nobody else holds them";
  {
    const Tensor value = Tensor::empty(device, {2, 3}, DType::kF64, kParameters);
    p.set_value(value);
    p.drop_value();
    EXPECT_EQ(bytes_of_parameters(), 48U) << "let go of, not freed";
    p.set_value(value);
  }
  EXPECT_EQ(bytes_of_parameters(), 48U) << "the parameter alone holds them";
  EXPECT_TRUE(p.has_value());
}

TEST_F(ParameterTest, InitialValuesAreThoseOfAnAllocatedParameterWholeOrInParts) {
  for (int round = 0; round < 40; ++round) {
    ParameterSpec part = spec({random.between(1, 9), random.between(1, 9)});
    if (random.between(0, 2) > 0) part.shard = draw_shard(part.global_shape);
    if (random.between(0, 2) == 0) part.initializer = {.constant = random.uniform(-2.0, 2.0)};
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const Parameter allocated(part, device, dtype, seed);
    const Parameter deferred(part, device, dtype, seed, Values::kDeferred);

    const Tensor whole = Tensor::empty(device, deferred.shape(), dtype);
    deferred.initial_values_into(whole);
    EXPECT_TRUE(test::all_equal(whole, allocated.value()));

    const std::size_t first = random.between(0, deferred.count());
    const std::size_t count = random.between(0, deferred.count() - first);
    const Tensor elements = Tensor::empty(device, {count}, dtype);
    deferred.initial_values_into(elements, first);
    const Tensor flat = allocated.value().view({allocated.count()});
    EXPECT_TRUE(test::all_equal(elements, flat.slice(0, {first, first + count})))
        << "elements [" << first << ", " << first + count << ") of " << deferred.shape().str();
  }
}

TEST_F(ParameterTest, ElementsThatTheShardHasNotAreAnErrorForEveryInitializer) {
  for (const double deviation : {0.02, 0.0}) {
    ParameterSpec part = spec({4, 3}, {{0, 2}, {1, 3}});
    part.initializer = {.standard_deviation = deviation, .constant = 1.0};
    const Parameter p(part, device, DType::kF32, seed, Values::kDeferred);
    const auto message_for = [&](std::size_t count, std::size_t first) {
      const Tensor out = Tensor::empty(device, {count}, DType::kF32);
      return message_of<ShapeError>([&] { p.initial_values_into(out, first); });
    };
    const std::string rest = ") do not fit parameter model.w, which has 4";
    EXPECT_THAT(message_for(3, 2), HasSubstr("elements [2, 5" + rest)) << deviation;
    EXPECT_THAT(message_for(5, 0), HasSubstr("elements [0, 5" + rest)) << deviation;
    EXPECT_THAT(message_for(0, 5), HasSubstr("elements [5, 5" + rest)) << deviation;
  }
}

TEST_F(ParameterTest, HooksRunAfterEachAdditionInTheirOrder) {
  Parameter p(spec({1}), device, DType::kF64, seed);
  std::vector<std::string> calls;
  HookHandle first = p.on_grad_ready([&](Parameter& ready) {
    calls.push_back("first " + std::to_string(static_cast<int>(ready.grad().to_vector()[0])));
  });
  const HookHandle second = p.on_grad_ready([&](Parameter&) { calls.emplace_back("second"); });
  add(p, 1.0);
  add(p, 1.0);
  EXPECT_THAT(calls, ElementsAre("first 1", "second", "first 2", "second"));
  first.reset();
  add(p, 1.0);
  EXPECT_EQ(calls.size(), 5U) << "a hook whose handle is gone is not called";
}

TEST_F(ParameterTest, ADeferredAdditionWaitsForTheQueueAndSoDoItsHooks) {
  Parameter p(spec({1}), device, DType::kF64, seed);
  int ready = 0;
  const HookHandle hook = p.on_grad_ready([&](Parameter&) { ++ready; });
  DeferredGradients queue;
  p.defer_grads_to(&queue);
  add(p, 1.0);
  add(p, 2.0);
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_FALSE(p.grad().defined());
  EXPECT_EQ(ready, 0);
  queue.run();
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_THAT(p.grad().to_vector(), ElementsAre(3.0));
  EXPECT_EQ(ready, 2);
  p.defer_grads_to(nullptr);
  add(p, 4.0);
  EXPECT_THAT(p.grad().to_vector(), ElementsAre(7.0));
}

TEST_F(ParameterTest, QueuedWorkRunsInOrderAndMayQueueMore) {
  DeferredGradients queue;
  std::vector<int> order;
  queue.push([&] {
    order.push_back(1);
    queue.push([&] { order.push_back(3); });
  });
  queue.push([&] { order.push_back(2); });
  queue.run();
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_EQ(queue.size(), 1U);
  queue.run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST_F(ParameterTest, TheGradientOfALinearMapAddsUpOverTokensAndMicroBatches) {
  Parameter weight(spec({2, 3}), device, DType::kF64, seed);
  const std::vector<double> of_outputs{1, 2, 3, 4};
  const std::vector<double> inputs{1, 0, 2, 0, 1, 1};
  const Tensor d_y = Tensor::from<double>(device, {1, 2, 2}, of_outputs);
  const Tensor x = Tensor::from<double>(device, {1, 2, 3}, inputs);
  add_matmul_grad(weight, d_y, x);
  EXPECT_THAT(weight.grad().to_vector(), ElementsAre(1, 3, 5, 2, 4, 8));
  DeferredGradients queue;
  weight.defer_grads_to(&queue);
  add_matmul_grad(weight, d_y, x);
  EXPECT_EQ(queue.size(), 1U);
  queue.run();
  EXPECT_THAT(weight.grad().to_vector(), ElementsAre(2, 6, 10, 4, 8, 16));
}

TEST_F(ParameterTest, AShardThatDoesNotFitIsAnErrorForEveryInitializer) {
  for (const double deviation : {0.02, 0.0}) {
    for (const std::vector<Range>& shard :
         {std::vector<Range>{{0, 5}, {0, 3}}, {{2, 1}, {0, 3}}, {{0, 4}}}) {
      ParameterSpec bad = spec({4, 3}, shard);
      bad.initializer = {.standard_deviation = deviation, .constant = 1.0};
      for (const Values values : {Values::kAllocated, Values::kDeferred}) {
        EXPECT_THAT(message_of<ShapeError>(
                        [&] { const Parameter p(bad, device, DType::kF32, seed, values); }),
                    HasSubstr("shard"))
            << deviation;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::nn
